//! The beginning of the process: from the descriptors that it inherits to the loop.

use std::fs;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context, Result};
use log::LevelFilter;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use mpd_io::adopt_inherited;
use mpd_io::cgroup::Cgroup;
use mpd_io::clock::Clock;
use mpd_io::oom;
use mpd_io::signals::Signals;
use mpd_job::joblink::Timing;
use mpd_job::manager;
use mpd_job::manager::Manager;
use mpd_machine::Pump;
use mpd_wire::job::JobSpec;
use mpd_wire::message::{ManagerReport, StartJob};
use nix::unistd::Pid;

use super::context::{Common, Job};
use super::ending::{Ending, Tidy, forget};
use super::links::{Branches, Config, End, Links, News};
use super::pmi::Pmi;
use super::ranks::Ranks;
use super::spawns::Spawns;
use super::stdio::Stdio;
use super::tokens::{CONSOLE, DAEMON, FIRST_LINK, SIGNALS};
use super::upstream::{Console, Daemon, Trace, Upstream};
use super::worlds::{World, Worlds};
use super::{Process, above};
use crate::notes::Notes;

/// What a manager has before it knows its job.
pub(super) struct Means {
    pub(super) poll: Poll,
    pub(super) clock: Clock,
    pub(super) signals: Signals,
    pub(super) branches: Branches,
    pub(super) daemon: Daemon,
    /// What came from above before the specification.
    pub(super) early: Vec<News>,
    pub(super) trace: Trace,
    /// The process of the daemon that started this one.
    parent: Pid,
    notes: Notes,
}

pub(crate) fn run(level: LevelFilter) -> Result<ExitCode> {
    let (began, parent) = (mpd_io::clock::wall(), Pid::parent());
    crate::limits::raise_descriptor_limit();
    crate::limits::lift_cpu_limit();
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
    crate::limits::keep_to_oneself()?;
    let mut means = Means::new(daemon, &order, (began, parent), notes)?;
    let is_root = order.place == 0;
    let console = if is_root { Console::new(console)? } else { Console::default() };
    let now = means.clock.now();
    means.branches.begin(means.poll.registry(), now);
    let encoded = if is_root { Some(encoded) } else { above::specification(&mut means)? };
    let Some(encoded) = encoded else { return Ok(means.leave(&order)) };
    means.process(order, &encoded, (console, [out, err]))?.serve()
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
        let branches = Branches::new(Config {
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
        let unlinked = below.into_iter().any(|place| self.branches.awaits(End::Child(place)));
        forget(order, cgroup_of(order));
        let code = mpd_wire::job::exit::SUITE;
        self.daemon.report(&ManagerReport::Ended { code, unlinked });
        self.daemon.flush();
        ExitCode::SUCCESS
    }

    /// The process, with the first phase of its job begun.
    fn process(
        mut self,
        order: StartJob,
        encoded: &[u8],
        (console, outputs): (Console, [OwnedFd; 2]),
    ) -> Result<Process> {
        let spec = Rc::new(JobSpec::decode(encoded)?);
        self.trace.decide(spec.trace, &order.spans);
        spec.check()?;
        order.shares.check(spec.size())?;
        order.shares.get(order.place as usize).context("no share is ours")?;
        let world = World::of_job(&spec, &order);
        let (tidy, made) = Tidy::start(Path::new(&order.tmpdir), (&spec, &world.here), self.notes);
        let cgroup = cgroup_of(&order);
        let pump = Pump::new(machine_of(&spec, &order));
        let mut worlds = Worlds::default();
        worlds.insert(world);
        let directory = tidy.directory().map(Path::to_owned);
        let groups = tidy.groups();
        let job = Job { spec, order, worlds, directory, groups, daemon: self.parent };
        let (stdio, trouble) = Stdio::new(&job, outputs)?;
        let for_ranks = cgroup.as_ref().map(|group| group.as_fd().try_clone_to_owned());
        let mut process = Process {
            signals: self.signals,
            signalled: true,
            pump,
            upstream: Upstream::new(console, self.daemon, self.trace, &job),
            links: Links::new(self.branches),
            ranks: Ranks::new(&job, for_ranks.transpose()?)?,
            stdio,
            pmi: Pmi::new(&job),
            spawns: Spawns::new(&job),
            ending: Ending::new(tidy, cgroup),
            over: None,
            common: Common {
                poll: self.poll,
                clock: self.clock,
                null: fs::OpenOptions::new().read(true).open("/dev/null")?.into(),
                job,
                events: std::collections::VecDeque::new(),
            },
        };
        let turn = &mut process.common.turn();
        let watched = process.upstream.begin(turn.now(), turn.registry, Token(CONSOLE));
        watched.context("cannot watch the console")?;
        process.stdio.register(turn.registry).context("cannot watch the outputs")?;
        process.links.pass_on_specification(encoded);
        process.links.begin(turn, made.err().or(trouble), self.early);
        Ok(process)
    }
}

fn cgroup_of(order: &StartJob) -> Option<Cgroup> {
    order.cgroup.as_ref().and_then(|path| Cgroup::open(Path::new(path)).ok())
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
