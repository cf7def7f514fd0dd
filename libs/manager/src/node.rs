//! The node: the machine of the job, the reports, and what is still to be routed.

use std::collections::VecDeque;
use std::ops::Range;

use mpd_clients::{Job, Room};
use mpd_job::manager::{LinkEnd, Manager};
use mpd_sansio::{Pump, Time};
use mpd_wire::message::{Class, JobNews};

use crate::event::Event;
use crate::facts::Facts;
use crate::output::Output;
use crate::turn::{Moment, Queue, Turn};
use crate::upstream::{Beginning, Upstream};

/// Most bytes of texts of clients that wait for the user before clients are not read.
const MAX_TEXTS: usize = 256 * 1024;

/// Most bytes of events of clients that wait for one link before clients are not read.
const MAX_EVENTS: usize = 16 * 1024 * 1024;

/// The decisions of a manager. The crate's documentation describes it.
#[derive(Debug)]
pub struct Node {
    pub(crate) job: Job,
    pub(crate) machine: Pump<Manager>,
    pub(crate) upstream: Upstream,
    pub(crate) queue: Queue,
    /// The job ended before all children had connected.
    pub(crate) unlinked: bool,
}

impl Node {
    /// The node of a job that begins now. `machine` has had no input yet.
    pub fn new(now: Time, job: Job, machine: Pump<Manager>, beginning: Beginning) -> Self {
        let upstream = Upstream::new(now, &job, beginning);
        Self { job, machine, upstream, queue: Queue::default(), unlinked: false }
    }

    /// The job, as this manager knows it.
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// The job and the list of events, for the turn of an owner. Events are added behind the others.
    pub const fn lend(&mut self) -> (&Job, &mut VecDeque<Event>) {
        (&self.job, &mut self.queue.events)
    }

    /// The next output to perform; `None` if nothing is left. Events go before the machine's next output.
    pub fn next(&mut self, now: Time, facts: &dyn Facts) -> Option<Output> {
        let at = Moment { now, facts };
        loop {
            if let Some(output) = self.queue.outputs.pop_front() {
                if matches!(output, Output::Daemon(_)) {
                    self.upstream.note_report();
                }
                return Some(output);
            }
            if let Some(event) = self.queue.events.pop_front() {
                self.route_event(at, event);
            } else {
                let output = self.machine.next(now)?;
                self.route_job(at, output);
            }
        }
    }

    /// Acts on every deadline at or before `now`. Call when [`Node::next`] has returned `None`, then drain it again.
    pub fn handle_timeout(&mut self, now: Time, facts: &dyn Facts) {
        self.machine.handle_timeout(now);
        self.report_to(Moment { now, facts }, |upstream, turn| upstream.expire(turn));
    }

    /// Ends the turn of the manager: the machine reports what ranks did. Call as [`Node::handle_timeout`].
    pub fn end_turn(&mut self, now: Time) {
        self.machine.end_turn(now);
    }

    /// When [`Node::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.machine.machine().poll_timeout().into_iter().chain(self.upstream.poll_timeout()).min()
    }

    /// The exit code, once everything is over. Messages may still be queued.
    pub const fn over(&self) -> Option<u8> {
        self.upstream.over()
    }

    /// Whether the end waits until the daemon has read the last events of the job.
    pub fn awaits_daemon(&self) -> bool {
        self.upstream.awaits_daemon()
    }

    /// Whether the job ended before all children had connected.
    pub const fn is_unlinked(&self) -> bool {
        self.unlinked
    }

    /// How many more bytes of clients' texts and events may be queued. What clients send to the user and to other hosts
    /// must not fill the queues there.
    pub fn room(&self, facts: &dyn Facts) -> Room {
        let texts = match self.job.is_root() {
            true => facts.console_waiting(),
            false => facts.most_queued(Class::Control),
        };
        let events = facts.most_queued(Class::Collective);
        Room { texts: MAX_TEXTS.saturating_sub(texts), events: MAX_EVENTS.saturating_sub(events) }
    }

    /// Whether all output for the parent has been sent.
    pub fn is_all_up(&self, facts: &dyn Facts) -> bool {
        let nothing_waits = |class| facts.queued(LinkEnd::Parent, class) == 0;
        self.job.is_root() || (nothing_waits(Class::Out) && nothing_waits(Class::Err))
    }

    /// Adds an output behind the earlier ones.
    pub(crate) fn perform(&mut self, output: impl Into<Output>) {
        self.queue.perform(output);
    }

    pub(crate) fn console(&mut self, news: JobNews) {
        self.queue.console(news);
    }

    /// Has the reports take something.
    pub(crate) fn report_to(
        &mut self,
        at: Moment<'_>,
        take: impl FnOnce(&mut Upstream, &mut Turn<'_>),
    ) {
        take(&mut self.upstream, &mut Turn { at, job: &self.job, queue: &mut self.queue });
    }

    /// The tree indices of the children of this host.
    pub(crate) fn children(&self) -> Range<usize> {
        self.job.order.host_slices.children(self.job.tree_index())
    }
}
