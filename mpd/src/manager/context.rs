//! The context of an owner's turn, lent by the loop: the job, the clock, the registry, and a list for the owner's
//! events.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use mio::{Poll, Registry};
use mpd_io::clock::Clock;
use mpd_job::manager::Input;
use mpd_machine::Time;
use mpd_wire::Rank;
use mpd_wire::job::{JobSpec, World as Numbers};
use mpd_wire::message::{JobNews, ManagerReport, Phase, StartJob};
use nix::unistd::Pid;

use super::ending::groups::Groups;
use super::event::{Event, Mark};
use super::worlds::Worlds;

/// The time before the first look at /dev/shm. Later intervals double, up to a bound.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(20);

/// The job, as this manager knows it. The loop changes it, the owners read it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) spec: Rc<JobSpec>,
    pub(super) order: StartJob,
    pub(super) worlds: Worlds,
    /// The job's directory, if it could be made.
    pub(super) directory: Option<PathBuf>,
    /// The shared objects of groups of the ranks here.
    pub(super) groups: Rc<Groups>,
    /// The port for PMIx clients, once ranks may be started.
    pub(super) pmix_port: Option<u16>,
    /// The secret part of the PMIx namespaces, which the key of the job defines.
    pub(super) pmix_secret: String,
    /// The daemon that started this process.
    pub(super) daemon: Pid,
}

impl Job {
    /// The number of this host in the list of the job's hosts.
    pub(super) const fn tree_index(&self) -> usize {
        self.order.tree_index as usize
    }

    pub(super) const fn is_root(&self) -> bool {
        self.order.tree_index == 0
    }

    /// Whether this host joined for a spawned world.
    pub(super) fn joined_late(&self) -> bool {
        let host_slice = self.order.host_slices.get(self.tree_index());
        !self.is_root() && host_slice.is_some_and(|host_slice| host_slice.ranks.is_empty())
    }

    /// Whether the job began with that rank.
    pub(super) fn is_first(&self, rank: Rank) -> bool {
        rank.0 < self.spec.size()
    }

    /// The name of the host at a tree index, as the ring knows it.
    pub(super) fn host_at(&self, tree_index: usize) -> String {
        let host_slice = self.order.host_slices.get(tree_index);
        host_slice
            .map_or_else(|| self.order.host.clone(), |host_slice| host_slice.member.to_string())
    }

    /// The name of this host, as the ring knows it.
    pub(super) fn host(&self) -> String {
        self.host_at(self.tree_index())
    }

    /// The name of a rank in texts: its number, and the number of its world if it was spawned.
    pub(super) fn name_of(&self, rank: Rank) -> String {
        Numbers::name(self.worlds.of(rank).map(|world| &world.numbers), rank)
    }
}

/// The shared resources of all owners, kept by the loop.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) poll: Poll,
    pub(super) clock: Clock,
    /// `/dev/null`, for reading.
    pub(super) null: OwnedFd,
    pub(super) job: Job,
    /// Events that are not delivered yet.
    pub(super) events: VecDeque<Event>,
}

impl Common {
    /// The context for the turn of one owner.
    pub(super) fn turn(&mut self) -> Turn<'_> {
        Turn {
            registry: self.poll.registry(),
            null: self.null.as_fd(),
            job: &self.job,
            clock: &self.clock,
            events: &mut self.events,
        }
    }
}

/// The context of one turn of an owner.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) registry: &'a Registry,
    /// `/dev/null`, for reading.
    pub(super) null: BorrowedFd<'a>,
    pub(super) job: &'a Job,
    clock: &'a Clock,
    events: &'a mut VecDeque<Event>,
}

impl Turn<'_> {
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Reports an event. The loop delivers it after the owner's turn, in the order of reports.
    pub(super) fn report(&mut self, event: impl Into<Event>) {
        self.events.push_back(event.into());
    }

    /// Reports an input of the job's machine.
    pub(super) fn post(&mut self, input: Input) {
        self.report(Event::Input(input));
    }

    /// Reports a message for the console.
    pub(super) fn send_to_console(&mut self, news: JobNews) {
        self.report(Event::ToConsole(news));
    }

    /// Reports a message for the daemon.
    pub(super) fn send_to_daemon(&mut self, report: ManagerReport) {
        self.report(Event::ToDaemon(report));
    }

    /// Begins a span of the launch's timeline.
    pub(super) fn begin(&mut self, phase: Phase, rank: Option<Rank>) {
        let now = self.now();
        self.report(Event::Span(Mark::Begin, now, phase, rank));
    }

    /// Ends a span of the launch's timeline.
    pub(super) fn end(&mut self, phase: Phase, rank: Option<Rank>) {
        let now = self.now();
        self.report(Event::Span(Mark::End, now, phase, rank));
    }
}
