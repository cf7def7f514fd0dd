//! What consoles want of the ring, from the request to the answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use mpd_machine::Time;
use mpd_ring::{Input, Peer, Purpose, RequestId};
use mpd_wire::message::{ConsoleReply, JobRef, MemberView, Order, RingRequest, RingView};
use mpd_wire::{Address, DaemonName, Record, Standing};

use crate::daemon::membership::orders::payload_of;
use crate::daemon::membership::{Aim, Farewell, Hands, Membership};
use crate::daemon::net::{Dialed, Wish};

/// How long our list may take to show what members were told to do.
const LIST_PATIENCE: Duration = Duration::from_secs(5);

/// The dead and departed are left out of a view beyond that many members: it has to fit a frame.
const MAX_VIEWED: usize = 2048;

/// What a request of the ring is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Laps,
    Census,
    Departure(DaemonName),
    /// These are to be draining, or not to be.
    Draining {
        members: Vec<DaemonName>,
        draining: bool,
    },
    /// Everybody reached, so that the order to end will be.
    Muster,
    /// The order to end; those are missing already.
    End(Vec<DaemonName>),
    /// A page of the jobs of all; those were missing for the one before.
    Jobs {
        page: u32,
        missing: Vec<DaemonName>,
    },
    /// A page of what hosts and ranks use, in the same way.
    Top {
        page: u32,
        missing: Vec<DaemonName>,
    },
    /// Something is to happen to this job.
    Job(JobRef),
}

#[derive(Debug)]
struct Ask {
    console: usize,
    wanted: Wanted,
    /// When to stop waiting for the list.
    until: Option<Time>,
}

/// Requests under way, and answers that wait to be taken to their consoles.
#[derive(Debug, Default)]
pub(super) struct Asks {
    asks: BTreeMap<RequestId, Ask>,
    last: u64,
    watchers: BTreeSet<usize>,
    /// Console, answer, and whether that is the last one.
    answers: VecDeque<(usize, ConsoleReply, bool)>,
}

impl Asks {
    /// A number for a request of the ring.
    pub(super) fn next_id(&mut self) -> RequestId {
        self.last += 1;
        RequestId(self.last)
    }

    fn add(&mut self, console: usize, wanted: Wanted) -> RequestId {
        let id = self.next_id();
        self.asks.insert(id, Ask { console, wanted, until: None });
        id
    }

    pub(super) fn wanted(&self, request: RequestId) -> Option<Wanted> {
        self.asks.get(&request).map(|ask| ask.wanted.clone())
    }

    /// Takes a request off the books; gives its console.
    pub(super) fn end(&mut self, request: RequestId) -> Option<usize> {
        self.asks.remove(&request).map(|ask| ask.console)
    }

    /// The scatter reached everybody; now the list has to say so.
    pub(super) fn await_list(&mut self, request: RequestId, now: Time) {
        if let Some(ask) = self.asks.get_mut(&request) {
            ask.until = Some(now + LIST_PATIENCE);
        }
    }

    pub(super) fn watchers(&self) -> Vec<usize> {
        self.watchers.iter().copied().collect()
    }

    /// Answers for the last time.
    pub(super) fn reply(&mut self, console: usize, reply: ConsoleReply) {
        self.post(console, reply, true);
    }

    pub(super) fn post(&mut self, console: usize, reply: ConsoleReply, last: bool) {
        self.answers.push_back((console, reply, last));
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.asks.values().filter_map(|ask| ask.until).min()
    }
}

impl Membership {
    /// The next answer for a console, and whether it is the last one.
    pub(crate) fn next_answer(&mut self) -> Option<(usize, ConsoleReply, bool)> {
        self.asks.answers.pop_front()
    }

    /// A console went away.
    pub(crate) fn forget_console(&mut self, console: usize) {
        self.asks.watchers.remove(&console);
        self.asks.asks.retain(|_, ask| ask.console != console);
    }

    /// A console wants something.
    pub(crate) fn ask(&mut self, hands: &mut Hands<'_>, console: usize, request: RingRequest) {
        match request {
            RingRequest::Describe => {
                let view = ConsoleReply::Ring(self.describe());
                self.asks.reply(console, view);
            }
            RingRequest::Lap { laps: 0, .. } => self.refuse(console, "0 laps are none"),
            RingRequest::Lap { laps, trace } => {
                let request = self.asks.add(console, Wanted::Laps);
                self.post(Input::Lap { request, laps, trace });
            }
            RingRequest::Census => self.scatter(console, Wanted::Census, &Order::Speak),
            RingRequest::Exit { member } => self.exit(hands, console, member),
            RingRequest::ExitAll => self.scatter(console, Wanted::Muster, &Order::Speak),
            RingRequest::Drain { members, draining } => {
                self.ask_to_drain(console, members, draining);
            }
            RingRequest::Jobs => self.list_jobs(console),
            RingRequest::Names => self.list_names(console),
            RingRequest::Top => self.ask_top(console),
            RingRequest::KillJob { job } => {
                self.order_job(console, job, |job| Order::KillJob { job });
            }
            RingRequest::SignalJob { job, signal, single } => {
                self.order_job(console, job, |job| Order::SignalJob { job, signal, single });
            }
            RingRequest::SwitchStdin { job, ranks } => {
                self.order_job(console, job, |job| Order::SwitchStdin { job, ranks });
            }
            RingRequest::Watch => {
                self.asks.watchers.insert(console);
                let text = format!("watching the ring from {}", self.pump.machine().name());
                let first = ConsoleReply::Event(self.happening("watching", None, text));
                self.asks.post(console, first, false);
            }
            RingRequest::Ping { target } => self.ping(hands, console, &target),
        }
    }

    fn refuse(&mut self, console: usize, problem: &str) {
        self.asks.reply(console, ConsoleReply::Refused { problem: problem.to_owned() });
    }

    /// One member is to leave: this one if none is named.
    fn exit(&mut self, hands: &mut Hands<'_>, console: usize, member: Option<DaemonName>) {
        let Some(member) = member.filter(|member| member != self.pump.machine().name()) else {
            self.asks.reply(console, ConsoleReply::Done { missing: Vec::new() });
            return self.leave(hands.now, Farewell::Depart);
        };
        if self.is_live(&member) {
            let order = Order::Leave { member: member.clone() };
            self.scatter(console, Wanted::Departure(member), &order);
        } else {
            self.refuse_stranger(console, &member);
        }
    }

    fn refuse_stranger(&mut self, console: usize, name: &DaemonName) {
        let text = format!("no daemon {name} is in the ring; 'mpdtrace' lists them");
        self.refuse(console, &text);
    }

    /// Members are to be draining, or not to be any more.
    fn ask_to_drain(&mut self, console: usize, members: Vec<DaemonName>, draining: bool) {
        match members.iter().find(|member| !self.is_live(member)) {
            Some(stranger) => self.refuse_stranger(console, stranger),
            None => {
                let order = Order::Drain { members: members.clone(), draining };
                self.scatter(console, Wanted::Draining { members, draining }, &order);
            }
        }
    }

    fn is_live(&self, member: &DaemonName) -> bool {
        self.pump.machine().record(member).is_some_and(|r| r.standing == Standing::Live)
    }

    /// The muster is over: whoever was there is told to end.
    pub(super) fn end_all(&mut self, muster: RequestId, missing: Vec<DaemonName>) {
        if let Some(ask) = self.asks.asks.remove(&muster) {
            self.scatter(ask.console, Wanted::End(missing), &Order::LeaveAll);
        }
    }

    /// This daemon is ending: nobody is left without an answer.
    pub(super) fn answer_rest(&mut self) {
        for (_, ask) in std::mem::take(&mut self.asks.asks) {
            let reply = match ask.wanted {
                Wanted::End(missing) => ConsoleReply::Done { missing },
                Wanted::Laps
                | Wanted::Census
                | Wanted::Departure(_)
                | Wanted::Draining { .. }
                | Wanted::Muster
                | Wanted::Jobs { .. }
                | Wanted::Top { .. }
                | Wanted::Job(_) => {
                    ConsoleReply::Refused { problem: "this daemon is ending".to_owned() }
                }
            };
            self.asks.reply(ask.console, reply);
        }
    }

    pub(super) fn scatter(&mut self, console: usize, wanted: Wanted, order: &Order) {
        let request = self.asks.add(console, wanted);
        self.post(Input::Scatter(request, payload_of(order)));
    }

    /// Answers the console of `request`, if it is still there.
    pub(super) fn finish(&mut self, request: RequestId, reply: ConsoleReply) {
        if let Some(ask) = self.asks.asks.remove(&request) {
            self.asks.reply(ask.console, reply);
        }
    }

    /// Those who wait for the list to show something are answered when it does, or in time.
    pub(super) fn review_asks(&mut self, now: Time) {
        let mut over = Vec::new();
        for (request, ask) in &self.asks.asks {
            let Some(until) = ask.until else { continue };
            let missing = self.not_shown(&ask.wanted);
            if missing.is_empty() || until <= now {
                over.push((*request, missing));
            }
        }
        for (request, missing) in over {
            self.finish(request, ConsoleReply::Done { missing });
        }
    }

    /// Of whom the list does not show yet what is wanted.
    fn not_shown(&self, wanted: &Wanted) -> Vec<DaemonName> {
        let kept = |name: &DaemonName, keeps: &dyn Fn(&Record) -> bool| {
            let record = self.pump.machine().record(name).filter(|r| r.standing == Standing::Live);
            record.is_some_and(keeps).then(|| name.clone())
        };
        match wanted {
            Wanted::Departure(member) => kept(member, &|_| true).into_iter().collect(),
            Wanted::Draining { members, draining } => {
                let unlike = |record: &Record| record.draining != *draining;
                members.iter().filter_map(|name| kept(name, &unlike)).collect()
            }
            Wanted::Laps
            | Wanted::Census
            | Wanted::Muster
            | Wanted::End(_)
            | Wanted::Jobs { .. }
            | Wanted::Top { .. }
            | Wanted::Job(_) => Vec::new(),
        }
    }

    /// The ring as it is known here.
    fn describe(&self) -> RingView {
        let order = self.pump.machine().members();
        let live = order.iter().filter_map(|name| self.pump.machine().record(name));
        let room = MAX_VIEWED.saturating_sub(order.len());
        let gone =
            self.pump.machine().records().filter(|r| r.standing != Standing::Live).take(room);
        let members: Vec<MemberView> = live.chain(gone).map(|r| self.member(r)).collect();
        let rhs = self.pump.machine().rhs().map(|(_, name)| name.clone());
        let lhs = self.pump.machine().lhs().map(|(_, name)| name.clone());
        let linked = order.len() == 1 || (rhs.is_some() && lhs.is_some());
        RingView {
            ring: self.net.myself().ring.clone(),
            me: self.pump.machine().name().clone(),
            key: self.net.myself().keys.connect().id().to_string(),
            whole: linked && !members.iter().any(|m| m.suspect),
            rhs,
            lhs,
            members,
        }
    }

    fn member(&self, record: &Record) -> MemberView {
        MemberView {
            name: record.name.clone(),
            standing: record.standing,
            instance: record.instance,
            ordinal: record.ordinal,
            ncpus: record.ncpus,
            addresses: record.addresses.clone(),
            suspect: record.standing == Standing::Live
                && self.pump.machine().is_suspect(&record.name),
            draining: record.draining,
            by: record.by.clone(),
        }
    }

    fn ping(&mut self, hands: &Hands<'_>, console: usize, target: &str) {
        let member =
            DaemonName::new(target).ok().and_then(|name| self.pump.machine().record(&name));
        let addresses: Vec<SocketAddr> = match member {
            Some(record) => {
                record.addresses.iter().filter_map(|a| a.as_str().parse().ok()).collect()
            }
            None => target.parse().into_iter().collect(),
        };
        if addresses.is_empty() {
            let text = format!(
                "{}: no member of the ring has this name, and it is not ADDRESS:PORT",
                target.escape_default()
            );
            return self.refuse(console, &text);
        }
        let name = member.map(|record| record.name.clone());
        let id = self.aim(Aim::Ping(console, hands.now));
        let wish = Wish { name, instance: None, addresses, purpose: Purpose::Probe };
        self.net.dial(hands.registry, hands.now, id, wish);
    }

    pub(super) fn pong(
        &mut self,
        console: usize,
        began: Time,
        now: Time,
        dialed: &Dialed,
        peer: &Peer,
    ) {
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let Ok(address) = Address::new(&dialed.address.to_string()) else { return };
        self.asks.reply(
            console,
            ConsoleReply::Pong {
                name: peer.name.clone(),
                instance: peer.instance,
                address,
                connect_us: micros(dialed.connected.since(began)),
                total_us: micros(now.since(began)),
            },
        );
    }
}
