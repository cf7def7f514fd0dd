//! Daemons that run for this job alone: one here, which is our child and holds our connection, and if other
//! hosts are wanted one on each of them, which `mpdboot` starts and brings into its ring.
//!
//! The ring has a name and a key that are made now and stand in no file. It ends with the connection, or
//! with the job that the connection was given to: then our daemon tells all others to leave.

use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mpd_channel::KeyText;
use mpd_io::conn::Conn;
use mpd_io::identity::Closed;
use mpd_io::ringname::RingName;
use mpd_io::rundir::{RunDir, host_name};
use mpd_io::search::in_path;
use mpd_io::signals::Signals;
use mpd_io::spawn::{Extra, Spawn, own_environment};
use mpd_io::{keyfile, thishost};
use mpd_placement::hosts::HostEntry;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::demand::{self, Demand, Launcher};

/// Signals that end a job which is not started yet.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The processes that are ours.
#[derive(Debug, Default)]
pub struct Private {
    daemon: Option<Pid>,
    boot: Option<Boot>,
}

impl Private {
    /// Waits until they have left, so that nothing is there when we are gone. To be called when our
    /// connection is closed.
    pub fn wait(self) {
        if let Some(pid) = self.daemon {
            let _ = waitpid(pid, None);
        }
        if let Some(Boot { pid, order, words }) = self.boot {
            // It ends the remote shells.
            drop((order, words));
            let _ = waitpid(pid, None);
        }
    }
}

/// What came of starting daemons.
#[derive(Debug)]
pub enum Started {
    /// They are there.
    Up(Conn, Private),
    /// This signal came before; nothing is left.
    Interrupted(i32),
}

/// Where consoles find a private ring.
#[derive(Debug)]
pub struct Listing {
    /// Of the sockets.
    pub directory: PathBuf,
    /// The run directory above goes with the last socket if nothing else is in it.
    pub removes_rundir: bool,
}

/// Starts a daemon here, and one on each other host that is wanted. Consoles find the ring where it is `listed`.
///
/// # Errors
/// One of them cannot be had. Nothing is left then, and who failed and why is told on standard error.
pub fn start(
    demand: &Demand,
    verbose: bool,
    listed: Option<&Listing>,
    signals: &mut Signals,
) -> Result<Started> {
    let here = host_name();
    let ours = thishost::names_of_this_host(&demand.hosts, &here);
    let own = demand.hosts.iter().find(|entry| ours.contains(&entry.host));
    if demand.hosts.iter().all(|entry| ours.contains(&entry.host)) {
        let (conn, daemon) = Daemon::start(own, None, listed)?.ready()?;
        return Ok(Started::Up(conn, Private { daemon: Some(daemon), boot: None }));
    }
    // A rank of another job, or another program of this user, could read the key in our memory or from a pipe.
    let _closed = Closed::begin().context("cannot close /proc to others")?;
    let name = RingName::private()?;
    let key = keyfile::generate(name.as_str())?;
    let ring = Ring { rundir: RunDir::private(&name, &here), name, key };
    let others = demand.hosts.iter().filter(|entry| !ours.contains(&entry.host));
    let daemon = Daemon::start(own, Some(&ring), listed)?;
    // Both take their time to begin.
    let boot = Boot::start(&ring, &demand.launcher, verbose);
    let (conn, daemon) = daemon.ready()?;
    let boot = boot.and_then(|boot| boot.raise(ring, others, signals));
    let problem = match boot {
        Ok(Booted::Up(boot)) => {
            return Ok(Started::Up(conn, Private { daemon: Some(daemon), boot: Some(boot) }));
        }
        Ok(Booted::Interrupted(signal)) => Ok(Started::Interrupted(signal)),
        Ok(Booted::Failed) => {
            let text =
                "there is no ring for the job without a daemon on every host; nothing was run";
            Err(anyhow::Error::msg(text))
        }
        Err(error) => Err(error),
    };
    drop(conn);
    Private { daemon: Some(daemon), boot: None }.wait();
    problem
}

/// A ring that is to be.
#[derive(Debug)]
struct Ring {
    name: RingName,
    key: KeyText,
    rundir: RunDir,
}

/// A daemon here that is starting.
#[derive(Debug)]
struct Daemon {
    pid: Pid,
    conn: UnixStream,
    /// Where it says that it serves, if others may enter: one alone need not.
    told: Option<PipeReader>,
}

impl Daemon {
    /// Starts `mpd` for us alone; with `ring`, others may enter.
    fn start(
        own: Option<&HostEntry>,
        ring: Option<&Ring>,
        listed: Option<&Listing>,
    ) -> Result<Self> {
        let program = find("mpd")?;
        let (conn, theirs) = UnixStream::pair().context("cannot make a socket")?;
        let words = daemon_words(own, ring, listed);
        let null: OwnedFd = OpenOptions::new().read(true).write(true).open("/dev/null")?.into();
        let (null, stderr) = (null.as_fd(), io::stderr());
        let spawn = Spawn::new(program.as_os_str().as_bytes(), words, own_environment())?;
        let failed = || format!("cannot start {}", program.display());
        let start = |descriptors: &[BorrowedFd<'_>]| {
            spawn.start(descriptors, Extra::default(), None).with_context(failed)
        };
        let Some(ring) = ring else {
            let pid = start(&[null, null, stderr.as_fd(), theirs.as_fd()])?;
            return Ok(Self { pid, conn, told: None });
        };
        let (told, ready) = io::pipe().context("cannot make a pipe")?;
        let (input, mut key) = io::pipe().context("cannot make a pipe")?;
        let pid = start(&[input.as_fd(), null, null, theirs.as_fd(), ready.as_fd()])?;
        drop(input);
        // If nobody reads it, the daemon's own words say why.
        let _ = key.write_all(ring.key.to_text().as_bytes());
        Ok(Self { pid, conn, told: Some(told) })
    }

    /// Our connection and its process, when it serves. If it does not, it is gone.
    fn ready(self) -> Result<(Conn, Pid)> {
        let Self { pid, conn, told } = self;
        let Some(mut told) = told else { return Ok((Conn::new(conn)?, pid)) };
        let mut word = String::new();
        told.read_to_string(&mut word).context("cannot hear from the daemon")?;
        if word.starts_with("ready") {
            return Ok((Conn::new(conn)?, pid));
        }
        drop(conn);
        let _ = waitpid(pid, None);
        match word.trim_end() {
            "" => bail!("the daemon for this job died at its start"),
            problem => bail!("the daemon for this job: {problem}"),
        }
    }
}

fn daemon_words(
    own: Option<&HostEntry>,
    ring: Option<&Ring>,
    listed: Option<&Listing>,
) -> Vec<Vec<u8>> {
    let mut words = vec![b"mpd".to_vec(), b"--private".to_vec()];
    let mut option = |name: &str, value: Vec<u8>| words.extend([name.into(), value]);
    option("--owner", std::process::id().to_string().into_bytes());
    if let Some(listed) = listed {
        option("--listed", listed.directory.as_os_str().to_owned().into_vec());
    }
    if let Some(own) = own {
        if !thishost::is_loopback(&own.host) {
            option("--name", own.host.clone().into_bytes());
        }
        if let Some(ncpus) = own.ncpus {
            option("--ncpus", ncpus.to_string().into_bytes());
        }
        if let Some(ifhn) = own.ifhn.as_ref().filter(|_| ring.is_some()) {
            option("--ifhn", ifhn.clone().into_bytes());
        }
    }
    let removes_rundir = listed.is_some_and(|listed| listed.removes_rundir);
    if let Some(ring) = ring {
        option("--ring", ring.name.as_str().into());
        option("--rundir", ring.rundir.path().as_os_str().to_owned().into_vec());
        option("--key", keyfile::STANDARD_INPUT.into());
        // Before all that enter.
        option("--ordinal", b"1".to_vec());
        words.extend([b"--open".to_vec(), b"--tell-ready".to_vec()]);
    }
    if removes_rundir {
        words.push(b"--removes-rundir".to_vec());
    }
    words
}

/// A running `mpdboot`.
#[derive(Debug)]
struct Boot {
    pid: Pid,
    /// Its standard input, whose end would tell that nobody waits any more.
    order: PipeWriter,
    /// Where it says that the ring is there; its end is that of the process.
    words: PipeReader,
}

/// What came of it.
#[derive(Debug)]
enum Booted {
    /// All are in the ring. The process holds the remote shells.
    Up(Boot),
    /// It told why not.
    Failed,
    Interrupted(i32),
}

impl Boot {
    /// It waits for its order.
    fn start(ring: &Ring, launcher: &Launcher, verbose: bool) -> Result<Self> {
        let program = find("mpdboot")?;
        let (words, said) = io::pipe().context("cannot make a pipe")?;
        let (input, order) = io::pipe().context("cannot make a pipe")?;
        let launcher = launcher.command(|program| in_path(program).is_some());
        let mut argv =
            vec!["mpdboot", "--private", "--ring", ring.name.as_str(), "--rsh", &launcher];
        if verbose {
            argv.push("--verbose");
        }
        let spawn = Spawn::new(program.as_os_str().as_bytes(), argv, own_environment())?;
        // In a session of its own: the terminal's signals are for us to judge.
        let pid = spawn
            .start(&[input.as_fd(), said.as_fd(), io::stderr().as_fd()], Extra::default(), None)
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { pid, order, words })
    }

    /// Has daemons started on `others` than this host, whose daemon serves, and waits until the ring is
    /// there or cannot be had.
    fn raise<'a>(
        mut self,
        ring: Ring,
        others: impl Iterator<Item = &'a HostEntry>,
        signals: &mut Signals,
    ) -> Result<Booted> {
        let end = ["\n".to_owned()];
        let lines: String = others.map(demand::line).chain(end).collect();
        // One that does not read it has told why.
        let _ = self
            .order
            .write_all(ring.key.to_text().as_bytes())
            .and_then(|()| self.order.write_all(lines.as_bytes()));
        // Wipes the key.
        drop(ring);
        self.wait(signals)
    }

    fn wait(mut self, signals: &mut Signals) -> Result<Booted> {
        let mut said = Vec::new();
        let mut came = None;
        loop {
            let mut fds = [
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.words.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("cannot wait for mpdboot"),
            }
            let speaks = fds[1].any().unwrap_or(false);
            let ending = signals.pending().into_iter().find(|signal| ENDING.contains(signal));
            if let (None, Some(signal)) = (came, ending) {
                came = Some(signal);
                let _ = kill(self.pid, Signal::SIGTERM);
            }
            if !speaks {
                continue;
            }
            let mut buffer = [0; 64];
            match self.words.read(&mut buffer) {
                Ok(0) => return self.end(came),
                Ok(n) => said.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot hear from mpdboot"),
            }
            if said.ends_with(b"up\n") && came.is_none() {
                return Ok(Booted::Up(self));
            }
        }
    }

    /// It said nothing and closed its output.
    fn end(self, came: Option<i32>) -> Result<Booted> {
        match (waitpid(self.pid, None), came) {
            (_, Some(signal)) => Ok(Booted::Interrupted(signal)),
            (Ok(WaitStatus::Signaled(_, signal, _)), None) => {
                bail!("mpdboot was killed by {signal}")
            }
            (_, None) => Ok(Booted::Failed),
        }
    }
}

/// A program of the suite: beside this executable, else in PATH.
fn find(program: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let beside = own.with_file_name(program);
    if beside.is_file() {
        return Ok(beside);
    }
    in_path(program).with_context(|| {
        format!(
            "cannot find a program of the suite: no {program} beside {} nor in PATH",
            own.display()
        )
    })
}
