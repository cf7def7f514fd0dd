//! What the loop lends to each owner: the job, the clock, the registry, and a list for what the owner
//! reports.

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

use super::ending::Groups;
use super::event::{Event, Mark};
use super::worlds::Worlds;

/// The first look at /dev/shm, and at the MPI libraries of ranks; each next one comes after twice the time, up to a
/// number of doublings.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(20);

/// The job, as this manager knows it. The loop changes it, the owners read it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) spec: Rc<JobSpec>,
    pub(super) order: StartJob,
    pub(super) worlds: Worlds,
    /// The job's directory, if it could be made.
    pub(super) directory: Option<PathBuf>,
    /// What groups of the ranks here share.
    pub(super) groups: Rc<Groups>,
    /// The daemon that started this process.
    pub(super) daemon: Pid,
}

impl Job {
    /// The number of this host in the list of the job's hosts.
    pub(super) const fn place(&self) -> usize {
        self.order.place as usize
    }

    pub(super) const fn is_root(&self) -> bool {
        self.order.place == 0
    }

    /// Whether this host joined for a spawned world.
    pub(super) fn joined_late(&self) -> bool {
        let share = self.order.shares.get(self.place());
        !self.is_root() && share.is_some_and(|share| share.ranks.is_empty())
    }

    /// Whether the job began with that rank.
    pub(super) fn is_first(&self, rank: Rank) -> bool {
        rank.0 < self.spec.size()
    }

    /// The name of the host at a place of the job, as the ring knows it.
    pub(super) fn host_at(&self, place: usize) -> String {
        let share = self.order.shares.get(place);
        share.map_or_else(|| self.order.host.clone(), |share| share.member.to_string())
    }

    /// The name of this host, as the ring knows it.
    pub(super) fn host(&self) -> String {
        self.host_at(self.place())
    }

    /// How a rank is called where people read it: its number, and that of its world if it was spawned.
    pub(super) fn name_of(&self, rank: Rank) -> String {
        Numbers::name(self.worlds.of(rank).map(|world| &world.numbers), rank)
    }
}

/// What all owners use, in the hands of the loop.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) poll: Poll,
    pub(super) clock: Clock,
    /// `/dev/null`, for reading.
    pub(super) null: OwnedFd,
    pub(super) job: Job,
    /// Reported by owners, and not delivered yet.
    pub(super) events: VecDeque<Event>,
}

impl Common {
    /// For the turn of one owner.
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

/// Lent to an owner for one turn.
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

    /// Reports something. The loop delivers it when the owner's turn is over, in the order of reports.
    pub(super) fn report(&mut self, event: impl Into<Event>) {
        self.events.push_back(event.into());
    }

    /// Reports an input of the job's machine.
    pub(super) fn post(&mut self, input: Input) {
        self.report(Event::Input(input));
    }

    /// Reports something for the console.
    pub(super) fn tell_console(&mut self, news: JobNews) {
        self.report(Event::ToConsole(news));
    }

    /// Reports something for the daemon.
    pub(super) fn tell_daemon(&mut self, report: ManagerReport) {
        self.report(Event::ToDaemon(report));
    }

    /// A span of the launch's timeline begins.
    pub(super) fn begin(&mut self, phase: Phase, rank: Option<Rank>) {
        let now = self.now();
        self.report(Event::Span(Mark::Begin, now, phase, rank));
    }

    /// It ends.
    pub(super) fn end(&mut self, phase: Phase, rank: Option<Rank>) {
        let now = self.now();
        self.report(Event::Span(Mark::End, now, phase, rank));
    }
}
