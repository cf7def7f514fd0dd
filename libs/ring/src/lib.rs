//! One daemon's part in the ring: who is in it, who its neighbours are, how a message reaches all.
//!
//! [`Ring`] holds every decision; it opens no connection, reads no clock and proves nothing: the
//! channel below hands in links whose peers are proved, and whose messages are whole and in order.
//! The rules R1-R7 and a diagram stand in `README.md` of this crate.
//!
//! The owner reads its sockets before it lets time pass: after standing still, every input that waits
//! is handed in before [`Machine::handle_timeout`]: a [`Pump`](mpd_machine::Pump) does so.
//!
//! **Users.** The daemon, and the simulator of rings.
//!
//! **Must not know.** Jobs and their processes: orders of the daemons travel as opaque payloads. Sockets, files and clocks are
//! unknown as well.
#![forbid(unsafe_code)]

mod candidates;
mod chords;
mod config;
mod detect;
mod dial;
mod double;
mod event;
mod gone;
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
pub use links::{LinkId, Peer, Purpose};
pub use names::MAX_SHEETS;
pub use publish::Publication;

use mpd_machine::{Machine, Time, Timers, UNDRAINED};
use mpd_wire::message::{Answer, Payload, RingMessage, ScatterId};
use mpd_wire::names::{Claim, NameKey};
use mpd_wire::{Address, DaemonName, Instance, JobId, Record, Seat};

/// An attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A request of a console; the owner chooses the number and finds it again in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// What the world did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A link is up and its peer proved.
    LinkUp {
        /// Never used before by this daemon.
        link: LinkId,
        /// Of the [`Output::Connect`] that it answers; none for a link accepted.
        token: Option<Token>,
        /// Who is there, proved by the channel.
        peer: Peer,
        /// What the side that connected wants of it.
        purpose: Purpose,
        /// The address at the other end.
        from: Address,
    },
    /// A message came.
    Received(LinkId, RingMessage),
    /// A link is gone, for whatever reason; not said of links closed by [`Output::Close`].
    LinkClosed(LinkId),
    /// An attempt came to nothing.
    ConnectFailed(Token, DialFailure),
    /// A console wants this daemon to leave.
    Leave,
    /// The addresses under which others reach this daemon, the best first, at most
    /// [`MAX_ADDRESSES`](mpd_wire::MAX_ADDRESSES). If they are not those of its record, it is told to all. None at all
    /// changes nothing.
    Readdress(Vec<Address>),
    /// Whether this daemon is draining: to get new processes only where it is named. Told to all.
    Drain(bool),
    /// A console, or the daemon itself, wants all members to act on something.
    Scatter(RequestId, Payload),
    /// This daemon acted on a scatter.
    Answered(ScatterId, Payload),
    /// A console wants that many laps, and with `trace` the names on the way.
    Lap {
        /// Whose.
        request: RequestId,
        /// How many, one after the other.
        laps: u32,
        /// Whether members write their names down.
        trace: bool,
    },
    /// A job of this host wants a name to be found by all; answered by [`Output::Published`].
    Publish {
        /// Whose.
        request: RequestId,
        /// The name, what it stands for, the job.
        claim: Claim,
    },
    /// A job takes its name back; answered by [`Output::Unpublished`].
    Unpublish {
        /// Whose.
        request: RequestId,
        /// The name.
        name: String,
        /// The job that published it through this daemon.
        job: JobId,
        /// The key that it was published with.
        key: Option<NameKey>,
    },
    /// A job is over: what it published through this daemon vanishes.
    JobOver(JobId),
}

/// Where an order comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The member that gave it.
    pub origin: DaemonName,
    /// The member that handed it on.
    pub name: DaemonName,
    /// Where that one's link comes from.
    pub at: Address,
}

/// What the daemon has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to one of the addresses, whichever answers; then [`Input::LinkUp`] or
    /// [`Input::ConnectFailed`].
    Connect {
        /// Names the attempt.
        token: Token,
        /// Who is to answer; anybody of the ring if none. An address where somebody else answers is as
        /// good as one where nobody does.
        name: Option<DaemonName>,
        /// Which life of it, if no other will do.
        instance: Option<Instance>,
        /// In order of preference.
        addresses: Vec<Address>,
        /// To be said in the handshake.
        purpose: Purpose,
    },
    /// Give this attempt up. A link that came up meanwhile may still be handed in.
    Abandon(Token),
    /// Send.
    Send(LinkId, RingMessage),
    /// Send what is queued, then close.
    Close(LinkId),
    /// Act on this once, then say [`Input::Answered`].
    Deliver {
        /// Names it in the answer.
        id: ScatterId,
        /// What to act on.
        payload: Payload,
        /// Forwarding steps it took.
        hops: u32,
        /// Who says so; none if it is this daemon.
        sender: Option<Sender>,
    },
    /// A scatter is over.
    Scattered {
        /// Whose.
        request: RequestId,
        /// Who answered what.
        answers: Vec<Answer>,
        /// Live members not heard of. Done only if there are none.
        missing: Vec<DaemonName>,
        /// Most forwarding steps to any member.
        depth: u32,
    },
    /// All laps came home.
    LapsHome {
        /// Whose.
        request: RequestId,
        /// Hops of the last one.
        hops: u32,
        /// Names on the way of the last one, if asked for: from this daemon's rhs to itself.
        names: Vec<DaemonName>,
        /// From the request to now.
        took: Duration,
    },
    /// A lap did not come home.
    LapLost {
        /// Whose.
        request: RequestId,
        /// How many had come home before.
        home: u32,
    },
    /// A publication is over.
    Published {
        /// Whose.
        request: RequestId,
        /// How it ended.
        result: Publication,
    },
    /// A name was taken back.
    Unpublished {
        /// Whose.
        request: RequestId,
        /// Whether that job had published it through this daemon, with that key.
        found: bool,
    },
    /// A name that was published here is another's: two halves of a ring met, and each had it.
    NameLost {
        /// The name.
        name: String,
        /// The job that has it no more.
        job: JobId,
        /// The job that has it.
        to: JobId,
    },
    /// Too many requests are under way.
    Refused(RequestId),
    /// Something for people.
    Event(Event),
    /// This daemon is out of the ring for good: it left or stepped down.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Pulse,
    /// Some neighbour may have been silent for too long.
    Judge,
    Dial(Token),
    /// The next candidate is due (R3).
    Candidate,
    /// The rhs may be dialed, or replaced, again.
    Hold,
    /// What was missing is sent again.
    Resend(u64),
    /// Deadline of this daemon's own scatter.
    Scatter(u64),
    /// Deadline of a share.
    Share(ScatterId, u32),
    Lap(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Without both neighbours for the first time.
    Entering,
    Member,
    /// Left or stepped down.
    Over,
}

/// One daemon's membership. See the module.
#[derive(Debug)]
pub struct Ring {
    config: RingConfig,
    phase: Phase,
    random: random::Random,
    list: list::List,
    /// Of the call under way.
    now: Time,
    list_changed: Time,
    revision: u64,
    owner: owner::Owner,
    gone: gone::Gone,
    links: links::Links,
    dials: dial::Dials,
    reknit: candidates::Reknit,
    hearing: Option<double::Hearing>,
    search: probe::Search,
    /// Names of records to be told, with the link that told us.
    untold: BTreeMap<DaemonName, Option<LinkId>>,
    names: names::Names,
    scatters: scatter::Scatters,
    laps: lap::Laps,
    timers: Timers<Timer>,
    outputs: VecDeque<Output>,
}

impl Ring {
    /// A daemon that begins now. It has outputs at once.
    pub fn new(now: Time, config: RingConfig) -> Self {
        let mut ring = Self {
            phase: Phase::Entering,
            random: random::Random::new(config.chance),
            list: list::List::default(),
            now,
            list_changed: now,
            revision: 0,
            owner: owner::Owner::new(now, config.ordinal.is_none()),
            gone: gone::Gone::default(),
            links: links::Links::default(),
            dials: dial::Dials::default(),
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

    /// When [`Machine::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn begin(&mut self, now: Time) {
        let offset = self.jitter(self.config.timing.pulse);
        self.timers.set(Timer::Pulse, now + offset);
        // Told where to enter, a daemon begins nothing of its own.
        if self.config.entry.is_empty() {
            self.take_first_place();
        }
        self.search(now);
    }

    /// What follows from any change: the right neighbours, the news told.
    fn settle(&mut self, now: Time) {
        if self.phase != Phase::Over {
            self.review_rhs(now);
            self.review_entered();
            self.review_names();
            self.tell_news();
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    /// The pulse, and all that happens at its pace.
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

    /// Nothing is done for anybody any more.
    fn refuse(&mut self, input: Input) {
        match input {
            Input::LinkUp { link, .. } => self.outputs.push_back(Output::Close(link)),
            Input::Scatter(request, _) | Input::Lap { request, .. } => {
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
        if self.phase == Phase::Entering && self.seat().is_some() && (alone || linked) {
            self.phase = Phase::Member;
            self.event(Event::Entered { members: self.list.live_count() });
        }
    }

    /// This daemon's seat, once it has one.
    fn seat(&self) -> Option<Seat> {
        self.list.get(&self.config.name).map(Record::seat)
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
            Input::Leave => self.leave(now),
            Input::Readdress(addresses) => self.readdress(now, addresses),
            Input::Drain(draining) => self.drain(now, draining),
            Input::Scatter(request, payload) => self.scatter(now, request, payload),
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
                // The review after this call looks at the time itself.
                Timer::Hold => {}
                Timer::Resend(sequence) => self.resend(now, sequence),
                Timer::Scatter(sequence) => self.scatter_expired(sequence),
                Timer::Share(id, round) => self.share_expired(now, id, round),
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
