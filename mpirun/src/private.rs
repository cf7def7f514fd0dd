//! Private daemons, which run for one job. The daemon of this host is a child of mpirun and holds
//! mpirun's connection. If the job needs other hosts, `mpdboot` starts one daemon on each and
//! brings it into the same ring.
//!
//! The ring has a new name and a new key, which is in no file. It ends with mpirun's connection, or
//! with the job to which that connection was passed. The daemon of this host then asks all others
//! to leave.

mod cut;
mod expect;

use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mpd_channel::KeyText;
use mpd_io::files::key_file;
use mpd_io::host::this_host;
use mpd_io::network::conn::Conn;
use mpd_io::process::identity::Closed;
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::search::in_path;
use mpd_io::process::signals::{self, Signals};
use mpd_io::process::spawn::{Extra, Fate, Spawn, fate_of, own_environment, wait_for};
use mpd_io::process::tree;
use mpd_io::ring::ring_name::RingName;
use mpd_io::ring::rundir::{RunDir, host_name};
use mpd_placement::hosts::HostEntry;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub use self::cut::Cut;
use self::expect::{Expected, Outcome, User};
use crate::demand::{self, Demand, Launcher};
use crate::patience;
use crate::run::waits;

/// How long private daemons that are not wanted may take to end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Names of the processes, for people.
const PRIVATE_DAEMON: &str = "private daemon";
const BOOT: &str = "mpdboot";

/// The report of `mpdboot` about the complete ring.
const UP: &[u8] = b"up\n";

/// How long a stopped process is waited for.
const MOMENT: Duration = Duration::from_millis(500);

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
        let daemon = self.daemon.and_then(|pid| await_end(pid, PRIVATE_DAEMON, patience));
        let boot = self.boot.and_then(|Boot { pid, stdin, stdout }| {
            // The end of the pipe ends `mpdboot`, which ends the remote shells.
            drop((stdin, stdout));
            await_end(pid, BOOT, patience)
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
            Err(_) => has_ended(pid, step),
        };
        if has_ended {
            let _ = wait_for(pid);
            return None;
        }
        let is_stopped = tree::is_suspended(pid) == Some(true);
        if is_stopped || began.elapsed() >= patience {
            return Some(waits::left((name, pid.as_raw()), is_stopped));
        }
    }
}

/// The same without a pidfd, which the kernel has refused.
fn has_ended(pid: Pid, patience: Duration) -> bool {
    let mut is_over = false;
    patience::wait_until(patience, || {
        is_over = !matches!(fate_of(pid), Ok(None | Some(Fate::Stopped)));
        is_over
    });
    is_over
}

/// The result of starting daemons.
#[derive(Debug)]
pub enum Started {
    /// The daemons are running.
    Up(Conn, Private),
    /// The start was ended first. Processes that are left were named to the user.
    Cut(Cut),
}

/// Where consoles find a private ring.
#[derive(Debug)]
pub struct Listing {
    /// Directory of the sockets.
    pub directory: PathBuf,
    /// Whether the parent run directory is removed with the last socket, if it is then empty.
    pub removes_rundir: bool,
}

/// Starts a daemon on this host, which the demand calls `own`, and one on each other host of the demand. `listed` is where
/// consoles find the ring. `limit` is the time limit of the job, after which no stopped process is waited for.
///
/// # Errors
/// A daemon could not be started. No process is left in that case; standard error has the failed
/// hosts and reasons.
pub fn start(
    demand: &Demand,
    own: Option<&str>,
    verbose: bool,
    listed: Option<&Listing>,
    (signals, limit): (&mut Signals, Option<Duration>),
) -> Result<Started> {
    let is_ours = |entry: &&HostEntry| own == Some(entry.host.as_str());
    let own = demand.hosts.iter().find(is_ours);
    if demand.hosts.iter().all(|entry| is_ours(&entry)) {
        let Daemon { pid, conn, .. } = Daemon::start(own, None, listed)?;
        return Ok(Started::Up(Conn::new(conn), Private { daemon: Some(pid), boot: None }));
    }
    if let Some(refusal) = &demand.refusal {
        bail!("{refusal}");
    }
    // Otherwise a rank of another job, or another program of this user, could read the key in
    // memory or from a pipe.
    let _closed = Closed::begin().context("cannot close /proc to others")?;
    let name = RingName::private()?;
    let key = key_file::generate(name.as_str())?;
    let ring = Ring { rundir: RunDir::private(&name, &host_name()), name, key };
    let others = demand.hosts.iter().filter(|entry| !is_ours(entry));
    let mut user = User::new(signals, limit);
    let daemon = Daemon::start(own, Some(&ring), listed)?;
    // Both processes start in parallel.
    let boot = Boot::start(&ring, &demand.launcher, verbose);
    let cancel = |boot: Result<Boot>| boot.into_iter().for_each(Boot::cancel);
    let (conn, daemon) = match daemon.ready(&mut user) {
        Ok(Ok(up)) => up,
        Ok(Err(cut)) => {
            cancel(boot);
            return Ok(Started::Cut(cut));
        }
        Err(error) => {
            cancel(boot);
            return Err(error);
        }
    };
    let problem = match boot.and_then(|boot| boot.raise(ring, others, &mut user)) {
        Ok(Booted::Up(boot)) => {
            return Ok(Started::Up(conn, Private { daemon: Some(daemon), boot: Some(boot) }));
        }
        Ok(Booted::Cut(cut)) => Ok(Started::Cut(cut)),
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

    /// The connection and the process id, when the daemon of a ring serves. Otherwise the daemon has ended, or was named
    /// to the user.
    fn ready(self, user: &mut User<'_>) -> Result<Result<(Conn, Pid), Cut>> {
        let Self { pid, conn, reported } = self;
        let Some(reported) = reported else { return Ok(Ok((Conn::new(conn), pid))) };
        let expected = Expected { name: PRIVATE_DAEMON, pid, enough: None };
        let report = match user.await_report(&expected, &reported)? {
            Outcome::Reported(report) if report.starts_with(b"ready") => {
                return Ok(Ok((Conn::new(conn), pid)));
            }
            Outcome::Left(cut) => return Ok(Err(cut)),
            Outcome::Ended(cut) => Err(cut),
            Outcome::Reported(report) => Ok(String::from_utf8_lossy(&report).into_owned()),
        };
        drop(conn);
        let _ = wait_for(pid);
        match report.as_deref().map(str::trim_end) {
            Err(&cut) => Ok(Err(cut)),
            Ok("") => bail!("the daemon for this job died at its start"),
            Ok(problem) => bail!("the daemon for this job: {problem}"),
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
        if !this_host::is_loopback(&own.host) {
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
        option("--key", key_file::STANDARD_INPUT.into());
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
    Cut(Cut),
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
        user: &mut User<'_>,
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
        self.wait(user)
    }

    fn wait(self, user: &mut User<'_>) -> Result<Booted> {
        Ok(match user.await_boot(self.pid, &self.stdout, Some(UP))? {
            BootEnd::Up => Booted::Up(self),
            // The end of its input ends it when it continues, if it was left.
            BootEnd::Cut(cut) => Booted::Cut(cut),
            BootEnd::Ended(_) => Booted::Failed,
        })
    }

    /// Ends an `mpdboot` that has no request, and so no processes.
    fn cancel(self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = wait_for(self.pid);
    }
}

/// Waits for the end of an `mpdboot` that reports nothing, while the user may end the start. `output` is its standard
/// output.
///
/// # Errors
/// It was killed, or cannot be waited for.
pub fn await_boot(
    pid: Pid,
    output: &PipeReader,
    (signals, limit): (&mut Signals, Option<Duration>),
) -> Result<BootEnd> {
    User::new(signals, limit).await_boot(pid, output, None)
}

/// The end of the wait for an `mpdboot`.
#[derive(Debug)]
pub enum BootEnd {
    /// It has reported that the ring is complete. It continues to hold the remote shells.
    Up,
    /// It has ended with this code; `None` if the code is unknown.
    Ended(Option<u8>),
    Cut(Cut),
}

impl User<'_> {
    /// Waits until an `mpdboot` has reported `enough`, or has ended.
    fn await_boot(
        &mut self,
        pid: Pid,
        output: &PipeReader,
        enough: Option<&'static [u8]>,
    ) -> Result<BootEnd> {
        let cut = match self.await_report(&Expected { name: BOOT, pid, enough }, output)? {
            Outcome::Reported(report) if enough.is_some_and(|it| report.ends_with(it)) => {
                return Ok(BootEnd::Up);
            }
            Outcome::Left(cut) => return Ok(BootEnd::Cut(cut)),
            Outcome::Ended(cut) => Some(cut),
            Outcome::Reported(_) => None,
        };
        match (wait_for(pid), cut) {
            (_, Some(cut)) => Ok(BootEnd::Cut(cut)),
            (Ok(Fate::Killed { signal, .. }), None) => {
                bail!("mpdboot was killed by {}", signals::name(signal))
            }
            (Ok(Fate::Exited(code)), None) => Ok(BootEnd::Ended(Some(code))),
            (Ok(Fate::Stopped) | Err(_), None) => Ok(BootEnd::Ended(None)),
        }
    }
}

/// Path of a program of the suite: beside this executable, else in PATH.
///
/// # Errors
/// It is not there.
pub fn find(program: &str) -> Result<PathBuf> {
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
