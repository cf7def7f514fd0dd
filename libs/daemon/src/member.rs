//! A member of the ring: the ring's machine, its owners, and the router between them.
//!
//! The router gives each input to one owner, and each output of the ring too. Owners do not call each other. An owner
//! returns [`Effect`]s, and the router takes each to one owner or to the process:
//!
//! | owner | has |
//! |---|---|
//! | [`Allocations`] | the slots of this host, requests for slots, and the queue |
//! | [`Consoles`] | requests of consoles, and their answers |
//! | [`Followers`] | consoles that follow the events of jobs |
//! | [`Hosts`] | changes of hosts, for the events of jobs here |
//! | [`KeptEvents`] | events of jobs here, and orders that wait for them |
//! | [`Launches`] | announcements of jobs to other hosts and from them; requests about spawned ranks |
//! | [`Meetings`] | requests of root managers here about other jobs |
//! | [`Naming`] | requests of managers here about names |
//! | [`Stay`] | entering, leaving, the saved ring, lost members |
//! | [`Journal`] | the log |

use std::collections::{BTreeSet, VecDeque};

use mpd_jobtable::{JobTable, Line, ManagerMessage};
use mpd_ring::{Event, Input as RingInput, Output as RingOutput, RequestId, Ring};
use mpd_sansio::{Pump, Time};
use mpd_wire::job::JobSpec;
use mpd_wire::message::{ConsoleReply, Launch, ManagerOrder, RingRequest, ScatterId};
use mpd_wire::{ConsoleId, DaemonName, Instance, JobId};

use crate::allocations::{Allocations, Here};
use crate::consoles::Consoles;
use crate::demand::Demand;
use crate::draining::Draining;
use crate::effect::Effect;
use crate::followers::Followers;
use crate::hosts::Hosts;
use crate::input::RingEvent;
use crate::journal::Journal;
use crate::keep::Keep;
use crate::kept_events::KeptEvents;
use crate::launch::{Announcement, Launches};
use crate::lease::{Lease, LeaseTerms};
use crate::meetings::Meetings;
use crate::names::Naming;
use crate::output::{Output, RingAction};
use crate::placement::{self, Plan, PlanError};
use crate::request::{Gathered, Requester, payload_of};
use crate::saved::Saved;
use crate::stay::{Entrance, Stay};
use crate::view::RingIdentity;

/// The circumstances of a call.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) now: Time,
    /// The time of day, in microseconds since 1970.
    pub(crate) wall_us: u64,
    /// The jobs of this host.
    pub(crate) jobs: &'a JobTable,
}

/// What follows from a call, in its order.
#[derive(Debug)]
pub(crate) enum Step {
    /// For the process.
    Perform(Output),
    /// Start the manager of a host slice. The answer is [`Member::manager_started`].
    Start {
        /// The order that asks for it.
        order: ScatterId,
        launch: Box<Launch>,
        /// The position of the host slice in the tree of the job.
        tree_index: usize,
    },
    /// Have the managers here count output, for the next [`RingAction::Measure`].
    CountOutput,
}

/// What the node knows of its process and its host.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The ring, for consoles.
    pub identity: RingIdentity,
    /// The release of this program.
    pub release: String,
    /// The id of this process.
    pub pid: u32,
    /// The user of this process.
    pub uid: u32,
    /// The architecture of this machine.
    pub arch: String,
    /// The CPUs of this machine that can be used.
    pub cpus: u32,
    /// The speed of this machine in hundredths, if it was given.
    pub speed_hundredths: Option<u32>,
    /// Whether the site has a hook that sees requests for slots.
    pub has_hook: bool,
}

/// How a daemon enters its ring, and how long it stays.
#[derive(Debug)]
pub struct Membership {
    /// How it enters.
    pub entrance: Entrance,
    /// The record of the ring.
    pub saved: Saved,
    /// The members that an earlier daemon knew.
    pub former: BTreeSet<DaemonName>,
    /// With `--keep`: the names of the members that are started again.
    pub kept: Option<BTreeSet<String>>,
    /// In a ring that ends by itself.
    pub lease: Option<LeaseTerms>,
}

/// The decisions of a member; see the module.
#[derive(Debug)]
pub struct Member {
    pub(crate) pump: Pump<Ring>,
    pub(crate) allocations: Allocations,
    consoles: Consoles,
    followers: Followers,
    hosts: Hosts,
    pub(crate) kept_events: KeptEvents,
    pub(crate) launches: Launches,
    pub(crate) meetings: Meetings,
    pub(crate) naming: Naming,
    pub(crate) stay: Stay,
    pub(crate) draining: Draining,
    pub(crate) journal: Journal,
    pub(crate) facts: Facts,
    pub(crate) steps: VecDeque<Step>,
}

impl Member {
    /// A member around the machine of the ring, which has taken no step yet. `slots`: the record of the slots that an earlier
    /// daemon of this name left. `at`: the time by our clock, and the time of day.
    pub fn new(
        at: (Time, u64),
        pump: Pump<Ring>,
        facts: Facts,
        membership: Membership,
        slots: mpd_alloc::Saved,
    ) -> Self {
        let Membership { entrance, saved, former, kept, lease } = membership;
        let now = at.0;
        let keep = kept.map(|known| Keep::new(known, now));
        let lease = lease.map(|terms| Lease::new(terms, now));
        let here = Here {
            name: pump.machine().name().clone(),
            arch: facts.arch.clone(),
            uid: facts.uid,
            has_hook: facts.has_hook,
        };
        Self {
            allocations: Allocations::new(at.0, at.1, here, slots),
            pump,
            consoles: Consoles::new(facts.identity.clone()),
            followers: Followers::new(),
            hosts: Hosts::new(former),
            kept_events: KeptEvents::default(),
            launches: Launches::new(facts.cpus),
            meetings: Meetings::new(facts.uid),
            naming: Naming::new(),
            stay: Stay::new(entrance, saved, keep, lease),
            draining: Draining::default(),
            journal: Journal::default(),
            facts,
            steps: VecDeque::new(),
        }
    }

    /// Takes an event. [`Member::next_step`] then has what follows.
    pub(crate) fn handle(&mut self, turn: Turn<'_>, event: RingEvent) {
        match event {
            RingEvent::Link(input) => self.pump.post(input),
            RingEvent::Pinged { console, reply } => self.consoles.post(console, reply, true),
            RingEvent::Refused(why) => {
                let lines = self.journal.refused(turn.now, format_args!("{why}"));
                self.log_all(lines);
            }
            RingEvent::Introduced(records) => {
                self.stay.introduced(turn.now);
                // The next turn settles it.
                return self.pump.post(RingInput::Introduce(records));
            }
            RingEvent::ConsoleRead(console) => self.followers.has_read(turn.now, console),
            RingEvent::HostMarked(is_set) => {
                self.log_all([Line::info(format!("drained by root: {is_set}"))]);
                let draining = self.draining.marked(is_set);
                self.pump.post(RingInput::Drain(draining));
            }
            RingEvent::Measured { order, host, ranks } => self.measured(order, host, ranks),
            RingEvent::HelperEnded(member) => self.stay.helper_ended(&member),
            RingEvent::HookEnded { hook, end } => {
                let effect = self.allocations.hook_ended(hook, end);
                self.route_all(turn, effect);
            }
        }
        self.settle(turn);
    }

    /// A console is gone.
    pub(crate) fn forget_console(&mut self, turn: Turn<'_>, console: ConsoleId) {
        self.consoles.forget(console);
        self.followers.forget_console(console);
        let effect = self.allocations.forget_console(console);
        self.route_all(turn, effect);
    }

    /// A signal asks this daemon to leave.
    pub(crate) fn leave_on_signal(&mut self, turn: Turn<'_>) {
        self.stay.leave_on_signal(turn.now);
        self.settle(turn);
    }

    /// A job was started here, and has hosts elsewhere.
    pub(crate) fn announce(&mut self, turn: Turn<'_>, announcement: Announcement) {
        let effect = self.launches.announce(turn.now, turn.wall_us, announcement);
        self.route(turn, effect);
    }

    /// Begins a turn, before the links are read. `is_needed`: whether a job needs this daemon, or the mpirun of a private
    /// ring, or a console of a ring that ends when it is idle. A job that comes with the links of this turn keeps the daemon too.
    pub(crate) fn begin_turn(&mut self, turn: Turn<'_>, is_needed: bool) {
        let effect = self.stay.review_lease(turn.now, self.pump.machine(), is_needed);
        self.route_all(turn, effect);
        self.settle(turn);
    }

    /// Does everything that is due, after the links are read. `has_data`: whether more data waits at links; it is handled
    /// before deadlines.
    pub(crate) fn turn(&mut self, turn: Turn<'_>, has_data: bool) {
        let Turn { now, jobs, .. } = turn;
        let (ring, entered) = (self.pump.machine(), self.stay.has_entered());
        let at = (now, turn.wall_us);
        let mut effects = self.naming.serve(now, ring, entered, |job| jobs.is_running(job));
        effects.extend(self.launches.serve_spawns(at, ring));
        effects.extend(self.meetings.serve(ring, entered));
        effects.extend(self.allocations.serve(at, ring, entered, jobs));
        effects.extend(self.hosts.report(ring, entered, || jobs.connected_roots()));
        effects.extend(self.kept_events.serve(now, jobs));
        effects.extend(self.followers.serve(now, entered));
        self.route_all(turn, effects);
        self.settle(turn);
        if !has_data && self.ring().poll_timeout().is_some_and(|at| at <= now) {
            self.pump.handle_timeout(now);
            self.settle(turn);
        }
    }

    /// Ends a turn. All its outputs are performed, and job links that came in it have their managers. So the daemon may leave
    /// now, and the saved list of members has all changes.
    pub(crate) fn end_turn(&mut self, turn: Turn<'_>) {
        let now = turn.now;
        self.consoles.review(now, self.pump.machine());
        let lines = self.journal.turn(now);
        self.log_all(lines);
        let effects = self.stay.review_leaving(now, self.pump.machine());
        self.route_all(turn, effects);
        self.settle(turn);
        let helpers = self.stay.revive(now, self.pump.machine());
        helpers.into_iter().for_each(|member| self.act(RingAction::StartHelper(member)));
        let record = self.stay.save(now, self.pump.machine());
        record.into_iter().for_each(|action| self.act(action));
    }

    /// What is next, to be done before the next input.
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        let answer =
            |(console, reply, is_last)| Step::Perform(Output::Answer { console, reply, is_last });
        self.steps.pop_front().or_else(|| self.consoles.next_answer().map(answer))
    }

    pub(crate) fn perform(&mut self, output: Output) {
        self.steps.push_back(Step::Perform(output));
    }

    pub(crate) fn act(&mut self, action: RingAction) {
        self.perform(Output::Ring(action));
    }

    /// Whether [`Member::turn`] has something to do at once.
    pub(crate) fn has_work(&self) -> bool {
        !self.steps.is_empty() || !self.pump.is_dry() || self.allocations.has_work()
    }

    /// When [`Member::turn`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        [
            self.ring().poll_timeout(),
            self.allocations.next_deadline(self.stay.has_entered()),
            self.consoles.next_deadline(),
            self.followers.next_deadline(self.stay.has_entered()),
            self.kept_events.next_deadline(),
            self.journal.next_deadline(),
            self.naming.next_deadline(),
            self.stay.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The machine of the ring, for queries.
    pub(crate) const fn ring(&self) -> &Ring {
        self.pump.machine()
    }

    /// Whether this daemon is in the ring.
    pub(crate) const fn has_entered(&self) -> bool {
        self.stay.has_entered()
    }

    /// Whether connections are accepted.
    pub(crate) const fn accepts(&self) -> bool {
        self.stay.accepts()
    }

    /// Why entering has failed for good, or why this daemon must leave. `last`: why the last attempt to connect failed.
    pub(crate) fn failure(&self, now: Time, last: &str) -> Option<String> {
        self.stay.failure(now, self.ring().name(), last)
    }

    /// Whether this daemon is out of the ring, and its last messages are sent (`is_quiet`) or late.
    pub(crate) fn is_over(&self, now: Time, is_quiet: bool) -> bool {
        self.stay.is_over(now, is_quiet)
    }

    /// Whether this job was cancelled a short time ago.
    pub(crate) fn is_cancelled(&self, job: &JobId) -> bool {
        self.launches.is_cancelled(job)
    }

    /// The consoles that get their next events of a job when they have read the last ones; see [`RingEvent::ConsoleRead`].
    pub(crate) fn full_consoles(&self) -> Vec<ConsoleId> {
        self.followers.full()
    }

    /// Places the ranks of a job that was submitted here. The managers get instances from `first` on.
    pub(crate) fn place(
        &self,
        now: Time,
        spec: &JobSpec,
        first: Instance,
    ) -> Result<Plan, PlanError> {
        placement::among((self.ring(), self.facts.cpus), &self.allocations.held(now), spec, first)
    }

    /// Handles a console's request.
    pub(crate) fn ask(&mut self, turn: Turn<'_>, console: ConsoleId, request: RingRequest) {
        let (ring, wall_us) = (self.pump.machine(), turn.wall_us);
        let effect = match request {
            RingRequest::Slots(payload) => self.allocations.ask(ring, wall_us, console, &payload),
            RingRequest::JobEvents { job, from } => {
                self.followers.ask(turn.now, ring, console, job, from)
            }
            _ => self.consoles.ask(ring, wall_us, console, request),
        };
        self.route_all(turn, effect);
    }

    /// Handles a request of a manager of this host.
    pub(crate) fn serve(&mut self, turn: Turn<'_>, demand: Demand) {
        match demand {
            Demand::Events { job, events } => {
                self.kept_events.reported(turn.jobs, &job, events);
                self.settle(turn);
            }
            Demand::Name(request) => self.naming.request(request),
            Demand::Meeting(request) => {
                let effect = self.meetings.request(request);
                self.route_all(turn, effect);
            }
            Demand::Spawn(spawn) => self.launches.spawn(spawn),
            Demand::Cancel(job) => {
                let effect = self.launches.cancel(job);
                self.route(turn, effect);
            }
            Demand::ManagerEnded { job, end } => {
                let effect = self.launches.manager_ended(job, end);
                self.route_all(turn, effect);
            }
        }
    }

    /// Gives each waiting input to the ring, and routes all its outputs before the next input.
    pub(crate) fn settle(&mut self, turn: Turn<'_>) {
        while let Some(output) = self.pump.next(turn.now) {
            self.take(turn, output);
        }
    }

    /// Routes an output of the ring. Resulting inputs of the ring are queued.
    fn take(&mut self, turn: Turn<'_>, output: RingOutput) {
        let now = turn.now;
        match output {
            RingOutput::Connect(connect) => {
                if self.stay.connects() {
                    self.act(RingAction::Connect(connect));
                }
            }
            RingOutput::Abandon(token) => self.act(RingAction::Abandon(token)),
            RingOutput::Send(link, message) => self.act(RingAction::Send(link, message)),
            RingOutput::Close(link) => self.act(RingAction::Close(link)),
            RingOutput::Deliver { id, payload, hops, sender } => {
                if let Some(answer) = self.delivered(turn, id, &payload, hops, sender.as_ref()) {
                    self.pump.post(RingInput::Answered(id, payload_of(&answer)));
                }
            }
            RingOutput::Scattered { request, answers, missing, depth } => {
                self.scattered(turn, Gathered { request, answers, missing, depth });
            }
            RingOutput::LapsHome { request, hops, names, took } => {
                let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.consoles.finish(request, ConsoleReply::LapsHome { hops, names, took_us });
            }
            RingOutput::LapLost { request, home } => {
                self.consoles.finish(request, ConsoleReply::LapLost { home });
            }
            RingOutput::Refused(request) => self.refused(turn, request),
            RingOutput::Event(event) => self.happened(turn, &event),
            RingOutput::Published { request, result } => {
                let effects = self.naming.published(request, result);
                self.route_all(turn, effects);
            }
            RingOutput::Unpublished { request, found } => {
                let effect = self.naming.unpublished(request, found);
                self.route_all(turn, effect);
            }
            RingOutput::NameLost { name, job, to } => {
                let order = ManagerOrder::NameLost { name, to: Some(to) };
                self.perform(Output::ToManager(ManagerMessage::new(job, order)));
            }
            RingOutput::Over => self.end(now),
        }
    }

    pub(crate) fn route_all(&mut self, turn: Turn<'_>, effects: impl IntoIterator<Item = Effect>) {
        effects.into_iter().for_each(|effect| self.route(turn, effect));
    }

    /// Routes an effect to its owner, or to the process.
    fn route(&mut self, turn: Turn<'_>, effect: Effect) {
        match effect {
            Effect::Post(input) => self.pump.post(input),
            Effect::Answer(console, reply, last) => self.consoles.post(console, reply, last),
            Effect::Report(message) => self.perform(Output::ToManager(message)),
            Effect::Log(line) => self.perform(Output::Log(line)),
            Effect::Perform(action) => self.act(action),
            Effect::Leave(how) => self.stay.leave(turn.now, how),
            Effect::End => self.end(turn.now),
        }
    }

    pub(crate) fn log_all(&mut self, lines: impl IntoIterator<Item = Line>) {
        lines.into_iter().for_each(|line| self.perform(Output::Log(line)));
    }

    /// Handles the end of one of our own scatters.
    fn scattered(&mut self, turn: Turn<'_>, gathered: Gathered) {
        let now = turn.now;
        match Requester::of(gathered.request) {
            Requester::Allocations => {
                let effects = self.allocations.gathered(self.pump.machine(), gathered);
                self.route_all(turn, effects);
            }
            Requester::Consoles => {
                let effect = self.consoles.scattered(now, self.pump.machine(), gathered);
                self.route_all(turn, effect);
            }
            Requester::Followers => {
                let effect = self.followers.gathered(now, self.pump.machine(), &gathered);
                self.route_all(turn, effect);
            }
            Requester::Launches => {
                let mut effects = self.launches.announced(now, &gathered);
                let at = (now, turn.wall_us);
                effects.extend(self.launches.serve_spawns(at, self.pump.machine()));
                self.route_all(turn, effects);
            }
            Requester::Meetings => {
                let effect = self.meetings.gathered(self.pump.machine(), &gathered);
                self.route_all(turn, effect);
            }
            // These owners need no answers.
            Requester::Names | Requester::Stay => {}
        }
    }

    /// The ring refuses a request of ours.
    fn refused(&mut self, turn: Turn<'_>, request: RequestId) {
        let problem = "too many requests are under way here; try again";
        match Requester::of(request) {
            Requester::Allocations => {
                let effect = self.allocations.refused(request, problem);
                self.route_all(turn, effect);
            }
            Requester::Consoles => {
                let problem = problem.to_owned();
                self.consoles.finish(request, ConsoleReply::Refused { problem });
            }
            Requester::Followers => self.followers.refused(turn.now, request),
            Requester::Launches => {
                let mut effects = self.launches.unannounced(turn.now, request, problem);
                let at = (turn.now, turn.wall_us);
                effects.extend(self.launches.serve_spawns(at, self.pump.machine()));
                self.route_all(turn, effects);
            }
            Requester::Meetings => {
                let effect = self.meetings.refused(request, problem);
                self.route_all(turn, effect);
            }
            Requester::Names => {
                let effect = self.naming.refused(request, problem);
                self.route_all(turn, effect);
            }
            Requester::Stay => {}
        }
    }

    /// Passes an event of the ring to the stay, the log, and the consoles that watch.
    fn happened(&mut self, turn: Turn<'_>, event: &Event) {
        self.stay.note(event);
        self.consoles.count(event);
        let (lines, is_for_watchers) = self.journal.happened(turn.now, event);
        self.log_all(lines);
        if is_for_watchers {
            self.consoles.send_to_watchers(self.pump.machine(), turn.wall_us, event);
        }
    }

    /// Leaves the ring: this daemon is no longer a member.
    fn end(&mut self, now: Time) {
        if self.stay.is_for_good() {
            for effect in self.allocations.end() {
                match effect {
                    Effect::Answer(console, reply, last) => {
                        self.consoles.post(console, reply, last)
                    }
                    Effect::Perform(action) => self.act(action),
                    Effect::Post(_)
                    | Effect::Report(_)
                    | Effect::Log(_)
                    | Effect::Leave(_)
                    | Effect::End => {}
                }
            }
        }
        self.consoles.answer_rest();
        self.act(RingAction::CloseAll);
        self.stay.end(now);
    }
}
