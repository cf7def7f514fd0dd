//! One daemon's part in the ring: the list of members, the neighbours, and messages to all members.
//!
//! [`Ring`] makes every decision. It opens no connection, reads no clock, and proves no peer. The
//! channel below it hands in links whose peers are proved, and messages that are whole and in
//! order. `README.md` of this crate has the rules R1 to R7 and a diagram.
//!
//! The owner reads its sockets before it lets time pass. After a stall it hands in every waiting
//! input before it calls [`Machine::handle_timeout`]. A [`Pump`](mpd_sansio::Pump) keeps this
//! order.
//!
//! **Users.** The daemon, and the simulator of rings.
//!
//! **Must not know.** Jobs and their processes: orders of the daemons travel as opaque payloads.
//! Sockets, files and clocks are unknown to the ring as well.
#![forbid(unsafe_code)]

mod candidates;
mod chords;
mod config;
mod detect;
mod dial;
mod double;
mod event;
mod formed;
mod gone;
mod index;
mod introduce;
mod invariants;
mod lap;
mod leave;
mod links;
mod list;
mod names;
mod owner;
mod probe;
mod proof;
mod publish;
mod random;
mod recorded;
mod scatter;
mod spread;
#[cfg(test)]
mod tests;
mod view;
mod window;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use config::{
    GAP, MAX_ANSWER, MAX_CANDIDATES, MAX_CARRIED, MAX_CHORD_GUESTS, MAX_GATHERED, MAX_GUESTS,
    MAX_HOPS, MAX_NAMED, MAX_PARKED_LAPS, MAX_PAYLOAD, MAX_PROBES, MAX_PROOFS, MAX_REQUESTS,
    MAX_RING_GUESTS, RingConfig, Rules, Seed, Timing,
};
pub use dial::DialFailure;
pub use event::Event;
pub use formed::Formed;
pub use links::{LinkId, Peer, Purpose};
pub use names::MAX_NAME_RECORDS;
pub use publish::{Publication, UNPUBLISHED};
pub use recorded::Entry;

use mpd_sansio::{Machine, Time, Timers, UNDRAINED};
use mpd_wire::message::{Answer, Payload, RingMessage, ScatterId};
use mpd_wire::names::{Claim, NameKey};
use mpd_wire::{Address, DaemonName, Instance, JobId, Record, Seat};
use serde::{Deserialize, Serialize};

/// The number of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Token(pub u64);

/// The number of a console's request. The owner chooses the number, and the answer has the same
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// An event that the owner hands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A link is up, and its peer is proved.
    LinkUp {
        /// The link's id, never used before by this daemon.
        link: LinkId,
        /// The token of the [`Output::Connect`] that made this link; `None` for an accepted link.
        token: Option<Token>,
        /// The peer, as the channel proved it.
        peer: Peer,
        /// The use that the connecting side makes of the link.
        purpose: Purpose,
        /// The address at the other end.
        from: Address,
    },
    /// A message arrived.
    Received(LinkId, RingMessage),
    /// A link is gone, for any reason. Links closed by [`Output::Close`] are not reported.
    LinkClosed(LinkId),
    /// An attempt to connect failed.
    ConnectFailed(Token, DialFailure),
    /// The records of members, from the boot that started them together. Unknown members are
    /// accepted as if they had been reached. A daemon that waits for them takes its place: its own
    /// record is among them.
    Introduce(Vec<Record>),
    /// Connect to the daemon at one of these addresses, which may be in another ring of the same key. The rings then
    /// become one.
    Seek(Vec<Address>),
    /// A console asks this daemon to leave the ring.
    Leave,
    /// The addresses under which others reach this daemon, the best first, at most
    /// [`MAX_ADDRESSES`](mpd_wire::MAX_ADDRESSES). If they differ from those of its record, the
    /// daemon sends a new record to all members. An empty list changes nothing.
    Readdress(Vec<Address>),
    /// Whether this daemon is draining, that is, gets new processes only where a command names it.
    /// All members receive the change.
    Drain(bool),
    /// A console, or the daemon itself, sends a payload to all members.
    Scatter(RequestId, Payload),
    /// The daemon sends a payload to this member alone. The result is [`Output::Scattered`], without answers and
    /// without missing members if it is no live member.
    Send(RequestId, DaemonName, Payload),
    /// This daemon acted on a scatter; the payload is its answer.
    Answered(ScatterId, Payload),
    /// A console asks for this number of laps, and with `trace` for the names on the way.
    Lap {
        request: RequestId,
        /// The number of laps, one after the other.
        laps: u32,
        /// Whether members add their names.
        trace: bool,
    },
    /// A job of this host publishes a name; answered by [`Output::Published`].
    Publish {
        request: RequestId,
        /// The name, its value, and the job.
        claim: Claim,
    },
    /// A job takes a name of this daemon back; answered by [`Output::Unpublished`].
    Unpublish {
        request: RequestId,
        name: String,
        /// The job that published it through this daemon.
        job: JobId,
        /// The key that it was published with.
        key: Option<NameKey>,
    },
    /// A job is over. The names that it published through this daemon vanish.
    JobOver(JobId),
}

/// The sender of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The member that gave the order.
    pub origin: DaemonName,
    /// The member that forwarded it to this daemon.
    pub name: DaemonName,
    /// The address from which the link of that member comes.
    pub at: Address,
}

/// An attempt to connect to the first of some addresses that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The attempt.
    pub token: Token,
    /// The daemon that must answer; `None` accepts any daemon of the ring. An address where another daemon answers counts
    /// as an address without an answer.
    pub name: Option<DaemonName>,
    /// The instance that must answer; `None` accepts any.
    pub instance: Option<Instance>,
    /// The addresses, the preferred first.
    pub addresses: Vec<Address>,
    /// The purpose that the handshake gives.
    pub purpose: Purpose,
}

/// An action for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to a daemon. The result is [`Input::LinkUp`] or [`Input::ConnectFailed`].
    Connect(Connect),
    /// Abandon this attempt. A link that came up meanwhile may still be handed in.
    Abandon(Token),
    Send(LinkId, RingMessage),
    /// Send the queued data, then close the link.
    Close(LinkId),
    /// Act on this payload once, then hand in [`Input::Answered`].
    Deliver {
        /// The scatter, as the answer names it.
        id: ScatterId,
        /// The payload to act on.
        payload: Payload,
        /// The number of times that the scatter was forwarded.
        hops: u32,
        /// The sender; `None` if it is this daemon.
        sender: Option<Sender>,
    },
    /// A scatter is over.
    Scattered {
        request: RequestId,
        /// The members that answered, with their answers.
        answers: Vec<Answer>,
        /// The live members that did not answer. The scatter is complete only if this list is
        /// empty.
        missing: Vec<DaemonName>,
        /// The largest number of forwarding steps to any member.
        depth: u32,
    },
    /// All laps came back.
    LapsHome {
        request: RequestId,
        /// The hops of the last lap.
        hops: u32,
        /// The names on the way of the last lap, if `trace` was set: from this daemon's rhs to this
        /// daemon.
        names: Vec<DaemonName>,
        /// The time since the request.
        took: Duration,
    },
    /// A lap did not come back.
    LapLost {
        request: RequestId,
        /// The number of laps that had come back before.
        home: u32,
    },
    /// A publication is over.
    Published {
        request: RequestId,
        result: Publication,
    },
    /// A name was taken back.
    Unpublished {
        request: RequestId,
        /// Whether that job had published the name through this daemon with that key.
        found: bool,
    },
    /// A name that was published here now belongs to another job: two halves of a ring met, and
    /// each had published it.
    NameLost {
        name: String,
        /// The job that lost the name.
        job: JobId,
        /// The job that has the name.
        to: JobId,
    },
    /// Too many requests are in progress.
    Refused(RequestId),
    /// An event to log or to show.
    Event(Event),
    /// This daemon is out of the ring and does not return: it left or stepped down.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Pulse,
    /// A neighbour may have been silent for too long.
    Judge,
    Dial(Token),
    /// The next candidate is due (R3).
    Candidate,
    /// The rhs may be dialed or replaced again.
    Hold,
    /// The members without an answer are asked again.
    Resend(u64),
    /// Deadline of this daemon's own scatter.
    Scatter(u64),
    /// Deadline of a share.
    ScatterPart(ScatterId, u32),
    Lap(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The daemon waits for [`Input::Introduce`]. It has no place and no proved peer.
    Waiting(Entrance),
    /// The daemon does not yet have both neighbours.
    Entering(Entrance),
    Member,
    /// The daemon left or stepped down.
    Over,
}

/// A daemon that is not in the ring yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entrance {
    began: Time,
    /// The number of attempts at entries so far.
    tried: usize,
}

/// One daemon's membership. The module's documentation describes it.
#[derive(Debug)]
pub struct Ring {
    config: RingConfig,
    phase: Phase,
    random: random::Random,
    list: list::List,
    /// The time of the current call.
    now: Time,
    list_changed: Time,
    revision: u64,
    owner: owner::Owner,
    gone: gone::Gone,
    links: links::Links,
    dials: dial::Dials,
    chords: chords::Chords,
    reknit: candidates::Reknit,
    hearing: Option<double::Hearing>,
    search: probe::Search,
    /// Names of records that other members must receive, with the link by which each record came.
    untold: BTreeMap<DaemonName, Option<LinkId>>,
    names: names::Names,
    scatters: scatter::Scatters,
    laps: lap::Laps,
    timers: Timers<Timer>,
    outputs: VecDeque<Output>,
}

impl Ring {
    /// A daemon that starts now. It has outputs at once.
    pub fn new(now: Time, config: RingConfig) -> Self {
        Self::begin_with(now, config, list::List::default())
    }

    fn begin_with(now: Time, config: RingConfig, list: list::List) -> Self {
        let entrance = Entrance { began: now, tried: 0 };
        let mut ring = Self {
            phase: if config.waits { Phase::Waiting(entrance) } else { Phase::Entering(entrance) },
            random: random::Random::new(config.chance),
            list,
            now,
            list_changed: now,
            revision: 0,
            owner: owner::Owner::new(config.ordinal.is_none()),
            gone: gone::Gone::default(),
            links: links::Links::default(),
            dials: dial::Dials::default(),
            chords: chords::Chords::default(),
            reknit: candidates::Reknit::new(now),
            hearing: None,
            search: probe::Search::new(&config.seeds),
            untold: BTreeMap::new(),
            names: names::Names::default(),
            scatters: scatter::Scatters::default(),
            laps: lap::Laps::default(),
            timers: Timers::default(),
            outputs: VecDeque::new(),
            config,
        };
        ring.begin(now);
        ring.settle(now);
        ring
    }

    /// The time at which [`Machine::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn begin(&mut self, now: Time) {
        let offset = self.jitter(self.config.timing.pulse);
        self.timers.set(Timer::Pulse, now + offset);
        // A daemon with an entry does not begin a ring of its own, nor does one that waits.
        if self.config.entry.is_empty() && !self.config.waits && self.seat().is_none() {
            self.take_first_place(now);
        }
        self.search(now);
    }

    /// The consequences of any change: the neighbours are derived again, and the changes are sent.
    fn settle(&mut self, now: Time) {
        if self.phase != Phase::Over {
            self.review_rhs(now);
            self.review_entered();
            self.review_names();
            self.report_news();
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    /// The pulse, and all work that happens at its pace.
    fn pulse(&mut self, now: Time) {
        self.timers.set(Timer::Pulse, now + self.config.timing.pulse);
        self.send_pulses();
        self.dismiss_visitors(now);
        self.forget_gone(now);
        self.drop_late_laps(now);
        self.search(now);
        self.review_chords(now);
        self.plan_judgement(now);
    }

    /// After the end: refuses all requests and closes all links.
    fn refuse(&mut self, input: Input) {
        match input {
            Input::LinkUp { link, .. } => self.outputs.push_back(Output::Close(link)),
            Input::Scatter(request, _) | Input::Send(request, ..) | Input::Lap { request, .. } => {
                self.outputs.push_back(Output::Refused(request));
            }
            Input::Publish { request, .. } => {
                let result = Publication::Refused("the daemon has left the ring");
                self.outputs.push_back(Output::Published { request, result });
            }
            Input::Unpublish { request, .. } => {
                self.outputs.push_back(Output::Unpublished { request, found: false });
            }
            Input::Received(..)
            | Input::LinkClosed(_)
            | Input::ConnectFailed(..)
            | Input::Introduce(_)
            | Input::Seek(_)
            | Input::Leave
            | Input::Readdress(_)
            | Input::Drain(_)
            | Input::Answered(..)
            | Input::JobOver(_) => {}
        }
    }

    fn review_entered(&mut self) {
        let alone = self.list.live_count() == 1;
        let linked = self.rhs().is_some() && self.lhs().is_some();
        let enters = matches!(self.phase, Phase::Entering(_)) && self.seat().is_some();
        if enters && (alone || linked) {
            self.phase = Phase::Member;
            self.event(Event::Entered { members: self.list.live_count() });
        }
    }

    /// Whether this daemon has not been introduced yet.
    const fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_))
    }

    /// This daemon's seat, as soon as it has one.
    fn seat(&self) -> Option<Seat> {
        self.list.get(&self.config.name).map(|record| record.seat())
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// A random part of `span`.
    fn jitter(&mut self, span: Duration) -> Duration {
        let micros = usize::try_from(span.as_micros()).unwrap_or(usize::MAX);
        Duration::from_micros(self.random.below(micros) as u64)
    }
}

impl Machine for Ring {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.phase == Phase::Over {
            self.refuse(input);
            return;
        }
        self.notice_stall(now);
        match input {
            Input::LinkUp { link, token, peer, purpose, from } => {
                self.link_up(now, link, links::LinkUp { token, peer, purpose, from });
            }
            Input::Received(link, message) => self.received(now, link, message),
            Input::LinkClosed(link) => self.link_gone(now, link),
            Input::ConnectFailed(token, failure) => self.connect_failed(now, token, failure),
            Input::Introduce(records) => self.introduced(now, records),
            Input::Seek(addresses) => self.seek(now, addresses),
            Input::Leave => self.leave(now),
            Input::Readdress(addresses) => self.readdress(now, addresses),
            Input::Drain(draining) => self.drain(now, draining),
            Input::Scatter(request, payload) => self.scatter(now, request, None, payload),
            Input::Send(request, to, payload) => self.scatter(now, request, Some(to), payload),
            Input::Answered(id, answer) => self.answered(now, id, answer),
            Input::Lap { request, laps, trace } => self.lap(now, request, laps, trace),
            Input::Publish { request, claim } => self.publish(now, request, claim),
            Input::Unpublish { request, name, job, key } => {
                self.unpublish(request, &name, &job, key.as_ref());
            }
            Input::JobOver(job) => self.job_over(&job),
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.notice_stall(now);
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Pulse => self.pulse(now),
                Timer::Judge => self.judge(now),
                Timer::Dial(token) => self.dial_expired(now, token),
                Timer::Candidate => self.try_candidate(now),
                // `settle` compares the time with `not_before` itself.
                Timer::Hold => {}
                Timer::Resend(sequence) => self.resend(now, sequence),
                Timer::Scatter(sequence) => self.scatter_expired(sequence),
                Timer::ScatterPart(id, round) => self.scatter_part_expired(now, id, round),
                Timer::Lap(sequence) => self.lap_expired(sequence),
            }
        }
        self.settle(now);
        debug_assert!(self.timers.next().is_none_or(|next| next >= now), "a timer in the past");
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
