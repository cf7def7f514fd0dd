//! The daemon process: one loop over its Unix socket and its port, who is connected to them, its
//! children and signals.
//!
//! It decides little: who may speak ([`peers`]), which job gets which id ([`jobs`]); what the ring does
//! is decided by the pure machine that [`membership`] drives over the links of [`net`]. A console,
//! manager or other daemon can close its own connection, never the daemon.

mod door;
mod guests;
mod jobs;
mod membership;
mod names;
mod net;
mod peers;
mod placement;
mod spawns;
pub(crate) mod status;
mod throttle;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mpd_io::clock::Clock;
use mpd_io::conn::Conn;
use mpd_io::rundir::RunDir;
use mpd_io::signals::Signals;
use mpd_io::{adopt_inherited, oom, priority, tree};
use mpd_machine::Time;
use nix::fcntl::Flock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use std::os::fd::{AsFd as _, AsRawFd};
use std::os::unix::net::UnixStream;

use crate::cli::Cli;
use crate::daemon::door::{Door, PER_TURN};
use crate::daemon::guests::Guests;
use crate::daemon::jobs::Jobs;
use crate::daemon::membership::{Hands, Membership};
use crate::daemon::names::Names;
use crate::daemon::peers::Peers;
use crate::start::READY;

const LISTENER: Token = Token(0);
const SIGNALS: Token = Token(1);
const PORT: Token = Token(2);
const GUESTS: Token = Token(3);

/// How long a door rests when descriptors have run out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

const SIGNALS_CAUGHT: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD];

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    keep_owner_of_files();
    // Whole lists of members go to those who enter, and leave no holes behind.
    mpd_io::part_large_blocks();
    let descriptor = if cli.private { 4 } else { 3 };
    let told = cli.tell_ready.then(|| adopt_inherited(descriptor)).transpose()?.map(File::from);
    let mut ready = Ready(told);
    let result = Daemon::start(cli).and_then(|daemon| daemon.serve(&mut ready));
    if let Err(error) = &result {
        ready.tell(&mpd_io::logging::one_line(&format!("{error:#}")));
    }
    result
}

/// Whoever waits for this daemon to serve.
struct Ready(Option<File>);

impl Ready {
    /// Says the first word; later ones have nobody to hear them.
    fn tell(&mut self, word: &str) {
        if let Some(mut told) = self.0.take()
            && let Err(e) = told.write_all(word.as_bytes())
        {
            log::warn!("nobody waits for the daemon: {e}");
        }
    }

    /// Whether whoever waited has gone before the first word.
    fn is_deserted(&self) -> bool {
        let Some(told) = &self.0 else { return false };
        let mut fds = [PollFd::new(told.as_fd(), PollFlags::empty())];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }
}

struct Daemon {
    poll: Poll,
    clock: Clock,
    signals: Signals,
    listening: Option<Listening>,
    /// In a private ring.
    guests: Option<Guests>,
    peers: Peers,
    jobs: Jobs,
    /// None in a private ring of one.
    membership: Option<Membership>,
    /// Those of a private ring of one.
    names: Names,
    /// Signals may be waiting.
    signalled: bool,
    ending: bool,
}

/// A ring that consoles can reach; a private one of one has none of this.
struct Listening {
    listener: UnixListener,
    rundir: RunDir,
    is_private: bool,
    _lock: Flock<File>,
    door: Door,
}

impl Drop for Listening {
    /// The next daemon finds no stale socket, managers notice and wait for it. A private ring has no next
    /// daemon, and its directory no other use.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.rundir.socket());
        if self.is_private {
            let _ = fs::remove_dir_all(self.rundir.path());
        }
    }
}

impl Daemon {
    fn start(cli: &Cli) -> Result<Self> {
        let host = mpd_io::rundir::host_name();
        let name = cli.name.clone().unwrap_or_else(|| host.clone());
        if !mpd_wire::is_daemon_name(&name) {
            bail!("{name:?} cannot be a daemon's name: letters, digits and . _ - : only (--name)");
        }
        let rundir = cli.rundir()?;
        let is_alone = cli.private && !cli.open;
        let serving =
            (!is_alone).then(|| Listening::begin(&rundir, cli.is_private())).transpose()?;
        let log_file = match (&cli.log_file, cli.tell_ready) {
            (None, true) => Some(rundir.path().join("mpd.log")),
            (file, _) => file.clone(),
        };
        mpd_io::logging::start(&format!("mpd {name}"), cli.level(), log_file.as_deref())
            .with_context(|| {
                format!("cannot open the log {}", log_file.unwrap_or_default().display())
            })?;
        raise_descriptor_limit();
        lift_cpu_limit();
        priority::of_a_server();
        let is_readier = |ours| ours > oom::OF_ROOTS_DAEMON;
        if nix::unistd::geteuid().is_root() && oom::readiness().is_ok_and(is_readier) {
            // In a container even root may not.
            let _ = oom::set_readiness(oom::OF_ROOTS_DAEMON);
        }
        tree::become_subreaper().context("cannot become a subreaper")?;
        keep_to_oneself()?;
        let signals = Signals::catch(&SIGNALS_CAUGHT).context("cannot catch signals")?;
        let poll = Poll::new().context("cannot make an event queue")?;
        poll.registry().register(
            &mut SourceFd(&signals.as_raw_fd()),
            SIGNALS,
            Interest::READABLE,
        )?;
        let clock = Clock::start();
        let mut jobs = Jobs::new(&name, &host, serving.is_some().then(|| rundir.clone()));
        let mut peers = Peers::new(descriptor_limit());
        let mut membership = None;
        if let Some(listening) = &serving {
            let fd = listening.listener.as_raw_fd();
            poll.registry().register(&mut SourceFd(&fd), LISTENER, Interest::READABLE)?;
            let ring = Membership::start(cli, &name, &rundir, &clock)?;
            let fd = ring.port().as_raw_fd();
            poll.registry().register(&mut SourceFd(&fd), PORT, Interest::READABLE)?;
            membership = Some(ring);
            jobs.adopt_records(clock.now());
        }
        let guests =
            cli.owner.map(|owner| begin_private(cli, owner, &poll, &mut peers, clock.now()));
        let guests = guests.transpose()?;
        std::env::set_current_dir("/")?;
        let listening = serving;
        Ok(Self {
            poll,
            clock,
            signals,
            listening,
            guests,
            peers,
            jobs,
            membership,
            names: Names::default(),
            signalled: true,
            ending: false,
        })
    }

    fn serve(mut self, ready: &mut Ready) -> Result<ExitCode> {
        log::info!("serving, pid {}", std::process::id());
        let mut events = Events::with_capacity(256);
        loop {
            self.take_signals();
            self.accept();
            let (registry, ring) = (self.poll.registry(), self.membership.as_mut());
            self.peers.turn(registry, &mut self.jobs, ring, self.clock.now());
            self.jobs.turn(self.clock.now());
            self.ring_turn(ready)?;
            self.tell_managers();
            if self.is_over() {
                break;
            }
            let wait = self.wait();
            match self.poll.poll(&mut events, wait) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => events.clear(),
                result => result.context("cannot wait for events")?,
            }
            for event in &events {
                let hung_up = event.is_read_closed() || event.is_error();
                self.mark_ready(event.token(), hung_up);
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn mark_ready(&mut self, token: Token, hung_up: bool) {
        match token {
            LISTENER => self.listening.iter_mut().for_each(|l| l.door.knock()),
            GUESTS => self.guests.iter_mut().for_each(|g| g.door().knock()),
            SIGNALS => self.signalled = true,
            PORT => self.membership.iter_mut().for_each(Membership::knock),
            Token(number) if number >= net::FIRST_TOKEN => {
                self.membership.iter_mut().for_each(|m| m.mark_ready(token, hung_up));
            }
            token => self.peers.mark_ready(token),
        }
    }

    fn is_over(&self) -> bool {
        match &self.membership {
            Some(membership) => membership.is_over(self.clock.now()),
            None => self.ending || !self.is_needed(),
        }
    }

    /// What the ring does, and what it has to say to consoles.
    fn ring_turn(&mut self, ready: &mut Ready) -> Result<()> {
        let is_needed = self.is_needed();
        let Some(membership) = &mut self.membership else { return Ok(()) };
        let now = self.clock.now();
        let mut hands = Hands { registry: self.poll.registry(), jobs: &mut self.jobs, now };
        membership.review_bond(&mut hands, is_needed);
        membership.turn(self.poll.registry(), &mut self.jobs, now);
        while let Some((console, reply, last)) = membership.next_answer() {
            if !self.peers.answer(console, &reply, last, now) {
                membership.forget_console(console);
            }
        }
        if ready.is_deserted() {
            bail!("whoever started this daemon has gone before it was in the ring");
        }
        if membership.has_entered() {
            ready.tell(&format!("{READY} {}", membership.port().number()));
        }
        match membership.failure(now) {
            Some(problem) => bail!("{problem}"),
            None => Ok(()),
        }
    }

    /// Managers that were started here, and what is to be said to managers.
    fn tell_managers(&mut self) {
        self.peers.welcome_managers(self.poll.registry(), &mut self.jobs, self.clock.now());
        if let (Some(guests), false) = (&mut self.guests, self.peers.has_owner()) {
            for errand in guests.see_off(&self.jobs) {
                self.peers.tell_manager(errand);
            }
        }
        let Some(membership) = &mut self.membership else {
            let named = self.names.serve(self.clock.now(), &mut self.jobs);
            for errand in named.into_iter().chain(spawns::serve(&mut self.jobs)) {
                self.peers.tell_manager(errand);
            }
            return;
        };
        while let Some(errand) = membership.next_errand() {
            self.peers.tell_manager(errand);
        }
    }

    /// A private ring stays while the mpirun that began it or a job of it is here.
    fn is_needed(&self) -> bool {
        !self.ending && (self.peers.has_owner() || !self.jobs.is_idle())
    }

    fn wait(&self) -> Option<Duration> {
        let membership = self.membership.as_ref();
        let consoles = self.listening.as_ref().map(|l| &l.door);
        let guests = self.guests.as_ref().map(Guests::waiting);
        let port = membership.map(|m| m.port().door());
        let doors = || [consoles, guests, port].into_iter().flatten();
        if doors().any(Door::has_work)
            || self.peers.has_work()
            || membership.is_some_and(Membership::has_work)
        {
            return Some(Duration::ZERO);
        }
        let resting = doors().any(Door::is_resting);
        let deadlines = [
            self.peers.next_deadline(),
            self.jobs.next_deadline(),
            membership.and_then(Membership::next_deadline),
        ];
        deadlines
            .into_iter()
            .flatten()
            .map(|at| self.clock.until(at))
            .chain(resting.then_some(EXHAUSTED_PAUSE))
            .min()
    }

    fn take_signals(&mut self) {
        if !std::mem::take(&mut self.signalled) {
            return;
        }
        let now = self.clock.now();
        for signal in self.signals.pending() {
            if signal == libc::SIGCHLD {
                self.jobs.reap(&mut self.peers, now);
            } else {
                log::info!("ending on signal {signal}");
                self.ending = true;
                self.membership.iter_mut().for_each(|m| m.leave_on_signal(now));
            }
        }
    }

    fn accept(&mut self) {
        self.accept_consoles();
        self.accept_guests();
        if let Some(membership) = &mut self.membership {
            membership.accept(self.poll.registry(), self.clock.now());
        }
    }

    /// Accepts what waits, a bounded number a turn.
    fn accept_consoles(&mut self) {
        let Some(Listening { listener, door, .. }) = &mut self.listening else { return };
        for _ in 0..PER_TURN {
            let now = self.clock.now();
            let Some((stream, _)) = door.next(now, || listener.accept()) else { return };
            let registry = self.poll.registry();
            let added =
                Conn::new(stream).and_then(|conn| self.peers.add(registry, conn, false, now));
            if let Err(e) = added {
                log::warn!("cannot serve a connection: {e}");
            }
        }
    }

    /// The same for consoles of a private ring.
    fn accept_guests(&mut self) {
        let Some(guests) = &mut self.guests else { return };
        for _ in 0..PER_TURN {
            let now = self.clock.now();
            let Some(stream) = guests.next(now) else { return };
            let registry = self.poll.registry();
            let added =
                Conn::new(stream).and_then(|conn| self.peers.add(registry, conn, true, now));
            if let Err(e) = added {
                log::warn!("cannot serve a console: {e}");
            }
        }
    }
}

/// Takes the connection of the mpirun `owner`, and opens the door for consoles of its ring.
fn begin_private(
    cli: &Cli,
    owner: u32,
    poll: &Poll,
    peers: &mut Peers,
    now: Time,
) -> Result<Guests> {
    let guests = Guests::of(owner, cli.listed.as_deref(), cli.removes_rundir);
    if let Some(fd) = guests.listener() {
        poll.registry().register(&mut SourceFd(&fd), GUESTS, Interest::READABLE)?;
    }
    let stream = UnixStream::from(adopt_inherited(3).context("--private is for mpirun")?);
    let owner = (owner, guests.are_let_in());
    peers.add_owner(poll.registry(), Conn::new(stream)?, owner, now)?;
    Ok(guests)
}

impl Listening {
    fn begin(rundir: &RunDir, is_private: bool) -> Result<Self> {
        let (lock, listener) = rundir.serve()?;
        let (rundir, door) = (rundir.clone(), Door::new("console"));
        let listening = Self { listener, rundir, is_private, _lock: lock, door };
        listening.listener.set_nonblocking(true)?;
        Ok(listening)
    }
}

/// Keys are in this process's memory: nobody reads it through /proc, traces it, or finds it in a core
/// file. Ranks get their user's own limit.
pub(crate) fn keep_to_oneself() -> Result<()> {
    nix::sys::prctl::set_dumpable(false).context("cannot close /proc to others")?;
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE).context("cannot read the limit of cores")?;
    setrlimit(Resource::RLIMIT_CORE, 0, hard).context("cannot forbid core files")
}

/// How many descriptors this process may have.
fn descriptor_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}

/// Every rank costs its manager descriptors: the hard limit is ours to use. Ranks get the user's.
/// The limit of CPU time of the user's shell is for programs, and for those ranks get it by their job's specification.
pub(crate) fn lift_cpu_limit() {
    let (_, hard) = getrlimit(Resource::RLIMIT_CPU).unwrap_or((RLIM_INFINITY, RLIM_INFINITY));
    // Above a hard limit only root comes.
    if setrlimit(Resource::RLIMIT_CPU, RLIM_INFINITY, RLIM_INFINITY).is_err() {
        let _ = setrlimit(Resource::RLIMIT_CPU, hard, hard);
    }
    mpd_io::ignore_signal(libc::SIGXCPU);
}

/// Takes from the mask of file modes what it takes from the owner: what the daemon makes, it has to use.
fn keep_owner_of_files() {
    let all = umask(Mode::from_bits_truncate(0o077));
    umask(all & Mode::from_bits_truncate(0o077));
}

pub(crate) fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && let Err(e) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        log::warn!("cannot raise the limit of open files to {hard}: {e}");
    }
}
