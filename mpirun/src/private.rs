//! Private daemons, which run for one job. The daemon of this host is a child of mpirun and holds
//! mpirun's connection. If the job needs other hosts, `mpdboot` starts one daemon on each and
//! brings it into the same ring.
//!
//! The ring has a new name and a new key, which is in no file. It ends with mpirun's connection, or
//! with the job to which that connection was passed. The daemon of this host then asks all others
//! to leave.

use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mpd_channel::KeyText;
use mpd_io::conn::Conn;
use mpd_io::identity::Closed;
use mpd_io::pidfd::Pidfd;
use mpd_io::ringname::RingName;
use mpd_io::rundir::{RunDir, host_name};
use mpd_io::search::in_path;
use mpd_io::signals::{self, Signals};
use mpd_io::spawn::{Extra, Fate, Spawn, own_environment, wait_for};
use mpd_io::{keyfile, thishost, tree};
use mpd_placement::hosts::HostEntry;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::demand::{self, Demand, Launcher};

/// How long private daemons that are not wanted may take to end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a stopped process is waited for.
const MOMENT: Duration = Duration::from_millis(500);

/// Signals that end mpirun before the job has started.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The processes of a private ring.
#[derive(Debug, Default)]
pub struct Private {
    daemon: Option<Pid>,
    boot: Option<Boot>,
}

impl Private {
    /// The daemon of this host.
    pub(crate) const fn daemon(&self) -> Option<Pid> {
        self.daemon
    }

    /// Waits until the processes have ended, so that none is left after mpirun. It waits for a stopped one only a moment,
    /// and for another one at most `patience`. The caller must have closed its connection. Returns a text about a process that
    /// has not ended.
    pub fn wait(self, patience: Duration) -> Option<String> {
        let daemon = self.daemon.and_then(|pid| await_end(pid, "private daemon", patience));
        let boot = self.boot.and_then(|Boot { pid, stdin, stdout }| {
            // The end of the pipe ends `mpdboot`, which ends the remote shells.
            drop((stdin, stdout));
            await_end(pid, "mpdboot", patience)
        });
        daemon.or(boot)
    }
}

/// Waits for the end of a child.
fn await_end(pid: Pid, name: &str, patience: Duration) -> Option<String> {
    let began = Instant::now();
    loop {
        let process = Pidfd::open(pid);
        let step = MOMENT.min(patience.saturating_sub(began.elapsed()));
        let has_ended = match &process {
            Ok(process) => process.wait(step),
            // Without pidfds, the end is waited for without a bound.
            Err(_) => true,
        };
        if has_ended {
            let _ = wait_for(pid);
            return None;
        }
        let is_stopped = tree::is_suspended(pid) == Some(true);
        if is_stopped || began.elapsed() >= patience {
            let state = if is_stopped { "is stopped" } else { "has not ended" };
            return Some(format!(
                "the {name} of this job (process {pid}) {state}; it ends when it continues ('kill -CONT {pid}')"
            ));
        }
    }
}

/// The result of starting daemons.
#[derive(Debug)]
pub enum Started {
    /// The daemons are running.
    Up(Conn, Private),
    /// This signal arrived first; no process is left.
    Interrupted(i32),
}

/// Where consoles find a private ring.
#[derive(Debug)]
pub struct Listing {
    /// Directory of the sockets.
    pub directory: PathBuf,
    /// Whether the parent run directory is removed with the last socket, if it is then empty.
    pub removes_rundir: bool,
}

/// Starts a daemon on this host, and one on each other host of the demand. `listed` is where
/// consoles find the ring.
///
/// # Errors
/// A daemon could not be started. No process is left in that case; standard error has the failed
/// hosts and reasons.
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
    if let Some(refusal) = &demand.refusal {
        bail!("{refusal}");
    }
    // Otherwise a rank of another job, or another program of this user, could read the key in
    // memory or from a pipe.
    let _closed = Closed::begin().context("cannot close /proc to others")?;
    let name = RingName::private()?;
    let key = keyfile::generate(name.as_str())?;
    let ring = Ring { rundir: RunDir::private(&name, &here), name, key };
    let others = demand.hosts.iter().filter(|entry| !ours.contains(&entry.host));
    let daemon = Daemon::start(own, Some(&ring), listed)?;
    // Both processes start in parallel.
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
    let _ = Private { daemon: Some(daemon), boot: None }.wait(PATIENCE);
    problem
}

/// A ring to start.
#[derive(Debug)]
struct Ring {
    name: RingName,
    key: KeyText,
    rundir: RunDir,
}

/// A starting daemon of this host.
#[derive(Debug)]
struct Daemon {
    pid: Pid,
    conn: UnixStream,
    /// Pipe on which the daemon reports that it serves; `None` for a ring of one daemon.
    reported: Option<PipeReader>,
}

impl Daemon {
    /// Starts `mpd` for this job; with `ring`, other daemons may join.
    fn start(
        own: Option<&HostEntry>,
        ring: Option<&Ring>,
        listed: Option<&Listing>,
    ) -> Result<Self> {
        let program = find("mpd")?;
        let (conn, theirs) = UnixStream::pair().context("cannot make a socket")?;
        let arguments = daemon_arguments(own, ring, listed);
        let null = OpenOptions::new().read(true).write(true).open("/dev/null");
        let null: OwnedFd = null.context("cannot open /dev/null")?.into();
        let (null, stderr) = (null.as_fd(), io::stderr());
        let spawn = Spawn::new(program.as_os_str().as_bytes(), arguments, own_environment())?;
        let failed = || format!("cannot start {}", program.display());
        let start = |descriptors: &[BorrowedFd<'_>]| {
            spawn.start(descriptors, Extra::default(), None).with_context(failed)
        };
        let Some(ring) = ring else {
            let pid = start(&[null, null, stderr.as_fd(), theirs.as_fd()])?;
            return Ok(Self { pid, conn, reported: None });
        };
        let (reported, ready) = io::pipe().context("cannot make a pipe")?;
        let (input, mut key) = io::pipe().context("cannot make a pipe")?;
        let pid = start(&[input.as_fd(), null, null, theirs.as_fd(), ready.as_fd()])?;
        drop(input);
        // If the daemon does not read the key, its own message has the reason.
        let _ = key.write_all(ring.key.to_text().as_bytes());
        Ok(Self { pid, conn, reported: Some(reported) })
    }

    /// The connection and the process id, when the daemon serves. On an error the daemon has ended.
    fn ready(self) -> Result<(Conn, Pid)> {
        let Self { pid, conn, reported } = self;
        let Some(mut reported) = reported else { return Ok((Conn::new(conn), pid)) };
        let mut report = String::new();
        reported.read_to_string(&mut report).context("cannot read from the daemon")?;
        if report.starts_with("ready") {
            return Ok((Conn::new(conn), pid));
        }
        drop(conn);
        let _ = wait_for(pid);
        match report.trim_end() {
            "" => bail!("the daemon for this job died at its start"),
            problem => bail!("the daemon for this job: {problem}"),
        }
    }
}

fn daemon_arguments(
    own: Option<&HostEntry>,
    ring: Option<&Ring>,
    listed: Option<&Listing>,
) -> Vec<Vec<u8>> {
    let mut arguments = vec![b"mpd".to_vec(), b"--private".to_vec()];
    let mut option = |name: &str, value: Vec<u8>| arguments.extend([name.into(), value]);
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
        // The first place in the ring.
        option("--ordinal", b"1".to_vec());
        arguments.extend([b"--open".to_vec(), b"--report-ready".to_vec()]);
    }
    if removes_rundir {
        arguments.push(b"--removes-rundir".to_vec());
    }
    arguments
}

/// A running `mpdboot`.
#[derive(Debug)]
struct Boot {
    pid: Pid,
    /// Standard input of `mpdboot`, whose end asks it to end.
    stdin: PipeWriter,
    /// Standard output of `mpdboot`, which reports the complete ring. Its end is the end of the
    /// process.
    stdout: PipeReader,
}

/// The result of `mpdboot`.
#[derive(Debug)]
enum Booted {
    /// All daemons are in the ring. The process holds the remote shells.
    Up(Boot),
    /// It failed and has printed the reason.
    Failed,
    Interrupted(i32),
}

impl Boot {
    /// Starts `mpdboot`, which waits for its request.
    fn start(ring: &Ring, launcher: &Launcher, verbose: bool) -> Result<Self> {
        let program = find("mpdboot")?;
        let (stdout, output) = io::pipe().context("cannot make a pipe")?;
        let (input, stdin) = io::pipe().context("cannot make a pipe")?;
        let launcher = launcher.command(|program| in_path(program).is_some());
        let mut argv =
            vec!["mpdboot", "--private", "--ring", ring.name.as_str(), "--rsh", &launcher];
        if verbose {
            argv.push("--verbose");
        }
        let spawn = Spawn::new(program.as_os_str().as_bytes(), argv, own_environment())?;
        // In a session of its own, because mpirun decides about signals of the terminal.
        let pid = spawn
            .start(&[input.as_fd(), output.as_fd(), io::stderr().as_fd()], Extra::default(), None)
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { pid, stdin, stdout })
    }

    /// Starts daemons on the `others` hosts, when the daemon of this host serves. Waits until the
    /// ring is complete or has failed.
    fn raise<'a>(
        mut self,
        ring: Ring,
        others: impl Iterator<Item = &'a HostEntry>,
        signals: &mut Signals,
    ) -> Result<Booted> {
        let end = ["\n".to_owned()];
        let lines: String = others.map(demand::line).chain(end).collect();
        // An `mpdboot` that does not read its request has printed the reason.
        let _ = self
            .stdin
            .write_all(ring.key.to_text().as_bytes())
            .and_then(|()| self.stdin.write_all(lines.as_bytes()));
        // Wipes the key.
        drop(ring);
        self.wait(signals)
    }

    fn wait(mut self, signals: &mut Signals) -> Result<Booted> {
        let mut output = Vec::new();
        let mut came = None;
        loop {
            let mut fds = [
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.stdout.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("cannot wait for mpdboot"),
            }
            let is_readable = fds[1].any().unwrap_or(true);
            let ending = signals.pending().into_iter().find(|signal| ENDING.contains(signal));
            if let (None, Some(signal)) = (came, ending) {
                came = Some(signal);
                let _ = kill(self.pid, Signal::SIGTERM);
            }
            if !is_readable {
                continue;
            }
            let mut buffer = [0; 64];
            match self.stdout.read(&mut buffer) {
                Ok(0) => return self.end(came),
                Ok(n) => output.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot read from mpdboot"),
            }
            if output.ends_with(b"up\n") && came.is_none() {
                return Ok(Booted::Up(self));
            }
        }
    }

    /// Handles the end of `mpdboot` without a report.
    fn end(self, came: Option<i32>) -> Result<Booted> {
        match (wait_for(self.pid), came) {
            (_, Some(signal)) => Ok(Booted::Interrupted(signal)),
            (Ok(Fate::Killed { signal, .. }), None) => {
                bail!("mpdboot was killed by {}", signals::name(signal))
            }
            (_, None) => Ok(Booted::Failed),
        }
    }
}

/// Path of a program of the suite: beside this executable, else in PATH.
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
