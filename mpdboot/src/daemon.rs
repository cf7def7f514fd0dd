//! The daemon of this host: started, asked, ended. For the host that boots and for every agent.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use mpd_io::console::{Console, ConsoleError};
use mpd_io::ringname::{InvalidRingName, RingName};
use mpd_io::rundir::{RunDir, host_name};
use mpd_io::signals::Signals;
use mpd_wire::message::{ConsoleReply, MemberView, RingRequest, RingView};
use mpd_wire::{Address, DaemonName, Instance, Standing};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use zeroize::Zeroizing;

use crate::child::Child;
use crate::command::{self, Places};
use crate::failure::{Ending, Failure, Step, last_line};
use crate::keep;
use crate::wire::{Manner, Member, Recipe, Running, SecretText, VERSION};

/// How long a daemon may take to answer what it knows itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most addresses taken over from one daemon.
const MAX_ADDRESSES: usize = 4;

/// Where the daemon of `member` has its run directory.
///
/// # Errors
/// When the ring cannot be called so.
pub(crate) fn rundir(manner: &Manner, member: &Member) -> Result<RunDir, InvalidRingName> {
    let ring = match manner.ring.as_str() {
        "" => RingName::default(),
        name => RingName::resolve(Some(name))?,
    };
    let (first, number) = if manner.private {
        // Several names may mean one host.
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

/// What else there is to wait for while a daemon starts.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    pub(crate) signals: &'a mut Signals,
    /// Whose end means that nobody waits for the daemon any more.
    pub(crate) other: Option<BorrowedFd<'a>>,
}

impl Watch<'_> {
    /// Waits for the child; says so if something else came.
    fn wait(&mut self, child: &Child, patience: Duration) -> io::Result<Option<Aborted>> {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.other.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(child.poll_fds());
        let timeout = u16::try_from(patience.as_millis() + 1).unwrap_or(u16::MAX);
        match poll(&mut fds, PollTimeout::from(timeout)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let readable = self.other.is_some() && fds[1].any().unwrap_or(false);
        let signal = self.signals.pending().into_iter().find(|&signal| signal != libc::SIGCHLD);
        Ok(signal.map(Aborted::Signal).or(readable.then_some(Aborted::Other)))
    }
}

/// What came while a daemon was starting, so that nobody waits for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aborted {
    /// This signal.
    Signal(i32),
    /// The end of the other.
    Other,
}

/// Why a daemon did not start.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// It failed.
    Failed(Failure),
    /// Nobody waits for it any more.
    Aborted(Aborted),
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A daemon to be started on this host.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) manner: &'a Manner,
    pub(crate) member: &'a Member,
    pub(crate) join: &'a [Address],
    /// See [`crate::wire::BootErrand::root`].
    pub(crate) root: Option<Instance>,
    pub(crate) running: Running,
    /// All daemons, for the recipe.
    pub(crate) keep: Option<&'a [Member]>,
    /// The key, if the daemon is to find it in no file.
    pub(crate) key: Option<&'a SecretText>,
}

impl Start<'_> {
    /// Starts the daemon and returns where others reach it once it is in the ring.
    ///
    /// # Errors
    /// [`NotStarted`]; no daemon is left then.
    pub(crate) fn run(&self, watch: &mut Watch<'_>) -> Result<Vec<Address>, NotStarted> {
        let join = |problem: String| Failure::new(Step::Join, &problem, "");
        let rundir = rundir(self.manner, self.member).map_err(|e| join(e.to_string()))?;
        if rundir.connect().map_err(|e| join(e.to_string()))?.is_some() {
            match self.running {
                _ if self.is_in_our_ring(&rundir) => return Ok(addresses(&rundir)),
                Running::Welcome => return Ok(addresses(&rundir)),
                Running::Replace => {
                    end(&rundir, RingRequest::Exit { member: None })
                        .map_err(|e| join(format!("cannot end the daemon that runs there: {e}")))?;
                }
                Running::Refuse => {
                    let problem =
                        format!("a daemon is already running there ({})", rundir.path().display());
                    let hint = "end it with mpdallexit there, or let 'mpdboot --replace' do so";
                    return Err(Failure::new(Step::Join, &problem, hint).into());
                }
            }
        }
        let keep = self.recipe();
        let keep = keep.map(|recipe| keep::write(&rundir, &recipe)).transpose();
        let keep = keep.map_err(|e| join(format!("cannot write the recipe for --keep: {e}")))?;
        let result = self.wait_for(&rundir, keep.as_deref(), watch);
        if result.is_err() {
            // It may be half way in, or in with nobody to hear of it.
            let _ = end(&rundir, RingRequest::Exit { member: None });
        }
        result.map(|()| addresses(&rundir))
    }

    /// Whether the daemon that runs here entered the ring of this boot: an agent that was lost since
    /// may have started it.
    fn is_in_our_ring(&self, rundir: &RunDir) -> bool {
        let Some(root) = self.root else { return false };
        let is_root = |m: &MemberView| m.instance == root && m.standing == Standing::Live;
        describe(rundir).is_ok_and(|view| view.members.iter().any(is_root))
    }

    fn recipe(&self) -> Option<Recipe> {
        let hosts = self.keep?.to_vec();
        Some(Recipe { version: VERSION, manner: self.manner.clone(), hosts })
    }

    fn wait_for(
        &self,
        rundir: &RunDir,
        keep: Option<&str>,
        watch: &mut Watch<'_>,
    ) -> Result<(), NotStarted> {
        let is_own = self.member.nth > 1 || self.manner.private;
        let own = is_own.then(|| rundir.path().display().to_string());
        let launcher = self.root.filter(|_| self.key.is_some());
        let places = Places { rundir: own.as_deref(), keep, launcher };
        let words = command::daemon(self.manner, self.member, self.join, places);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        for variable in RingName::variables() {
            command.env_remove(variable);
        }
        let input = self.key.map_or_else(Vec::new, |key| key.0.as_bytes().to_vec());
        let mut child = Child::start(command, Zeroizing::new(input), 0)
            .map_err(|error| cannot_run(&self.manner.mpd, &error.to_string()))?;
        child.end_input();
        // Those who wait for us shall hear our words before they give up.
        let patience = Duration::from_secs(self.manner.timeout_s.into()).mul_f32(0.8);
        let deadline = Instant::now() + patience;
        loop {
            let ended = child.ended();
            child.pump();
            match ended {
                Some(Ending::Exited(0)) => return Ok(()),
                Some(ending) => return Err(refused(&ending, &child.words()).into()),
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let said = last_line(&child.words()).unwrap_or("no word from mpd").to_owned();
                let seconds = patience.as_secs();
                let problem = format!("not in the ring after {seconds} s: {said}");
                return Err(Failure::new(Step::Join, &problem, JOIN_HINT).into());
            }
            let came = watch.wait(&child, left).map_err(|e| cannot_run("poll", &e.to_string()))?;
            if let Some(aborted) = came {
                return Err(NotStarted::Aborted(aborted));
            }
        }
    }
}

const JOIN_HINT: &str = "can this host connect to the daemons that run already (firewall, --ifhn)?";

fn cannot_run(program: &str, error: &str) -> Failure {
    let hint = "install mpd and mpdboot at the same place everywhere, or tell it with --mpd";
    Failure::new(Step::Exec, &format!("cannot run {program}: {error}"), hint)
}

/// What a daemon that would not start said.
fn refused(ending: &Ending, words: &str) -> Failure {
    let said = words.lines().map(str::trim).find(|line| !line.is_empty());
    let how = match ending {
        Ending::Exited(code) => format!("mpd ended with code {code}"),
        Ending::Signaled(signal) => format!("mpd was killed by signal {signal}"),
        Ending::NotStarted(error) => error.clone(),
    };
    let problem = said.map_or(how, |said| said.strip_prefix("mpd: ").unwrap_or(said).to_owned());
    match ending {
        Ending::Exited(2) => {
            Failure::new(Step::Exec, &problem, "are mpd and mpdboot there of one version?")
        }
        Ending::Exited(_) | Ending::Signaled(_) | Ending::NotStarted(_) => {
            Failure::new(Step::Join, &problem, "")
        }
    }
}

/// What the daemon of `rundir` knows of its ring.
///
/// # Errors
/// [`ConsoleError`].
pub(crate) fn describe(rundir: &RunDir) -> Result<RingView, ConsoleError> {
    match Console::ask(rundir, RingRequest::Describe)?.answer(Some(PATIENCE))? {
        ConsoleReply::Ring(view) => Ok(view),
        _ => Err(ConsoleError::Refused("the daemon gave another answer".to_owned())),
    }
}

/// Where others reach the daemon that made this view.
pub(crate) fn own_addresses(view: &RingView) -> Vec<Address> {
    let own = view.members.iter().find(|member| member.name == view.me);
    own.into_iter().flat_map(|own| &own.addresses).take(MAX_ADDRESSES).cloned().collect()
}

/// The same, as far as the daemon says.
fn addresses(rundir: &RunDir) -> Vec<Address> {
    describe(rundir).map(|view| own_addresses(&view)).unwrap_or_default()
}

/// Has the daemon of `rundir` leave, or its whole ring, and waits until it is gone. Returns the members
/// that could not be told.
///
/// # Errors
/// [`ConsoleError`], among them that there is none.
pub(crate) fn end(rundir: &RunDir, request: RingRequest) -> Result<Vec<DaemonName>, ConsoleError> {
    let mut console = Console::ask(rundir, request)?;
    let mut untold = Vec::new();
    loop {
        match console.answer(Some(PATIENCE)) {
            Ok(ConsoleReply::Done { missing }) => untold = missing,
            Ok(_) => {}
            Err(ConsoleError::Closed) => break,
            Err(error) => return Err(error),
        }
    }
    // It may close our connection before it ends. Others end with it.
    let deadline = Instant::now() + PATIENCE;
    while let Some(mut conn) = rundir.connect()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ConsoleError::Silent(PATIENCE));
        }
        conn.wait(u16::try_from(left.as_millis()).unwrap_or(u16::MAX))?;
    }
    Ok(untold)
}
