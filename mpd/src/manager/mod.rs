//! The manager process: one job on one host. One loop; all decisions are `mpd_proto::manager`'s.
//!
//! | module | owns |
//! |---|---|
//! | [`clients`] | the ranks' processes, pipes and PMI sockets |
//! | [`outputs`] | the console's output and error, per-rank files |
//! | [`links`] | the connections to console and daemon |
//! | [`tidy`] | the job's directory, System V objects, shared memory |

mod clients;
mod events;
mod links;
mod locate;
mod outputs;
mod perform;
mod pmi;
mod start;
mod stdio;
mod tidy;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use log::LevelFilter;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mpd_io::cgroup::Cgroup;
use mpd_io::clock::Clock;
use mpd_io::signals::Signals;
use mpd_io::spawn::Spawn;
use mpd_io::{adopt_inherited, tree};
use mpd_proto::job::{Failure, JobSpec};
use mpd_proto::manager::{Input, Manager};
use mpd_proto::message::{JobNews, StartJob};
use mpd_proto::stdio::feed::{self, Feed, Receiver};
use mpd_proto::timers::Timers;
use mpd_proto::{Rank, RankSet, Time};
use nix::unistd::Pid;
use pmi_proto::{Facts, Kvs};

use self::clients::{Client, End, TOKENS};
use self::links::Links;
use self::outputs::Outputs;
use self::tidy::Tidy;

const DAEMON: usize = 0;
const CONSOLE: usize = 1;
const SIGNALS: usize = 2;
/// Tokens of ranks; outputs come behind them.
const FIRST_RANK: usize = 8;

/// Ranks started between two looks at everything else.
const STARTS_PER_TURN: u32 = 8;

/// Between two rounds of killing; a round follows at once when a child has ended.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

/// Between two looks whether everything is stopped, and how many there are: a process in the middle of
/// a system call that cannot be interrupted is not waited for any longer.
const STOP_INTERVAL: Duration = Duration::from_millis(2);
const MAX_STOP_LOOKS: u16 = 500;

/// Between two attempts to find a daemon.
const REGISTER_INTERVAL: Duration = Duration::from_secs(1);

/// The first look at /dev/shm; each next one comes after twice the time, up to [`MOST_DOUBLINGS`].
const FIRST_LOOK: Duration = Duration::from_millis(20);
const MOST_DOUBLINGS: u8 = 6;

/// What this process, rather than the job's machine, has to do later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// An unfinished line of this source (rank * 2 + stream).
    Line(u32),
    /// A client that closed its PMI connection early is expected to end.
    PmiLost(Rank),
    /// Another round of killing.
    Kill,
    /// Look which files of /dev/shm the job uses, for the n-th time.
    Shm(u8),
    /// Look for the n-th time whether everything is stopped.
    Stopping(u16),
    /// Look for a daemon.
    Daemon,
}

/// The process's state between two turns of its loop.
struct Process {
    poll: Poll,
    clock: Clock,
    signals: Signals,
    signalled: bool,
    links: Links,
    machine: Manager,
    order: StartJob,
    spec: JobSpec,
    spawns: Vec<Spawn>,
    cgroup: Option<Cgroup>,
    null: OwnedFd,
    clients: Vec<Client>,
    by_pid: BTreeMap<Pid, Rank>,
    /// The next rank to start; `None` when all were or none will be.
    starting: Option<u32>,
    outputs: Outputs,
    labels: Vec<Vec<u8>>,
    feed: Feed,
    kvs: Kvs,
    /// Ranks whose PMI misbehaviour the user was told.
    misbehaved: BTreeSet<Rank>,
    tidy: Tidy,
    timers: Timers<Timer>,
    /// Sources that may be read now.
    runnable: VecDeque<(Rank, mpd_proto::stdio::Stream)>,
    /// PMI connections with something unread.
    talking: VecDeque<Rank>,
    /// PMI connections with answers to write.
    answering: Vec<Rank>,
    buffer: Vec<u8>,
    killing: bool,
    draining: bool,
    /// Bytes that all outputs had taken at the last look while draining.
    taken: u64,
    /// The exit code, once everything is over.
    over: Option<u8>,
}

pub(crate) fn run(level: LevelFilter) -> Result<ExitCode> {
    let _ = nix::sys::prctl::set_name(c"mpdman");
    crate::daemon::raise_descriptor_limit();
    // Files of ours have their mode given; ranks have their user's mask.
    nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    let mut links = Links::inherit()?;
    let console = [adopt_inherited(5)?, adopt_inherited(6)?];
    // As long as we hold the record of our job, its lock says that we live.
    let _record = adopt_inherited(7)?;
    let (order, spec) = links.receive_job().context("the daemon sent no job")?;
    mpd_io::logging::start(&format!("mpdman {}", order.job), level, None)?;
    tree::become_subreaper().context("cannot become a subreaper")?;
    crate::daemon::keep_to_oneself()?;
    Process::new(links, order, spec, console)?.serve()
}

impl Process {
    fn new(links: Links, order: StartJob, spec: JobSpec, console: [OwnedFd; 2]) -> Result<Self> {
        let caught = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
        let signals = Signals::catch(&caught).context("cannot catch signals")?;
        let poll = Poll::new().context("cannot make an event queue")?;
        let clock = Clock::start();
        let size = spec.size();
        let (tidy, made) = Tidy::start(PathBuf::from(&order.tmpdir));
        let mut problem = made.err().map(|e| {
            format!("cannot make the job's directory {}: {}", order.tmpdir, outputs::plain(&e))
        });
        let files = |rank, stream| stdio::file_of(&spec, &order, rank, stream);
        let outputs = match Outputs::open(console, &spec.output, size, files) {
            Ok(outputs) => outputs,
            Err(e) => {
                problem = problem.or(Some(format!("cannot open output {e}")));
                let null =
                    || fs::OpenOptions::new().write(true).open("/dev/null").map(OwnedFd::from);
                let none = |_, _| None;
                let plain = Default::default();
                Outputs::open([null()?, null()?], &plain, size, none).map_err(anyhow::Error::msg)?
            }
        };
        let machine = Manager::new(size, spec.on_failure, spec.timeout);
        let mut process = Self {
            poll,
            clock,
            signals,
            signalled: false,
            links,
            machine,
            cgroup: order.cgroup.as_ref().and_then(|path| Cgroup::open(Path::new(path)).ok()),
            null: fs::OpenOptions::new().read(true).open("/dev/null")?.into(),
            clients: Vec::new(),
            by_pid: BTreeMap::new(),
            starting: None,
            outputs,
            labels: Vec::new(),
            feed: Feed::new(Receiver::of(&spec.stdin, &RankSet::below(size), []), [], feed::WINDOW),
            kvs: Kvs::new(),
            misbehaved: BTreeSet::new(),
            tidy,
            timers: Timers::default(),
            runnable: VecDeque::new(),
            talking: VecDeque::new(),
            answering: Vec::new(),
            buffer: vec![0; 256 * 1024],
            killing: false,
            draining: false,
            taken: 0,
            over: None,
            spawns: Vec::new(),
            order,
            spec,
        };
        process.register().context("cannot watch descriptors")?;
        process.get_ready(problem);
        Ok(process)
    }

    fn register(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&self.links.console.as_raw_fd()), Token(CONSOLE), both)?;
        registry.register(
            &mut SourceFd(&self.signals.as_raw_fd()),
            Token(SIGNALS),
            Interest::READABLE,
        )?;
        if let Some(daemon) = &self.links.daemon {
            registry.register(&mut SourceFd(&daemon.as_raw_fd()), Token(DAEMON), both)?;
        }
        let behind_ranks = FIRST_RANK + self.spec.size() as usize * TOKENS;
        self.outputs.register(registry, behind_ranks)
    }

    /// The first phase: all that can be checked beforehand. Then the ranks are started turn by turn.
    fn get_ready(&mut self, problem: Option<String>) {
        let tmpdir = self.tidy.directory.clone();
        let prepared = match problem {
            Some(problem) => Err(Failure::Suite { problem }),
            None => start::prepare(&self.spec, &self.order, tmpdir.as_deref()),
        };
        match prepared {
            Err(failure) => self.tell(Input::StartFailed(failure)),
            Ok(spawns) => {
                self.spawns = spawns;
                let mapping =
                    pmi_proto::process_mapping::encode(&vec![0; self.spec.size() as usize]);
                if let Some(mapping) = mapping {
                    // An empty store has room for one key.
                    let _ = self.kvs.put(b"PMI_process_mapping", mapping.as_bytes());
                }
                let StartJob { job, host, .. } = self.order.clone();
                self.links.console.send(&JobNews::Started { job, host });
                self.offer_credit();
                self.starting = Some(0);
                self.timers.set(Timer::Shm(0), self.now() + FIRST_LOOK);
            }
        }
    }

    fn facts(&self, rank: Rank) -> Facts {
        Facts {
            kvsname: self.order.kvsname.clone(),
            rank: rank.0,
            size: self.spec.size(),
            appnum: i32::try_from(self.spec.argset_of(rank)).unwrap_or(0),
            universe_size: self.spec.universe_size,
        }
    }

    fn serve(mut self) -> Result<ExitCode> {
        let mut events = Events::with_capacity(1024);
        while self.over.is_none() || self.links.console_waits() {
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
        self.links.report_end(self.over.unwrap_or(mpd_proto::job::exit::SUITE));
        Ok(ExitCode::SUCCESS)
    }

    fn wait(&self) -> Option<Duration> {
        let busy = self.starting.is_some()
            || !self.runnable.is_empty()
            || !self.talking.is_empty()
            || self.links.has_work();
        if busy {
            return Some(Duration::ZERO);
        }
        [self.machine.poll_timeout(), self.timers.next(), self.outputs.next_deadline()]
            .into_iter()
            .flatten()
            .min()
            .map(|at| self.clock.until(at))
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Hands an input to the machine and does what it says.
    fn tell(&mut self, input: Input) {
        let now = self.now();
        self.machine.handle(now, input);
        self.perform_outputs();
    }

    fn client_of_token(token: usize) -> (Rank, End) {
        let at = token - FIRST_RANK;
        (Rank(u32::try_from(at / TOKENS).unwrap_or(u32::MAX)), End::of(at))
    }

    const fn token_of(rank: Rank) -> usize {
        FIRST_RANK + rank.index() * TOKENS
    }
}
