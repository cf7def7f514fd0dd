//! The manager process: one job on one host. One loop; all decisions are `mpd_job::manager`'s.
//!
//! | module | owns |
//! |---|---|
//! | [`ranks`], [`clients`] | the ranks' processes, pipes and PMI sockets |
//! | [`alone`] | ranks whose MPI library does not speak PMI |
//! | [`adopted`] | a process that ran before its job |
//! | [`debug`], [`watch`], [`wrap`] | ranks that are drivers of debuggers; ranks whose crash is caught; what is executed for a rank |
//! | [`outputs`], [`sink`] | where output goes: the console's output and error, per-rank files, the manager above |
//! | [`flows`] | output of the managers below |
//! | [`console`], [`daemon`] | the connections to console and daemon |
//! | [`branches`] | the links of the job tree; [`above`] waits for the specification from there |
//! | [`attributes`] | what ranks on one host tell each other, and rings, both of PMI-2 |
//! | [`names`] | what ranks want to publish, find and take back |
//! | [`staging`] | programs on their way to hosts that lack them |
//! | [`worlds`], [`spawn`] | what ranks that were started together share; ranks that ask for others |
//! | [`labels`] | what stands in front of each rank's lines |
//! | [`memory`] | who goes first when memory runs out |
//! | [`trace`] | what took how long, for the timeline of the launch |
//! | [`deadly`] | signals that may be the end of ranks, and the end of all processes |
//! | [`tidy`], [`groups`], [`shm`] | the job's directory, System V objects; what groups of ranks share; shared memory |

mod above;
mod adopted;
mod alone;
mod attributes;
mod branches;
mod clients;
mod console;
mod daemon;
mod deadly;
mod debug;
mod events;
mod files;
mod flows;
mod groups;
mod labels;
mod meetings;
mod memory;
mod names;
mod outputs;
mod perform;
mod pids;
mod pmi;
mod ranks;
mod report;
mod shm;
mod sink;
mod spawn;
mod staging;
mod start;
mod stdio;
mod tidy;
mod trace;
mod tree;
mod watch;
mod window;
mod worlds;
mod wrap;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use log::LevelFilter;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mpd_io::cgroup::Cgroup;
use mpd_io::clock::Clock;
use mpd_io::signals::Signals;
use mpd_io::{adopt_inherited, oom};
use mpd_job::joblink::Timing;
use mpd_job::manager;
use mpd_job::manager::{Input, Manager};
use mpd_machine::{Pump, Time, Timers};
use mpd_stdio::feed::Feed;
use mpd_wire::Rank;
use mpd_wire::job::{Failure, JobSpec};
use mpd_wire::message::{ManagerReport, Phase, StartJob};
use nix::unistd::Pid;

use self::adopted::Adoption;
use self::alone::Alone;
use self::branches::{Branches, News};
use self::console::Console;
use self::daemon::Daemon;
use self::deadly::Deadly;
use self::flows::Flows;
use self::labels::Labels;
use self::memory::Memory;
use self::names::Names;
use self::outputs::Outputs;
use self::pids::Pids;
use self::ranks::Ranks;
use self::spawn::Spawning;
use self::staging::Staging;
use self::start::{Prepared, Whose};
use self::tidy::Tidy;
use self::trace::Trace;
use self::window::Window;
use self::worlds::{World, Worlds};
use crate::notes::Notes;
use crate::users::Helper;

const DAEMON: usize = 0;
const CONSOLE: usize = 1;
const SIGNALS: usize = 2;
const ADOPTED: usize = 3;
const SHM_USERS: usize = 4;
const MPI_USERS: usize = 5;
/// Tokens of ranks, of outputs and of job links.
const FIRST_RANK: usize = 8;
const FIRST_OUTPUT: usize = 1 << 39;
const FIRST_LINK: usize = 1 << 40;

/// Ranks started between two looks at everything else.
const STARTS_PER_TURN: usize = 8;

/// Between two looks whether everything is stopped, and how many there are: a process in the middle of
/// a system call that cannot be interrupted is not waited for any longer.
const STOP_INTERVAL: Duration = Duration::from_millis(2);
const MAX_STOP_LOOKS: u16 = 500;

/// Between two attempts to find a daemon.
const REGISTER_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of a job waits for the daemon to say how the launch went, if that is wanted.
const LAUNCHED_PATIENCE: Duration = Duration::from_secs(2);

/// The first look at /dev/shm, and at the MPI libraries of ranks; each next one comes after twice the time, up to a number of doublings.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const MOST_DOUBLINGS: u8 = 6;

/// What this process, rather than the job's machine, has to do later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// An unfinished line of this source (rank * 2 + stream).
    Line(u32),
    /// A client that closed its PMI connection early is expected to end.
    PmiLost(Rank),
    /// Go on with signals that wait, or with killing.
    Deadly,
    /// Look which files of /dev/shm the job uses, for the n-th time.
    Shm(u8),
    /// Wait no longer for who uses it.
    ShmUsers,
    /// Look which MPI libraries ranks use, for the n-th time.
    Alone(u8),
    /// Look for the n-th time whether everything is stopped.
    Stopping(u16),
    /// Look for a daemon.
    Daemon,
    /// Wait no longer for what it says of the launch.
    Launched,
    /// Ask again about names, or wait no longer.
    Names,
    /// Wait no longer for where a spawn goes.
    Spawn,
}

/// What a manager has before it knows its job.
struct Means {
    poll: Poll,
    clock: Clock,
    signals: Signals,
    branches: Branches,
    daemon: Daemon,
    /// What came from above before the specification.
    early: Vec<News>,
    trace: Trace,
    parent: Pid,
    notes: Notes,
}

/// The process's state between two turns of its loop.
struct Process {
    poll: Poll,
    clock: Clock,
    signals: Signals,
    signalled: bool,
    console: Console,
    daemon: Daemon,
    branches: Branches,
    pump: Pump<Manager>,
    /// The daemon that has started this process.
    parent: Pid,
    order: StartJob,
    spec: Rc<JobSpec>,
    worlds: Worlds,
    spawning: Spawning,
    cgroup: Option<Cgroup>,
    null: OwnedFd,
    /// Of the terminals of ranks, if some have one.
    window: Option<Window>,
    adoption: Adoption,
    alone: Alone,
    /// How often the programs of a job that is debugged were started once more.
    restarts: u32,
    /// Crashes that were told.
    crashes: u32,
    clients: Ranks,
    by_pid: BTreeMap<Pid, Rank>,
    pids: Pids,
    /// Ends of spawned ranks of which the console was not told, since it did not listen.
    ends_left_out: u64,
    outputs: Outputs,
    flows: Flows,
    labels: Labels,
    feed: Feed,
    /// Ranks whose PMI misbehaviour the user was told.
    misbehaved: BTreeSet<Rank>,
    tidy: Tidy,
    shm_helper: Option<Helper>,
    /// Inodes that it found in use, of files that the job left.
    shm_in_use: BTreeSet<u64>,
    staging: Option<Staging>,
    names: Names,
    timers: Timers<Timer>,
    /// Sources that may be read now.
    runnable: VecDeque<(Rank, mpd_wire::Stream)>,
    /// PMI connections with something unread.
    talking: VecDeque<Rank>,
    /// PMI connections with answers to write.
    answering: Vec<Rank>,
    buffer: Vec<u8>,
    deadly: Deadly,
    /// What ranks of the first world say by PMI is not read yet.
    held: bool,
    /// Everything here is stopped, or about to be: nothing new is started.
    stopping: bool,
    draining: bool,
    /// The ranks were killed: what still moves is what they left to be written.
    ending: bool,
    /// Bytes that all outputs had taken at the last look since.
    taken: u64,
    trace: Trace,
    memory: Memory,
    /// The job ended before all managers below had connected.
    unlinked: bool,
    /// The exit code, once everything is over.
    over: Option<u8>,
}

pub(crate) fn run(level: LevelFilter) -> Result<ExitCode> {
    let (began, parent) = (mpd_io::clock::wall(), Pid::parent());
    crate::daemon::raise_descriptor_limit();
    crate::daemon::lift_cpu_limit();
    // Files of ours have their mode given; ranks have their user's mask.
    nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    let mut daemon = Daemon::inherit()?;
    let [console, out, err] = [adopt_inherited(4)?, adopt_inherited(5)?, adopt_inherited(6)?];
    // As long as we hold the record of our job, its lock says that we live.
    let notes = Notes::new(adopt_inherited(7)?.into());
    let (order, encoded) = daemon.receive_job().context("the daemon sent no job")?;
    mpd_io::logging::start(&format!("mpdman {}", order.job), level, None)?;
    mpd_io::priority::of_a_server();
    mpd_io::tree::become_subreaper().context("cannot become a subreaper")?;
    // Not what a root's daemon asked for itself.
    if oom::readiness().is_ok_and(|readiness| readiness < 0) {
        let _ = oom::set_readiness(0);
    }
    crate::daemon::keep_to_oneself()?;
    let mut means = Means::new(daemon, &order, (began, parent), notes)?;
    let is_root = order.place == 0;
    let console = if is_root { Console::new(console)? } else { Console::default() };
    let now = means.clock.now();
    means.branches.begin(means.poll.registry(), now);
    let encoded = if is_root { Some(encoded) } else { above::specification(&mut means)? };
    let Some(encoded) = encoded else { return Ok(means.leave(&order)) };
    Process::new(means, order, &encoded, (console, [out, err]))?.serve()
}

impl Means {
    fn new(
        daemon: Daemon,
        order: &StartJob,
        (began, parent): (u64, Pid),
        notes: Notes,
    ) -> Result<Self> {
        let caught = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
        let signals = Signals::catch(&caught).context("cannot catch signals")?;
        let poll = Poll::new().context("cannot make an event queue")?;
        let branches = Branches::new(branches::Config {
            key: order.key.clone(),
            shares: order.shares.clone(),
            place: order.place as usize,
            timing: Timing::default().faster(crate::scale::divisor()?),
            first_token: FIRST_LINK,
        })?;
        let readable = Interest::READABLE;
        let fd = signals.as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), Token(SIGNALS), readable)?;
        if let Some(fd) = daemon.descriptor() {
            let both = readable | Interest::WRITABLE;
            poll.registry().register(&mut SourceFd(&fd), Token(DAEMON), both)?;
        }
        let clock = Clock::start();
        let trace = Trace::start(began, clock.now());
        Ok(Self { poll, clock, signals, branches, daemon, early: Vec::new(), trace, parent, notes })
    }

    /// The job is over before anything of it was begun here.
    fn leave(mut self, order: &StartJob) -> ExitCode {
        let below = order.shares.children(order.place as usize);
        let unlinked =
            below.into_iter().any(|place| self.branches.awaits(branches::End::Child(place)));
        let cgroup = order.cgroup.as_ref().and_then(|path| Cgroup::open(Path::new(path)).ok());
        perform::forget(order, cgroup);
        let code = mpd_wire::job::exit::SUITE;
        self.daemon.report(&ManagerReport::Ended { code, unlinked });
        self.daemon.flush();
        ExitCode::SUCCESS
    }
}

impl Process {
    fn new(
        means: Means,
        order: StartJob,
        encoded: &[u8],
        (console, outputs): (Console, [OwnedFd; 2]),
    ) -> Result<Self> {
        let Means { poll, clock, signals, branches, daemon, early, mut trace, parent, notes } =
            means;
        let spec = Rc::new(JobSpec::decode(encoded)?);
        trace.decide(spec.trace, &order.spans);
        spec.check()?;
        let size = spec.size();
        order.shares.check(size)?;
        let place = order.place as usize;
        order.shares.get(place).context("no share is ours")?;
        let world = World::of_job(&spec, &order);
        let (tidy, made) = Tidy::start(Path::new(&order.tmpdir), (&spec, &world.here), notes);
        let (outputs, trouble) = stdio::outputs_of(&spec, &order, outputs)?;
        let problem = made.err().or(trouble);
        let mut process = Self {
            poll,
            clock,
            signals,
            signalled: true,
            console,
            daemon,
            parent,
            branches,
            pump: Pump::new(machine_of(&spec, &order)),
            cgroup: order.cgroup.as_ref().and_then(|path| Cgroup::open(Path::new(path)).ok()),
            null: fs::OpenOptions::new().read(true).open("/dev/null")?.into(),
            window: Window::of(&spec)?,
            adoption: Adoption::of(&spec, place)?,
            alone: Alone::default(),
            restarts: 0,
            crashes: 0,
            by_pid: BTreeMap::new(),
            // Only the root knows all.
            pids: Pids::of(if place == 0 { size } else { 0 }, place == 0 && spec.report_ends),
            ends_left_out: 0,
            outputs,
            flows: Flows::new(&order.shares, place),
            labels: Labels::default(),
            feed: stdio::feed_of(&spec, &order),
            clients: Ranks::new(FIRST_RANK),
            misbehaved: BTreeSet::new(),
            tidy,
            shm_helper: None,
            shm_in_use: BTreeSet::new(),
            staging: None,
            names: Names::default(),
            timers: Timers::default(),
            runnable: VecDeque::new(),
            talking: VecDeque::new(),
            answering: Vec::new(),
            buffer: vec![0; 256 * 1024],
            deadly: Deadly::default(),
            held: spec.hold,
            stopping: false,
            draining: false,
            ending: false,
            taken: 0,
            trace,
            memory: Memory::begin(),
            unlinked: false,
            over: None,
            worlds: Worlds::default(),
            spawning: Spawning::default(),
            order,
            spec,
        };
        process.worlds.insert(world);
        process.register().context("cannot watch descriptors")?;
        process.pass_on_specification(encoded);
        // They look at their part while we look at ours.
        process.branches.flush();
        process.begin(problem, early);
        Ok(process)
    }

    fn register(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        if let Some(fd) = self.console.descriptor() {
            let both = Interest::READABLE | Interest::WRITABLE;
            registry.register(&mut SourceFd(&fd), Token(CONSOLE), both)?;
        }
        self.outputs.register(registry, FIRST_OUTPUT)
    }

    /// The first phase: all that can be checked beforehand. The ranks are started at the word of the
    /// root, turn by turn.
    fn get_ready(&mut self, problem: Option<String>) {
        self.begin_span(Phase::Checks, None);
        let tmpdir = self.tidy.directory().map(Path::to_owned);
        let prepared = match problem {
            Some(problem) => Err(Failure::Suite { problem }),
            None if self.adoption.arrived.is_some() => Ok(Prepared::default()),
            None => {
                let here = self.worlds.of(Rank(0)).map(|world| world.here.clone());
                let staging = self.staging.as_ref();
                let (spec, order) = (&*self.spec, &self.order);
                let whose = Whose { spec, order, there: 0, spawned: false, daemon: self.parent };
                start::prepare(whose, &here.unwrap_or_default(), tmpdir.as_deref(), staging)
            }
        };
        match prepared {
            Err(failure) => self.post(Input::StartFailed(failure)),
            Ok(Prepared { spawns, bindings }) => {
                if let Some(world) = self.worlds.of_mut(Rank(0)) {
                    (world.spawns, world.bindings) = (spawns, bindings);
                }
                self.end_span(Phase::Checks, None);
                self.begin_span(Phase::Ready, None);
                self.post(Input::Ready);
            }
        }
    }

    fn serve(mut self) -> Result<ExitCode> {
        let mut events = Events::with_capacity(1024);
        if self.daemon.descriptor().is_none() {
            // It died while we waited for the specification.
            self.timers.set(Timer::Daemon, self.now() + REGISTER_INTERVAL);
        }
        // What was prepared is said before anything is waited for, and what came meanwhile is heard before
        // a deadline is judged by.
        self.poll.poll(&mut events, Some(Duration::ZERO)).context("cannot look for events")?;
        for event in &events {
            self.note_event(event.token().0, event);
        }
        self.turn();
        while self.over.is_none() || self.console.waits() || !self.branches.is_quiet() {
            let wait = self.wait();
            match self.poll.poll(&mut events, wait) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => result.context("cannot wait for events")?,
            }
            for event in &events {
                self.note_event(event.token().0, event);
            }
            self.turn();
        }
        let code = self.over.unwrap_or(mpd_wire::job::exit::SUITE);
        self.daemon.report(&ManagerReport::Ended { code, unlinked: self.unlinked });
        self.daemon.flush();
        Ok(ExitCode::SUCCESS)
    }

    fn wait(&self) -> Option<Duration> {
        let busy = (self.worlds.is_any_starting() && !self.stopping)
            || !self.runnable.is_empty()
            || !self.talking.is_empty()
            || self.console.has_work()
            || self.daemon.has_work()
            || self.branches.has_work()
            || self.flows_may_go_on()
            || self.has_staging_work();
        if busy {
            return Some(Duration::ZERO);
        }
        let deadlines = [
            self.pump.machine().poll_timeout(),
            self.timers.next(),
            self.outputs.next_deadline(),
            self.branches.next_deadline(),
        ];
        deadlines.into_iter().flatten().min().map(|at| self.clock.until(at))
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Queues what happened for the machine. [`Process::pump`] hands it in.
    fn post(&mut self, input: Input) {
        self.pump.post(input);
    }

    /// Hands each input that waits to the machine, and performs all its outputs before the next.
    fn pump(&mut self) {
        while let Some(output) = self.pump.next(self.clock.now()) {
            self.perform(output);
        }
    }
}

/// Decides for this manager.
fn machine_of(spec: &JobSpec, order: &StartJob) -> Manager {
    Manager::new(manager::Config {
        shares: &order.shares,
        place: order.place as usize,
        size: spec.size(),
        on_failure: spec.on_failure,
        limit: spec.timeout,
        debugged: spec.debug.is_some(),
    })
}
