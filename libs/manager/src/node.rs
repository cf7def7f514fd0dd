//! The node: the machines of the job, of its processes and of its end, the reports, and what is still to be routed.

use std::ops::Range;

use mpd_clients::{Clients, Job, Room};
use mpd_ending::{self as ending, Ending};
use mpd_job::manager::{LinkEnd, Manager};
use mpd_ranks::{self as ranks, Context, Ranks};
use mpd_sansio::{Pump, Time};
use mpd_stdio::machine::Stdio;
use mpd_wire::Rank;
use mpd_wire::message::{Class, JobNews};

use crate::facts::Facts;
use crate::lending::Lending;
use crate::output::{Output, Work};
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
    clients: Clients,
    ranks: Ranks,
    ending: Ending,
    stdio: Stdio,
    pub(crate) upstream: Upstream,
    pub(crate) queue: Queue,
    /// The job ended before all children had connected.
    pub(crate) unlinked: bool,
}

impl Node {
    /// The node of a job that begins now. Its machine has had no input yet, and the first outputs of the end were taken.
    pub fn new(
        now: Time,
        job: Job,
        (machine, ranks, mut ending, stdio): (Pump<Manager>, Ranks, Ending, Stdio),
        beginning: Beginning,
    ) -> Self {
        let upstream = Upstream::new(now, &job, beginning);
        let own = job.worlds.of(Rank(0)).map(|world| world.kvsname.clone());
        own.into_iter().for_each(|space| ending.handle(now, ending::Input::World(space)));
        let clients = Clients::new(&job);
        Self {
            job,
            machine,
            clients,
            ranks,
            ending,
            stdio,
            upstream,
            queue: Queue::default(),
            unlinked: false,
        }
    }

    /// The job, as this manager knows it.
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// What an owner gets lent in its turn.
    pub const fn lend(&mut self) -> Lending<'_> {
        Lending {
            job: &self.job,
            clients: &mut self.clients,
            stdio: &mut self.stdio,
            events: &mut self.queue.events,
        }
    }

    /// The next output to perform; `None` if nothing is left. What the machines of processes want goes first, then events, then
    /// outputs of the job's machine.
    pub fn next(&mut self, now: Time, facts: &dyn Facts) -> Option<Output> {
        let at = Moment { now, facts };
        loop {
            if let Some(output) = self.next_of_machines(now, facts) {
                return Some(output);
            }
            if let Some(work) = self.queue.work.pop_front() {
                match work {
                    Work::Ranks(input) => self.give_ranks(now, facts, input),
                    Work::Ending(input) => self.ending.handle(now, input),
                    Work::Clients(input) => self.lend().give_clients(now, input),
                    Work::Signal(rank, signal) => {
                        if let Some(way) = self.ranks.way_to(rank, signal) {
                            return Some(Output::Send(rank, way, signal));
                        }
                    }
                    Work::Perform(output) => {
                        if matches!(output, Output::Daemon(_)) {
                            self.upstream.note_report();
                        }
                        return Some(output);
                    }
                }
            } else if let Some(event) = self.queue.events.pop_front() {
                self.route_event(at, event);
            } else {
                let output = self.machine.next(now)?;
                self.route_job(at, output);
            }
        }
    }

    // ----- processes, and their end -----

    pub const fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// For what the machine notes without an output.
    pub const fn ranks_mut(&mut self) -> &mut Ranks {
        &mut self.ranks
    }

    pub const fn clients(&self) -> &Clients {
        &self.clients
    }

    pub const fn stdio(&self) -> &Stdio {
        &self.stdio
    }

    pub const fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Gives the machine of the ranks an input or an answer at once. Then perform all of [`Node::next_of_machines`] before
    /// anything else.
    pub fn give_ranks(&mut self, now: Time, facts: &dyn Facts, input: ranks::Input) {
        self.ranks.handle(Context { now, job: &self.job, host: facts }, input);
    }

    /// The same with the machine of the end.
    pub fn give_ending(&mut self, now: Time, input: ending::Input) {
        self.ending.handle(now, input);
    }

    /// The next output of these machines, as in [`Node::next`]. No event is routed. The machine of the end may give the other
    /// one an input, so that one is the first.
    pub fn next_of_machines(&mut self, now: Time, facts: &dyn Facts) -> Option<Output> {
        loop {
            if let Some(action) = self.lend().next_of_clients(now) {
                return Some(Output::Clients(action));
            }
            let output = match self.ranks.poll_output() {
                Some(output) => self.route_ranks(now, output),
                None => {
                    let output = self.ending.poll_output()?;
                    self.route_ending(Moment { now, facts }, output)
                }
            };
            if output.is_some() {
                return output;
            }
        }
    }

    /// Starts the next few ranks, unless processes are being stopped or ended: a child cannot begin in a control group that is
    /// frozen. Call as [`Node::handle_timeout`].
    pub fn start_some(&mut self, now: Time, facts: &dyn Facts) {
        if self.is_to_start() {
            self.give_ranks(now, facts, ranks::Input::Turn);
        }
    }

    /// Whether [`Node::start_some`] has something to do.
    pub fn is_to_start(&self) -> bool {
        self.ranks.is_any_starting() && !self.ending.is_busy()
    }

    /// Lets the machine of the ranks act on its deadlines. Call as [`Node::handle_timeout`].
    pub fn expire_ranks(&mut self, now: Time, facts: &dyn Facts) {
        if self.ranks.poll_timeout().is_some_and(|at| at <= now) {
            let is_idle = !self.ending.is_busy();
            let context = Context { now, job: &self.job, host: facts };
            self.ranks.handle_timeout(context, is_idle);
        }
    }

    /// Lets the machine of the clients act on its deadlines. Call as [`Node::handle_timeout`].
    pub fn expire_clients(&mut self, now: Time) {
        if self.clients.poll_timeout().is_some_and(|at| at <= now) {
            self.clients.handle_timeout(now, &self.job);
        }
    }

    /// Lets the machine of the end act on its deadlines. Call as [`Node::handle_timeout`].
    pub fn expire_ending(&mut self, now: Time) {
        if self.ending.poll_timeout().is_some_and(|at| at <= now) {
            self.ending.handle_timeout(now);
        }
    }

    // ----- deadlines -----

    /// Acts on every deadline at or before `now`. Call when [`Node::next`] has returned `None`, then drain it again.
    pub fn handle_timeout(&mut self, now: Time, facts: &dyn Facts) {
        self.machine.handle_timeout(now);
        self.report_to(Moment { now, facts }, |upstream, turn| upstream.expire(turn));
    }

    /// Ends the turn of the manager: the machine reports what ranks did. Call as [`Node::handle_timeout`].
    pub fn end_turn(&mut self, now: Time) {
        self.machine.end_turn(now);
    }

    /// When [`Node::handle_timeout`] or one of the others is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadlines = [
            self.machine.machine().poll_timeout(),
            self.ranks.poll_timeout(),
            self.ending.poll_timeout(),
            self.clients.poll_timeout(),
            self.stdio.poll_timeout(),
            self.upstream.poll_timeout(),
        ];
        deadlines.into_iter().flatten().min()
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

    /// Completes a recording. All else is freed at once by the end of the process.
    pub fn end(self) {
        let Self { job, machine, clients, ranks, ending, stdio, upstream, queue, .. } = self;
        drop(machine);
        std::mem::forget((job, clients, ranks, ending, stdio, upstream, queue));
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

    /// Adds work behind the earlier one.
    pub(crate) fn perform(&mut self, work: impl Into<Work>) {
        self.queue.perform(work);
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
