//! The daemon's part in the ring: the loop around the pure [`Ring`].
//!
//! The loop gives each input to the ring and routes each output to one owner. Owners do not call each other. An
//! owner returns an [`Effect`], and the loop routes it:
//!
//! | owner | has |
//! |---|---|
//! | [`allocations`] | the slots of this host, requests for slots, and the queue |
//! | [`links`] | the links of the ring, pings, our addresses |
//! | [`loads`] | the loads of all hosts, for [`launch`] |
//! | [`consoles`] | requests of consoles, and their answers |
//! | [`followers`] | consoles that follow the events of jobs |
//! | [`hosts`] | changes of hosts, for the events of jobs here |
//! | [`kept_events`] | events of jobs here, and orders that wait for them |
//! | [`launch`] | announcements of jobs to other hosts and from them; requests about spawned ranks |
//! | [`meetings`] | requests of root managers here about other jobs |
//! | [`names`] | requests of managers here about names |
//! | [`stay`] | entering, leaving, the saved state, lost members |
//! | [`journal`] | the log |
//!
//! The table of jobs is lent to the loop for a turn, since orders of other members concern jobs ([`orders`]).

mod address;
mod allocations;
mod consoles;
mod effect;
mod followers;
mod hosts;
mod journal;
mod keep;
mod kept_events;
mod launch;
mod lease;
mod links;
mod loads;
mod meetings;
mod names;
mod orders;
mod outcome;
mod pages;
mod request;
mod saved;
mod start;
mod stay;
#[cfg(test)]
mod tests;
mod view;

use std::collections::VecDeque;

use anyhow::Result;
use mio::Registry;
use mpd_channel::Instance;
use mpd_io::rundir::RunDir;
use mpd_machine::{Pump, Time};
use mpd_ring::{Event, Input, Output, RequestId, Ring};
use mpd_wire::job::JobSpec;
use mpd_wire::message::{ConsoleReply, JobEvent, ManagerOrder, RingRequest};
use mpd_wire::{Address, JobId, Newcomer, Record};

use crate::cli::Cli;
use crate::daemon::demand::Demand;
use crate::daemon::jobs::Jobs;
use crate::daemon::manager_message::ManagerMessage;
use crate::daemon::membership::allocations::Allocations;
use crate::daemon::membership::consoles::Consoles;
use crate::daemon::membership::effect::Effect;
use crate::daemon::membership::followers::Followers;
use crate::daemon::membership::hosts::Hosts;
use crate::daemon::membership::journal::Journal;
use crate::daemon::membership::kept_events::KeptEvents;
use crate::daemon::membership::launch::Launches;
use crate::daemon::membership::links::{LinkEvent, Links};
use crate::daemon::membership::meetings::Meetings;
use crate::daemon::membership::names::Naming;
use crate::daemon::membership::request::{Gathered, Requester, payload_of};
use crate::daemon::membership::stay::Stay;
use crate::daemon::net;
use crate::daemon::net::port::Port;
use crate::daemon::placement::{self, Plan};

pub(crate) use launch::Announcement;
pub(crate) use start::new_instance;

/// The context of a turn.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) jobs: &'a mut Jobs,
    pub(crate) now: Time,
}

/// The ring, its owners, and the messages to managers.
#[derive(Debug)]
pub(crate) struct Membership {
    pump: Pump<Ring>,
    links: Links,
    allocations: Allocations,
    consoles: Consoles,
    followers: Followers,
    hosts: Hosts,
    kept_events: KeptEvents,
    launches: Launches,
    meetings: Meetings,
    naming: Naming,
    stay: Stay,
    journal: Journal,
    manager_messages: VecDeque<ManagerMessage>,
    /// The speed of this host in hundredths, if it was given.
    speed: Option<u32>,
}

impl Membership {
    /// Opens the port and begins to enter the ring.
    pub(crate) fn start(
        cli: &Cli,
        myself: (&str, Instance),
        rundir: &RunDir,
        entries: Vec<Address>,
        now: Time,
    ) -> Result<Self> {
        let (pump, net, stay, hosts) = start::begin(cli, myself, rundir, entries, now)?;
        let own_name = pump.machine().name().clone();
        Ok(Self {
            allocations: Allocations::new(own_name, rundir, cli.alloc_hook(), now),
            pump,
            links: Links::new(net),
            consoles: Consoles::new(),
            followers: Followers::new(),
            hosts,
            kept_events: KeptEvents::default(),
            launches: Launches::new(),
            meetings: Meetings::new(),
            naming: Naming::new(),
            stay,
            journal: Journal::default(),
            manager_messages: VecDeque::new(),
            speed: cli.speed,
        })
    }

    pub(crate) const fn port(&self) -> &Port {
        self.links.port()
    }

    /// Whether this job was cancelled a short time ago.
    pub(crate) fn is_cancelled(&self, job: &JobId) -> bool {
        self.launches.is_cancelled(job)
    }

    /// An event reports a waiting connection at the port.
    pub(crate) const fn mark_port_ready(&mut self) {
        self.links.mark_port_ready();
    }

    /// An event of a link.
    pub(crate) fn mark_ready(&mut self, token: mio::Token, hung_up: bool) {
        self.links.mark_ready(token, hung_up);
    }

    /// Accepts connections, a bounded number a turn.
    pub(crate) fn accept(&mut self, registry: &Registry, now: Time) {
        if self.stay.accepts() {
            self.links.accept(registry, now);
        } else {
            self.links.stop_accepting();
        }
    }

    /// This daemon as it describes itself while it waits for the list of members.
    pub(crate) fn newcomer(&self) -> Newcomer {
        self.ring().newcomer()
    }

    /// The list of members has come.
    pub(crate) fn introduce(&mut self, now: Time, records: Vec<Record>) {
        self.stay.introduced(now);
        self.pump.post(Input::Introduce(records));
    }

    /// Whether this daemon is in the ring.
    pub(crate) const fn has_entered(&self) -> bool {
        self.stay.has_entered()
    }

    /// Why entering has failed for good, or why this daemon must leave.
    pub(crate) fn failure(&self, now: Time) -> Option<String> {
        self.stay.failure(now, self.ring().name(), self.links.last_failure())
    }

    /// Whether this daemon is out of the ring and has sent its last messages.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.stay.is_over(now, self.links.is_quiet())
    }

    /// Begins to leave because of a signal.
    pub(crate) fn leave_on_signal(&mut self, now: Time) {
        self.stay.leave_on_signal(now);
    }

    pub(crate) fn has_work(&self) -> bool {
        self.links.has_work() || !self.pump.is_dry() || self.allocations.has_work()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        [
            self.ring().poll_timeout(),
            self.links.next_deadline(),
            self.allocations.next_deadline(),
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

    /// The next message to a manager of this host.
    pub(crate) fn next_manager_message(&mut self) -> Option<ManagerMessage> {
        self.manager_messages.pop_front()
    }

    /// The next answer for a console, and whether it is the last one.
    pub(crate) fn next_answer(&mut self) -> Option<(usize, ConsoleReply, bool)> {
        self.consoles.next_answer()
    }

    /// Forgets a console that is gone.
    pub(crate) fn forget_console(&mut self, console: usize) {
        self.consoles.forget(console);
        self.allocations.forget_console(console);
        self.followers.forget_console(console);
    }

    /// The consoles that get their next events of a job when they have read the last ones.
    pub(crate) fn full_consoles(&self) -> Vec<usize> {
        self.followers.full()
    }

    /// A console has read everything that was sent to it.
    pub(crate) fn console_has_read(&mut self, console: usize, now: Time) {
        self.followers.has_read(now, console);
    }

    /// The root manager of a job here reports events.
    pub(crate) fn keep_events(&mut self, jobs: &Jobs, job: &JobId, events: Vec<JobEvent>) {
        self.kept_events.reported(jobs, job, events);
    }

    /// Handles a console's request.
    pub(crate) fn ask(
        &mut self,
        registry: &Registry,
        now: Time,
        console: usize,
        request: RingRequest,
    ) {
        let ring = self.pump.machine();
        let effect = match request {
            RingRequest::Slots(payload) => self.allocations.ask(ring, console, &payload),
            RingRequest::JobEvents { job, from } => {
                self.followers.ask(now, ring, console, (job, from))
            }
            _ => self.consoles.ask((ring, self.links.myself()), console, request),
        };
        self.route_all(registry, now, effect);
    }

    /// Places the ranks of a job that was submitted here.
    pub(crate) fn place(&self, now: Time, spec: &JobSpec) -> Result<Plan> {
        if spec.adopted {
            return placement::adopted(self.ring().name().as_str(), Some(self.ring()), spec);
        }
        placement::among(self.ring(), &self.allocations.held(now), spec)
    }

    /// Announces a job whose root manager runs here to its other hosts.
    pub(crate) fn announce(&mut self, registry: &Registry, now: Time, announcement: Announcement) {
        let effect = self.launches.announce(now, announcement);
        self.route(registry, now, effect);
    }

    /// Handles a request of a manager of this host.
    pub(crate) fn serve(&mut self, registry: &Registry, now: Time, demand: Demand) {
        match demand {
            Demand::Name(request) => self.naming.request(request),
            Demand::Meeting(request) => {
                let effect = self.meetings.request(request);
                self.route_all(registry, now, effect);
            }
            Demand::Spawn(spawn) => self.launches.spawn(spawn),
            Demand::Cancel(job) => {
                let effect = self.launches.cancel(job);
                self.route(registry, now, effect);
            }
            Demand::ManagerEnded { job, end } => {
                let effect = self.launches.manager_ended(job, end);
                self.route_all(registry, now, effect);
            }
        }
    }

    /// Does everything that is due: reads the links, gives the ring the time, writes the links. `is_needed`: see
    /// [`Stay::review_lease`].
    pub(crate) fn turn(&mut self, mut turn: Turn<'_>, is_needed: bool) {
        let Turn { registry, now, .. } = turn;
        let effect = self.stay.review_lease(now, self.pump.machine(), is_needed);
        self.route_all(registry, now, effect);
        self.settle(&mut turn);
        self.links.read(registry, now);
        self.settle(&mut turn);
        let (ring, entered) = (self.pump.machine(), self.stay.has_entered());
        let mut effects = self.naming.serve(now, ring, entered, |job| turn.jobs.is_running(job));
        effects.extend(self.launches.serve_spawns(now, ring));
        effects.extend(self.meetings.serve(ring, entered));
        effects.extend(self.allocations.serve(now, ring, entered, turn.jobs));
        effects.extend(self.hosts.report(ring, entered, || turn.jobs.connected_roots()));
        effects.extend(self.kept_events.serve(now, turn.jobs));
        effects.extend(self.followers.serve(now, entered));
        self.route_all(registry, now, effects);
        self.settle(&mut turn);
        // Data that waits in sockets is handled before deadlines.
        let due = self.ring().poll_timeout().is_some_and(|at| at <= now);
        if due && !self.links.has_work() {
            self.pump.handle_timeout(now);
            self.settle(&mut turn);
        }
        self.pass_links(&turn);
        self.consoles.review(now, self.pump.machine());
        self.journal.turn(now);
        let port = self.port().number();
        let effect = self.stay.review_leaving(now, self.pump.machine(), port);
        self.route_all(registry, now, effect);
        self.settle(&mut turn);
        self.revive(&mut turn);
        self.stay.save(now, self.pump.machine(), port);
        self.links.flush();
    }

    const fn ring(&self) -> &Ring {
        self.pump.machine()
    }

    /// Gives each waiting input to the ring and performs all its outputs before the next input. Returns when no input
    /// and no event of the links is left.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            while let Some(output) = self.pump.next(turn.now) {
                self.perform(turn, output);
            }
            match self.links.next(turn.registry, turn.now) {
                Some(LinkEvent::Input(input)) => self.pump.post(input),
                Some(LinkEvent::Pinged(console, reply)) => {
                    self.consoles.reply(console, reply);
                }
                Some(LinkEvent::Refused(why)) => {
                    self.journal.refused(turn.now, format_args!("{why}"));
                }
                None => return,
            }
        }
    }

    /// Performs one output of the ring. Resulting inputs of the ring are queued.
    fn perform(&mut self, turn: &mut Turn<'_>, output: Output) {
        let (registry, now) = (turn.registry, turn.now);
        match output {
            Output::Connect { token, name, instance, addresses, purpose } => {
                if self.stay.connects() {
                    let addresses = links::numeric(&addresses);
                    let request = net::DialRequest { name, instance, addresses, purpose };
                    self.links.connect(registry, now, token, request);
                }
            }
            Output::Abandon(token) => self.links.abandon(token),
            Output::Send(link, message) => self.links.send(link, &message),
            Output::Close(link) => self.links.close(now, link),
            Output::Deliver { id, payload, hops, sender } => {
                if let Some(answer) = self.delivered(turn, (id, &payload), hops, sender.as_ref()) {
                    self.pump.post(Input::Answered(id, payload_of(&answer)));
                }
            }
            Output::Scattered { request, answers, missing, depth } => {
                self.scattered(turn, Gathered { request, answers, missing, depth });
            }
            Output::LapsHome { request, hops, names, took } => {
                let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.consoles.finish(request, ConsoleReply::LapsHome { hops, names, took_us });
            }
            Output::LapLost { request, home } => {
                self.consoles.finish(request, ConsoleReply::LapLost { home });
            }
            Output::Refused(request) => self.refused(registry, now, request),
            Output::Event(event) => self.happened(now, &event),
            Output::Published { request, result } => {
                let effect = self.naming.published(request, result);
                self.route_all(registry, now, effect);
            }
            Output::Unpublished { request, found } => {
                let effect = self.naming.unpublished(request, found);
                self.route_all(registry, now, effect);
            }
            Output::NameLost { name, job, to } => {
                let order = ManagerOrder::NameLost { name, to: Some(to) };
                self.manager_messages.push_back(ManagerMessage::new(job, order));
            }
            Output::Over => self.end(now),
        }
    }

    fn route_all(
        &mut self,
        registry: &Registry,
        now: Time,
        effects: impl IntoIterator<Item = Effect>,
    ) {
        effects.into_iter().for_each(|effect| self.route(registry, now, effect));
    }

    /// Routes an effect to its owner.
    fn route(&mut self, registry: &Registry, now: Time, effect: Effect) {
        match effect {
            Effect::Post(input) => self.pump.post(input),
            Effect::Answer(console, reply, last) => self.consoles.post(console, reply, last),
            Effect::Report(manager_message) => self.manager_messages.push_back(manager_message),
            Effect::Ping(console, request) => self.links.ping(registry, now, console, request),
            Effect::Leave(how) => self.stay.leave(now, how),
            Effect::End => self.end(now),
        }
    }

    /// Handles the end of one of our own scatters.
    fn scattered(&mut self, turn: &Turn<'_>, gathered: Gathered) {
        let Turn { registry, now, .. } = *turn;
        match Requester::of(gathered.request) {
            Requester::Allocations => {
                let effects = self.allocations.gathered(self.pump.machine(), gathered);
                self.route_all(registry, now, effects);
            }
            Requester::Consoles => {
                let effect = self.consoles.scattered(now, self.pump.machine(), gathered);
                self.route_all(registry, now, effect);
            }
            Requester::Followers => {
                let effect = self.followers.gathered(now, self.pump.machine(), &gathered);
                self.route_all(registry, now, effect);
            }
            Requester::Launches => {
                let mut effects = self.launches.announced(now, &gathered);
                effects.extend(self.launches.serve_spawns(now, self.pump.machine()));
                self.route_all(registry, now, effects);
            }
            Requester::Meetings => {
                let effect = self.meetings.gathered(self.pump.machine(), &gathered);
                self.route_all(registry, now, effect);
            }
            // These owners need no answers.
            Requester::Names | Requester::Stay => {}
        }
    }

    /// The ring refuses a request of ours.
    fn refused(&mut self, registry: &Registry, now: Time, request: RequestId) {
        let problem = "too many requests are under way here; try again";
        match Requester::of(request) {
            Requester::Allocations => {
                let effect = self.allocations.refused(request, problem);
                self.route_all(registry, now, effect);
            }
            Requester::Consoles => {
                let problem = problem.to_owned();
                self.consoles.finish(request, ConsoleReply::Refused { problem });
            }
            Requester::Followers => self.followers.refused(now, request),
            Requester::Launches => {
                let mut effects = self.launches.unannounced(now, request, problem);
                effects.extend(self.launches.serve_spawns(now, self.pump.machine()));
                self.route_all(registry, now, effects);
            }
            Requester::Meetings => {
                let effect = self.meetings.refused(request, problem);
                self.route_all(registry, now, effect);
            }
            Requester::Names => {
                let effect = self.naming.refused(request, problem);
                self.route_all(registry, now, effect);
            }
            Requester::Stay => {}
        }
    }

    /// Passes an event of the ring to the stay, the log, and the consoles that watch.
    fn happened(&mut self, now: Time, event: &Event) {
        self.stay.note(event);
        self.consoles.count(event);
        if self.journal.happened(now, event) {
            self.consoles.send_to_watchers(self.pump.machine(), event);
        }
    }

    /// Leaves the ring: this daemon is no longer a member.
    fn end(&mut self, now: Time) {
        if self.stay.is_for_good() {
            for effect in self.allocations.end() {
                if let Effect::Answer(console, reply, last) = effect {
                    self.consoles.post(console, reply, last);
                }
            }
        }
        self.consoles.answer_rest();
        self.links.close_all(now);
        self.stay.end(now);
    }

    /// Passes job links to their managers.
    fn pass_links(&mut self, turn: &Turn<'_>) {
        for (seeker, manager) in self.links.seekers() {
            let Some((job, key)) = turn.jobs.find_manager(manager) else { continue };
            if let Some((hello, link)) = self.links.pass_on(turn.registry, seeker, key) {
                let order = ManagerOrder::Link { hello };
                self.manager_messages.push_back(ManagerMessage {
                    job: job.clone(),
                    order,
                    link: Some(link),
                });
            }
        }
    }

    /// Starts helpers that start lost members again. Helpers are children of this process.
    fn revive(&mut self, turn: &mut Turn<'_>) {
        let entries = self.port().addresses();
        let is_running = |pid| turn.jobs.is_helper(pid);
        let started = self.stay.revive(turn.now, self.pump.machine(), &entries, is_running);
        started.into_iter().for_each(|pid| turn.jobs.add_helper(pid));
    }
}
