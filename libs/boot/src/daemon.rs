//! Starts, queries and ends the daemon of this host, for `mpdboot` and its agents.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use mpd_io::process::signals::Signals;
use mpd_io::ring::console::{self, Console, ConsoleError};
use mpd_io::ring::ring_name::{InvalidRingName, RingName};
use mpd_io::ring::rundir::{RunDir, host_name};
use mpd_io::wait;
use mpd_wire::message::{ConsoleReply, MemberView, RingRequest, RingView};
use mpd_wire::{Address, DaemonName, Instance, Standing};
use nix::poll::{PollFd, PollFlags};
use zeroize::Zeroizing;

use crate::child::Child;
use crate::command::{self, AgentPlaces, Places};
use crate::failure::{Ending, Failure, Step, VERSION_HINT, last_line};
use crate::keep;
use crate::wire::{Manner, Member, RECIPE_VERSION, Recipe, Running};

/// Deadline of a daemon's answer about its own state.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most addresses taken from one daemon.
const MAX_ADDRESSES: usize = 4;

/// The run directory of the daemon of `member`.
///
/// # Errors
/// When the name of the ring is invalid.
pub fn rundir(manner: &Manner, member: &Member) -> Result<RunDir, InvalidRingName> {
    let ring = match manner.ring.as_str() {
        "" => RingName::default(),
        name => RingName::resolve(Some(name))?,
    };
    if manner.site.is_some() {
        return Ok(RunDir::of_site(&ring));
    }
    let (first, number) = if manner.private {
        // Several members may run on one host; the ordinal distinguishes their directories.
        (RunDir::private(&ring, &host_name()), member.ordinal)
    } else {
        let number = Some(member.nth.into()).filter(|&nth| nth > 1);
        (RunDir::resolve(None, &ring, &host_name()), number)
    };
    let Some(number) = number else { return Ok(first) };
    let mut path = first.path().as_os_str().to_owned();
    path.push(format!("-{number}"));
    Ok(RunDir::at(PathBuf::from(path)))
}

/// Events to wait for while a daemon starts.
#[derive(Debug)]
pub struct Watch<'a> {
    /// The caught signals.
    pub signals: &'a mut Signals,
    /// Descriptor whose end means that the starter of this process has ended.
    pub other: Option<BorrowedFd<'a>>,
}

impl Watch<'_> {
    /// Waits for the child; returns another event if that happens first.
    fn wait(&mut self, child: &Child, patience: Duration) -> io::Result<Option<Aborted>> {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.other.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(child.poll_fds());
        wait::wait(&mut fds, Some(patience))?;
        let readable = self.other.is_some() && fds[1].any().unwrap_or(true);
        let signal = self.signals.pending().into_iter().find(|&signal| signal != libc::SIGCHLD);
        Ok(signal.map(Aborted::Signal).or(readable.then_some(Aborted::Other)))
    }
}

/// The event that aborted the start of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aborted {
    Signal(i32),
    /// The descriptor [`Watch::other`] ended.
    Other,
}

/// Why a daemon did not start.
#[derive(Debug)]
pub enum NotStarted {
    /// The start failed.
    Failed(Failure),
    /// The start was aborted.
    Aborted(Aborted),
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The start of a daemon on this host.
#[derive(Debug)]
pub struct Start<'a> {
    /// Settings of all daemons.
    pub manner: &'a Manner,
    /// The daemon.
    pub member: &'a Member,
    /// Addresses of daemons through which to enter the ring.
    pub join: &'a [Address],
    /// As in [`crate::wire::BootTask::root`].
    pub root: Option<Instance>,
    /// How to treat a running daemon of another ring.
    pub running: Running,
    /// All daemons of the ring, for the recipe.
    pub keep: Option<&'a [Member]>,
    /// The process whose end ends the daemon.
    pub holder: Option<u32>,
}

/// The state of a host before its daemon starts.
#[derive(Debug)]
pub enum Before {
    /// The run directory is free.
    Free {
        /// The run directory.
        rundir: RunDir,
        /// The path of the recipe.
        keep: Option<String>,
    },
    /// The daemon of the ring runs already, with these addresses.
    InRing(Vec<Address>),
}

impl Start<'_> {
    /// Starts the daemon of the booting host. Returns its addresses once it is in the ring.
    ///
    /// # Errors
    /// [`NotStarted`]; no daemon is left in that case.
    pub fn run(&self, watch: &mut Watch<'_>) -> Result<Vec<Address>, NotStarted> {
        let (rundir, keep) = match self.prepare()? {
            Before::Free { rundir, keep } => (rundir, keep),
            Before::InRing(addresses) => return Ok(addresses),
        };
        let result = self.wait_for(&rundir, keep.as_deref(), watch);
        if result.is_err() {
            // The daemon may be entering the ring, or its report may have been lost.
            let _ = end(&rundir, RingRequest::Exit { member: None });
        }
        result.map(|()| addresses(&rundir))
    }

    /// Looks at the run directory and writes the recipe.
    ///
    /// # Errors
    /// A daemon of another ring runs there, or the recipe cannot be written.
    pub fn prepare(&self) -> Result<Before, Failure> {
        let join = |problem: String| Failure::new(Step::Join, &problem, "");
        let rundir = rundir(self.manner, self.member).map_err(|e| join(e.to_string()))?;
        if rundir.connect().map_err(|e| join(e.to_string()))?.is_some() {
            match self.running {
                _ if self.is_in_our_ring(&rundir) => {
                    return Ok(Before::InRing(addresses(&rundir)));
                }
                Running::Welcome => return Ok(Before::InRing(addresses(&rundir))),
                Running::Replace => {
                    end(&rundir, RingRequest::Exit { member: None })
                        .map_err(|e| join(format!("cannot end the daemon that runs there: {e}")))?;
                }
                Running::Refuse => {
                    let failed = |why: String| {
                        let place = rundir.path().display();
                        let problem = format!("a daemon is already running there ({place}){why}");
                        let hint = "end it with mpdallexit there, or let 'mpdboot --replace' do so";
                        Failure::new(Step::Join, &problem, hint)
                    };
                    self.unite(&rundir).map_err(failed)?;
                    return Ok(Before::InRing(addresses(&rundir)));
                }
            }
        }
        let keep = self.recipe();
        let keep = keep.map(|recipe| keep::write(&rundir, &recipe)).transpose();
        let keep = keep.map_err(|e| join(format!("cannot write the recipe for --keep: {e}")))?;
        Ok(Before::Free { rundir, keep })
    }

    /// The command line of the daemon.
    pub fn arguments(
        &self,
        rundir: &RunDir,
        keep: Option<&str>,
        agent: Option<AgentPlaces<'_>>,
    ) -> Vec<String> {
        let is_own = self.member.nth > 1 || self.manner.private || self.manner.site.is_some();
        let own = is_own.then(|| rundir.path().display().to_string());
        let launcher = self.root.filter(|_| self.manner.private);
        let holder = self.holder;
        let places = Places { rundir: own.as_deref(), keep, launcher, holder, agent };
        command::daemon(self.manner, self.member, self.join, places)
    }

    /// Whether the running daemon belongs to the ring of this boot. An agent that was lost may have
    /// started it.
    fn is_in_our_ring(&self, rundir: &RunDir) -> bool {
        let Some(root) = self.root else { return false };
        let is_root = |m: &MemberView| m.instance == root && m.standing == Standing::Live;
        describe(rundir).is_ok_and(|view| view.members.iter().any(is_root))
    }

    /// Lets the running daemon and the first daemon of the boot meet, so that their rings become one.
    ///
    /// # Errors
    /// Why they do not, to follow the sentence that a daemon runs there.
    fn unite(&self, rundir: &RunDir) -> Result<(), String> {
        let mut problem = String::new();
        let mut has_proved = |address: &&Address| match reaches(rundir, address) {
            Ok(()) => true,
            Err(why) => {
                problem = format!(", and it does not reach the daemon at {address}: {why}");
                false
            }
        };
        let Some(address) = self.join.iter().find(&mut has_proved).filter(|_| self.root.is_some())
        else {
            return Err(problem);
        };
        let silent = |error: ConsoleError| format!(", and it does not answer: {error}");
        let deadline = Instant::now() + self.patience();
        // Opened first, so that no event between two requests is lost.
        let mut watch = Console::ask(rundir, RingRequest::Watch).map_err(silent)?;
        let request = RingRequest::Seek { addresses: vec![address.clone()] };
        let mut console = Console::ask(rundir, request).map_err(silent)?;
        console.answer(Some(PATIENCE)).map_err(silent)?;
        while !self.is_in_our_ring(rundir) {
            match watch.answer(Some(deadline.saturating_duration_since(Instant::now()))) {
                Ok(_) => {}
                Err(ConsoleError::Silent(_)) => {
                    return Err(format!(", and its ring does not meet that of {address}"));
                }
                Err(error) => return Err(silent(error)),
            }
        }
        Ok(())
    }

    /// The failure must be reported before the starter's deadline.
    fn patience(&self) -> Duration {
        Duration::from_secs(self.manner.timeout_s.into()).mul_f32(0.8)
    }

    fn recipe(&self) -> Option<Recipe> {
        let hosts = self.keep?.to_vec();
        Some(Recipe { version: RECIPE_VERSION, manner: self.manner.clone(), hosts })
    }

    fn wait_for(
        &self,
        rundir: &RunDir,
        keep: Option<&str>,
        watch: &mut Watch<'_>,
    ) -> Result<(), NotStarted> {
        let arguments = self.arguments(rundir, keep, None);
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]);
        for variable in RingName::variables() {
            command.env_remove(variable);
        }
        let mut child = Child::start(command, Zeroizing::default(), 0)
            .map_err(|error| cannot_run(&self.manner.mpd, &error.to_string()))?;
        child.end_input();
        let patience = self.patience();
        let deadline = Instant::now() + patience;
        loop {
            let ended = child.ended();
            child.pump();
            match ended {
                Some(Ending::Exited(0)) => return Ok(()),
                Some(ending) => return Err(refused(&ending, &child.stderr_tail()).into()),
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message =
                    last_line(&child.stderr_tail()).unwrap_or("no message from mpd").to_owned();
                let seconds = patience.as_secs();
                let problem = format!("not in the ring after {seconds} s: {message}");
                return Err(Failure::new(Step::Join, &problem, JOIN_HINT).into());
            }
            let came = watch.wait(&child, left).map_err(|e| cannot_run("poll", &e.to_string()))?;
            if let Some(aborted) = came {
                return Err(NotStarted::Aborted(aborted));
            }
        }
    }
}

/// Whether the daemon of `rundir` reaches the daemon at `address`, which proves the same key and ring.
fn reaches(rundir: &RunDir, address: &Address) -> Result<(), String> {
    let request = RingRequest::Ping { target: address.to_string() };
    let answer =
        Console::ask(rundir, request).and_then(|mut console| console.answer(Some(PATIENCE)));
    match answer {
        Ok(ConsoleReply::Pong { .. }) => Ok(()),
        Ok(_) => Err("the answer does not fit the request".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

const JOIN_HINT: &str = "can this host connect to the daemons that run already (firewall, --ifhn)?";

pub(crate) fn cannot_run(program: &str, error: &str) -> Failure {
    let hint = "install the suite in the same directory on all hosts, or give the path with --mpd";
    Failure::new(Step::Exec, &format!("cannot run {program}: {error}"), hint)
}

/// The failure of an `mpd` that exited; `stderr` is its standard error.
fn refused(ending: &Ending, stderr: &str) -> Failure {
    let line = stderr.lines().map(str::trim).find(|line| !line.is_empty());
    let how = match ending {
        Ending::Exited(code) => format!("mpd ended with code {code}"),
        Ending::Signaled(signal) => format!("mpd was killed by signal {signal}"),
        Ending::NotStarted(error) => error.clone(),
    };
    let problem = line.map_or(how, |line| line.strip_prefix("mpd: ").unwrap_or(line).to_owned());
    match ending {
        Ending::Exited(2) => Failure::new(Step::Exec, &problem, VERSION_HINT),
        Ending::Exited(_) | Ending::Signaled(_) | Ending::NotStarted(_) => {
            Failure::new(Step::Join, &problem, "")
        }
    }
}

/// The view that the daemon of `rundir` has of its ring.
///
/// # Errors
/// [`ConsoleError`].
pub fn describe(rundir: &RunDir) -> Result<RingView, ConsoleError> {
    console::describe(rundir, PATIENCE)
}

/// The addresses of the daemon that made this view.
pub fn own_addresses(view: &RingView) -> Vec<Address> {
    let own = view.members.iter().find(|member| member.name == view.me);
    own.into_iter().flat_map(|own| &own.addresses).take(MAX_ADDRESSES).cloned().collect()
}

/// The addresses of the daemon of `rundir`; empty if it does not answer.
fn addresses(rundir: &RunDir) -> Vec<Address> {
    describe(rundir).map(|view| own_addresses(&view)).unwrap_or_default()
}

/// Lets the daemon of `rundir`, or its whole ring, exit, and waits for its end. Returns the members
/// that did not confirm the request.
///
/// # Errors
/// [`ConsoleError`], also if no daemon runs.
pub fn end(rundir: &RunDir, request: RingRequest) -> Result<Vec<DaemonName>, ConsoleError> {
    let mut console = Console::ask(rundir, request)?;
    let mut unconfirmed = Vec::new();
    loop {
        match console.answer(Some(PATIENCE)) {
            Ok(ConsoleReply::Done { missing }) => unconfirmed = missing,
            Ok(_) => {}
            Err(ConsoleError::Closed) => break,
            Err(error) => return Err(error),
        }
    }
    // The daemon may close the connection before it ends. Then the other side of its lock shows the
    // end.
    let deadline = Instant::now() + PATIENCE;
    while let Some(mut conn) = rundir.connect()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ConsoleError::Silent(PATIENCE));
        }
        conn.wait(u16::try_from(left.as_millis()).unwrap_or(u16::MAX))?;
    }
    Ok(unconfirmed)
}
