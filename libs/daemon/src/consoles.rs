//! Requests of consoles about the ring, until they are answered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_jobtable::listing::hosted;
use mpd_ring::{Event, Input, RequestId, Ring};
use mpd_sansio::Time;
use mpd_sansio::state;
use mpd_stdio::format::utc;
use mpd_wire::message::{
    Answer, ConsoleReply, Happening, HostTop, JobOrder, JobRef, MemberDescription, OrderAnswer,
    Published, RingOrder, RingRequest,
};
use mpd_wire::names::Claim;
use mpd_wire::{ConsoleId, DaemonName, Record, Standing};

use crate::effect::{Effect, Farewell};
use crate::outcome::{failures, outcome};
use crate::pages::{self, Page};
use crate::request::{Gathered, Numbers, Requester, payload_of, read_payload};
use crate::view::{self, EventCounts, RingIdentity};

/// How long to wait until our list of members shows the effect of an order.
const LIST_PATIENCE: Duration = Duration::from_secs(5);

/// The kind of a request to the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestKind {
    Laps,
    Census,
    Departure(DaemonName),
    /// A change of the draining state of these members.
    Draining {
        members: Vec<DaemonName>,
        draining: bool,
    },
    /// The scatter that reaches all members before the order to end.
    ExitCensus,
    /// The order to end, with the members that were missing before.
    End(Vec<DaemonName>),
    /// A page of the jobs of all members, with the members that were missing for earlier pages.
    Jobs {
        page: u32,
        missing: Vec<DaemonName>,
    },
    /// A page of the usage of hosts and ranks, with the members that were missing for earlier pages.
    Top {
        page: u32,
        missing: Vec<DaemonName>,
    },
    /// An order about this job.
    Job(JobRef),
}

#[derive(Debug)]
struct Ask {
    console: ConsoleId,
    wanted: RequestKind,
    /// When to stop waiting for the list of members.
    until: Option<Time>,
}

/// Requests under way, and answers on their way to consoles.
#[derive(Debug)]
pub(crate) struct Consoles {
    asks: BTreeMap<RequestId, Ask>,
    numbers: Numbers,
    watchers: BTreeSet<ConsoleId>,
    /// Console, answer, and whether it is the last one.
    answers: VecDeque<(ConsoleId, ConsoleReply, bool)>,
    events: EventCounts,
    identity: RingIdentity,
}

impl Consoles {
    pub(crate) const fn new(identity: RingIdentity) -> Self {
        Self {
            asks: BTreeMap::new(),
            numbers: Numbers::new(Requester::Consoles),
            watchers: BTreeSet::new(),
            answers: VecDeque::new(),
            events: EventCounts::new(),
            identity,
        }
    }

    /// The next answer for a console, and whether it is the last one.
    pub(crate) fn next_answer(&mut self) -> Option<(ConsoleId, ConsoleReply, bool)> {
        self.answers.pop_front()
    }

    /// Forgets a console that is gone.
    pub(crate) fn forget(&mut self, console: ConsoleId) {
        self.watchers.remove(&console);
        self.asks.retain(|_, ask| ask.console != console);
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.asks.values().filter_map(|ask| ask.until).min()
    }

    /// Handles a console's request.
    pub(crate) fn ask(
        &mut self,
        ring: &Ring,
        wall_us: u64,
        console: ConsoleId,
        request: RingRequest,
    ) -> Option<Effect> {
        match request {
            RingRequest::Describe => {
                let mut view = view::describe(ring, &self.identity, &self.events);
                for members in pages::parts(&mut view.members) {
                    self.post(console, ConsoleReply::RingPart { members }, false);
                }
                self.reply(console, ConsoleReply::Ring(view))
            }
            RingRequest::Lap { laps: 0, .. } => {
                self.refuse(console, "the number of laps must not be 0".to_owned())
            }
            RingRequest::Lap { laps, trace } => {
                let request = self.add(console, RequestKind::Laps);
                Some(Effect::Post(Input::Lap { request, laps, trace }))
            }
            RingRequest::Census => self.scatter(console, RequestKind::Census, &RingOrder::Speak),
            RingRequest::Exit { member } => self.exit(ring, console, member),
            RingRequest::ExitAll => {
                self.scatter(console, RequestKind::ExitCensus, &RingOrder::Speak)
            }
            RingRequest::Drain { members, draining } => {
                self.drain(ring, console, members, draining)
            }
            RingRequest::Jobs => self.ask_jobs(console, 0, Vec::new()),
            RingRequest::Names => self.list_names(ring, console),
            RingRequest::Top => self.ask_top(console, 0, Vec::new()),
            RingRequest::Job { job, order } => self.order_job(ring, console, job, order),
            RingRequest::Introduce { newcomers } => {
                let new = ring.records_of(newcomers);
                let records = ring.record(ring.name()).into_iter().chain(&new).cloned().collect();
                self.reply(console, ConsoleReply::Introduced { records });
                Some(Effect::Post(Input::Introduce(new)))
            }
            RingRequest::Seek { addresses } => {
                self.reply(console, ConsoleReply::Done { missing: Vec::new() });
                Some(Effect::Post(Input::Seek(addresses)))
            }
            RingRequest::Watch => {
                self.watchers.insert(console);
                let text = format!("watching the ring from {}", ring.name());
                let first = ConsoleReply::Event(happening(ring, wall_us, "watching", None, text));
                self.post(console, first, false);
                None
            }
            // The allocations have the first, the followers the second.
            RingRequest::Slots(_) | RingRequest::JobEvents { .. } => None,
            RingRequest::State { job: _ } => self.print_state(ring, console),
            RingRequest::Ping { target } => {
                Some(Effect::Perform(view::ping(ring, console, target)))
            }
        }
    }

    /// The state of the ring. The daemon's loop takes a request about a job.
    fn print_state(&mut self, ring: &Ring, console: ConsoleId) -> Option<Effect> {
        for (text, more) in state::pieces(ring) {
            self.post(console, ConsoleReply::State { text, more }, !more);
        }
        None
    }

    /// Lets one member leave: this daemon if none is named.
    fn exit(
        &mut self,
        ring: &Ring,
        console: ConsoleId,
        member: Option<DaemonName>,
    ) -> Option<Effect> {
        let Some(member) = member.filter(|member| member != ring.name()) else {
            self.reply(console, ConsoleReply::Done { missing: Vec::new() });
            return Some(Effect::Leave(Farewell::Depart));
        };
        if !view::is_live(ring, &member) {
            return self.refuse_stranger(console, &member);
        }
        let order = RingOrder::Leave { member: member.clone() };
        self.scatter(console, RequestKind::Departure(member), &order)
    }

    /// Begins or ends the draining of members.
    fn drain(
        &mut self,
        ring: &Ring,
        console: ConsoleId,
        members: Vec<DaemonName>,
        draining: bool,
    ) -> Option<Effect> {
        match members.iter().find(|member| !view::is_live(ring, member)) {
            Some(stranger) => self.refuse_stranger(console, stranger),
            None => {
                let order = RingOrder::Drain { members: members.clone(), draining };
                self.scatter(console, RequestKind::Draining { members, draining }, &order)
            }
        }
    }

    /// Requests a page of all jobs.
    fn ask_jobs(
        &mut self,
        console: ConsoleId,
        page: u32,
        missing: Vec<DaemonName>,
    ) -> Option<Effect> {
        self.scatter(console, RequestKind::Jobs { page, missing }, &RingOrder::ListJobs { page })
    }

    /// Requests a page of the usage of hosts and ranks.
    fn ask_top(
        &mut self,
        console: ConsoleId,
        page: u32,
        missing: Vec<DaemonName>,
    ) -> Option<Effect> {
        self.scatter(console, RequestKind::Top { page, missing }, &RingOrder::Top { page })
    }

    /// Scatters an order about a job to all members, since any of them may have the root manager.
    fn order_job(
        &mut self,
        ring: &Ring,
        console: ConsoleId,
        job: JobRef,
        order: JobOrder,
    ) -> Option<Effect> {
        let job = job.as_asked_of(ring.name());
        let order = RingOrder::Job { job: job.clone(), order };
        self.scatter(console, RequestKind::Job(job), &order)
    }

    /// Lists all names of the ring.
    fn list_names(&mut self, ring: &Ring, console: ConsoleId) -> Option<Effect> {
        let published = |(host, claim): (&DaemonName, &Claim)| {
            let Claim { name, value, job, lock, .. } = claim.clone();
            Published { name, value, job, host: host.clone(), keyed: lock.is_some() }
        };
        let items = ring.names().into_iter().map(published).collect();
        self.post_page(console, Page { items, more: false }, &[], |names, _, more| {
            ConsoleReply::Names { names, more }
        });
        None
    }

    fn refuse_stranger(&mut self, console: ConsoleId, name: &DaemonName) -> Option<Effect> {
        let text = format!("no daemon {name} is in the ring; 'mpdtrace' lists them");
        self.refuse(console, text)
    }

    fn refuse(&mut self, console: ConsoleId, problem: String) -> Option<Effect> {
        self.reply(console, ConsoleReply::Refused { problem })
    }

    /// Sends the last answer. Always returns `None`.
    pub(crate) fn reply(&mut self, console: ConsoleId, reply: ConsoleReply) -> Option<Effect> {
        self.post(console, reply, true);
        None
    }

    /// Sends an answer.
    pub(crate) fn post(&mut self, console: ConsoleId, reply: ConsoleReply, last: bool) {
        self.answers.push_back((console, reply, last));
    }

    fn post_page<T>(
        &mut self,
        console: ConsoleId,
        page: Page<T>,
        missing: &[DaemonName],
        reply: impl Fn(Vec<T>, Vec<DaemonName>, bool) -> ConsoleReply,
    ) {
        for (reply, last) in pages::replies(page, missing, reply) {
            self.post(console, reply, last);
        }
    }

    fn add(&mut self, console: ConsoleId, wanted: RequestKind) -> RequestId {
        let id = self.numbers.next();
        self.asks.insert(id, Ask { console, wanted, until: None });
        id
    }

    fn scatter(
        &mut self,
        console: ConsoleId,
        wanted: RequestKind,
        order: &RingOrder,
    ) -> Option<Effect> {
        let request = self.add(console, wanted);
        Some(Effect::Post(Input::Scatter(request, payload_of(order))))
    }

    /// Answers the console of `request`, if it is still there.
    pub(crate) fn finish(&mut self, request: RequestId, reply: ConsoleReply) -> Option<Effect> {
        let ask = self.asks.remove(&request)?;
        self.reply(ask.console, reply)
    }

    /// Handles the end of a scatter.
    pub(crate) fn scattered(
        &mut self,
        now: Time,
        ring: &Ring,
        gathered: Gathered,
    ) -> Option<Effect> {
        let Gathered { request, answers, missing, depth } = gathered;
        let ask = self.asks.get_mut(&request)?;
        match ask.wanted.clone() {
            RequestKind::Census => {
                let descriptions = answers.iter().filter_map(description).collect();
                let mut members =
                    pages::in_ring_order(ring, descriptions, |description| &description.name);
                let console = ask.console;
                for members in pages::parts(&mut members) {
                    self.post(console, ConsoleReply::CensusPart { members }, false);
                }
                self.finish(request, ConsoleReply::Census { members, missing, depth })
            }
            // All members have the order. The list of members must show its effect.
            RequestKind::Departure(_) if missing.is_empty() => {
                ask.until = Some(now + LIST_PATIENCE);
                None
            }
            RequestKind::Departure(_) => self.finish(request, ConsoleReply::Done { missing }),
            RequestKind::Draining { members, .. } => {
                let not_reached: Vec<DaemonName> =
                    missing.into_iter().filter(|name| members.contains(name)).collect();
                if let Some(mut problem) = failures(&answers) {
                    not_reached.iter().for_each(|name| problem += &format!("; {name}: no answer"));
                    return self.finish(request, ConsoleReply::Refused { problem });
                }
                if not_reached.is_empty() {
                    ask.until = Some(now + LIST_PATIENCE);
                    return None;
                }
                self.finish(request, ConsoleReply::Done { missing: not_reached })
            }
            // The members that were reached are ordered to end.
            RequestKind::ExitCensus => {
                let console = self.asks.remove(&request)?.console;
                self.scatter(console, RequestKind::End(missing), &RingOrder::LeaveAll)
            }
            RequestKind::End(before) => {
                self.finish(request, ConsoleReply::Done { missing: joined(before, missing) })
            }
            RequestKind::Jobs { page, missing: before } => {
                let (missing, me) = (joined(before, missing), ring.name());
                let jobs = pages::page(ring, page, &answers, |host, answer| match answer {
                    OrderAnswer::Jobs { jobs, more } => Some(((host.clone(), jobs), more)),
                    _ => None,
                });
                let console = self.send_page(request, jobs, &missing, |hosts, missing, more| {
                    let hosted = hosts.into_iter().flat_map(|(host, jobs)| hosted(host, jobs));
                    ConsoleReply::Jobs { me: me.clone(), jobs: hosted.collect(), missing, more }
                })?;
                self.ask_jobs(console, page + 1, missing)
            }
            RequestKind::Top { page, missing: before } => {
                let missing = joined(before, missing);
                let used = pages::page(ring, page, &answers, |host, answer| match answer {
                    OrderAnswer::Top { machine, runs, more } => {
                        Some((HostTop { host: host.clone(), machine, runs }, more))
                    }
                    _ => None,
                });
                let reply = |hosts, missing, more| ConsoleReply::Top { hosts, missing, more };
                let console = self.send_page(request, used, &missing, reply)?;
                self.ask_top(console, page + 1, missing)
            }
            RequestKind::Job(job) => self.finish(request, outcome(&job, &answers, missing)),
            RequestKind::Laps => None,
        }
    }

    /// Sends one page of the answers of every host to the console. Returns the console if another page follows.
    fn send_page<T>(
        &mut self,
        request: RequestId,
        page: Page<T>,
        missing: &[DaemonName],
        reply: impl Fn(Vec<T>, Vec<DaemonName>, bool) -> ConsoleReply,
    ) -> Option<ConsoleId> {
        let console = self.asks.remove(&request)?.console;
        let more = page.more;
        self.post_page(console, page, missing, reply);
        more.then_some(console)
    }

    /// This daemon ends: answers every waiting console.
    pub(crate) fn answer_rest(&mut self) {
        for (_, ask) in std::mem::take(&mut self.asks) {
            let reply = match ask.wanted {
                RequestKind::End(missing) => ConsoleReply::Done { missing },
                RequestKind::Laps
                | RequestKind::Census
                | RequestKind::Departure(_)
                | RequestKind::Draining { .. }
                | RequestKind::ExitCensus
                | RequestKind::Jobs { .. }
                | RequestKind::Top { .. }
                | RequestKind::Job(_) => {
                    ConsoleReply::Refused { problem: "this daemon is ending".to_owned() }
                }
            };
            self.post(ask.console, reply, true);
        }
    }

    /// Answers requests that wait for an effect in the list of members, if the list shows it or the time is over.
    pub(crate) fn review(&mut self, now: Time, ring: &Ring) {
        let mut over = Vec::new();
        for (request, ask) in &self.asks {
            let Some(until) = ask.until else { continue };
            let missing = not_shown(ring, &ask.wanted);
            if missing.is_empty() || until <= now {
                over.push((*request, missing));
            }
        }
        for (request, missing) in over {
            self.finish(request, ConsoleReply::Done { missing });
        }
    }

    pub(crate) fn count(&mut self, event: &Event) {
        *self.events.entry(event.kind()).or_default() += 1;
    }

    /// Sends an event to all consoles that watch.
    pub(crate) fn send_to_watchers(&mut self, ring: &Ring, wall_us: u64, event: &Event) {
        if self.watchers.is_empty() {
            return;
        }
        let member = event.member().cloned();
        let happening = happening(ring, wall_us, event.kind(), member, event.to_string());
        for console in self.watchers.clone() {
            self.post(console, ConsoleReply::Event(happening.clone()), false);
        }
    }
}

/// The members for which the list does not show the wanted effect.
fn not_shown(ring: &Ring, wanted: &RequestKind) -> Vec<DaemonName> {
    let unchanged = |name: &DaemonName, is_unchanged: &dyn Fn(&Record) -> bool| {
        let record = ring.record(name).filter(|r| r.standing == Standing::Live);
        record.is_some_and(is_unchanged).then(|| name.clone())
    };
    match wanted {
        RequestKind::Departure(member) => unchanged(member, &|_| true).into_iter().collect(),
        RequestKind::Draining { members, draining } => {
            let is_unlike = |record: &Record| record.draining != *draining;
            members.iter().filter_map(|name| unchanged(name, &is_unlike)).collect()
        }
        RequestKind::Laps
        | RequestKind::Census
        | RequestKind::ExitCensus
        | RequestKind::End(_)
        | RequestKind::Jobs { .. }
        | RequestKind::Top { .. }
        | RequestKind::Job(_) => Vec::new(),
    }
}

/// The members that were missing in an earlier page or in this one.
fn joined(mut before: Vec<DaemonName>, missing: Vec<DaemonName>) -> Vec<DaemonName> {
    before.retain(|name| !missing.contains(name));
    before.extend(missing);
    before
}

fn description(answer: &Answer) -> Option<MemberDescription> {
    match read_payload(&answer.answer).ok()? {
        OrderAnswer::MemberDescription { version, pid, jobs, hops } => {
            Some(MemberDescription { name: answer.name.clone(), version, pid, jobs, hops })
        }
        OrderAnswer::Done
        | OrderAnswer::NoSuchJob
        | OrderAnswer::Jobs { .. }
        | OrderAnswer::Top { .. }
        | OrderAnswer::Load { .. }
        | OrderAnswer::Slots(_)
        | OrderAnswer::Events(_)
        | OrderAnswer::Unknown
        | OrderAnswer::Failed { .. }
        | OrderAnswer::Found { .. } => None,
    }
}

fn happening(
    ring: &Ring,
    wall_us: u64,
    kind: &str,
    member: Option<DaemonName>,
    text: String,
) -> Happening {
    Happening {
        time: utc(wall_us),
        seen_by: ring.name().clone(),
        event: kind.to_owned(),
        member,
        live: u32::try_from(ring.live_count()).unwrap_or(u32::MAX),
        text,
    }
}
