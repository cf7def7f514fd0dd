//! Between a console and its daemon, and between `mpirun` and the root manager of its job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::{Crash, Failure, Notice, RankEnd, World};
use crate::message::events::EventPage;
use crate::message::job_order::JobOrder;
use crate::message::jobs::{HostedPart, JobRef, MAX_RUN};
use crate::message::ring::{LIST_CHUNK, Payload};
use crate::message::top::HostTop;
use crate::message::trace::Span;
use crate::{
    Address, DaemonName, Instance, JobId, MAX_ADDRESSES, MAX_MEMBERS, Newcomer, Rank, RankSet,
    Record, Standing,
};

/// A console's request about the ring. Each connection has one request. The daemon answers
/// [`RingRequest::Watch`] until the console closes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RingRequest {
    /// The ring as this daemon knows it: [`ConsoleReply::Ring`].
    Describe,
    /// Send a message round the ring several times: [`ConsoleReply::LapsHome`] or
    /// [`ConsoleReply::LapLost`].
    Lap {
        /// The number of laps, at least one.
        laps: u32,
        /// Whether the reply names the members of the last lap.
        trace: bool,
    },
    /// Ask every member to describe itself: [`ConsoleReply::Census`].
    Census,
    /// One member leaves: [`ConsoleReply::Done`], or refused if no member has this name.
    Exit {
        /// The member; `None` is the daemon that receives the request.
        member: Option<DaemonName>,
    },
    /// Every member leaves: [`ConsoleReply::Done`].
    ExitAll,
    /// Begins or ends the drain of members. A draining member gets new processes only from jobs that
    /// name it. The answer is [`ConsoleReply::Done`] when the daemon's list shows the change. The
    /// request is refused if no member has such a name.
    Drain {
        #[serde(deserialize_with = "at_most::<_, _, MAX_MEMBERS>")]
        members: Vec<DaemonName>,
        /// Whether they are draining from now on.
        draining: bool,
    },
    /// The jobs that run in the ring: [`ConsoleReply::Jobs`], in several replies if needed.
    Jobs,
    /// The names that jobs have published: [`ConsoleReply::Names`], in several replies if needed.
    Names,
    /// The resources that hosts and ranks use: [`ConsoleReply::Top`], in several replies if needed.
    Top,
    /// An order to the job: [`ConsoleReply::Done`] as soon as its root manager has the order, or refused if there is no
    /// such job or the job cannot carry it out.
    Job { job: JobRef, order: JobOrder },
    /// A question or an order about slots, as `mpd_alloc::exchange::Ask`: [`ConsoleReply::Slots`],
    /// several times if needed, or [`ConsoleReply::Done`].
    Slots(Payload),
    /// Accept these daemons, which wait for it, as members: [`ConsoleReply::Introduced`].
    Introduce {
        /// The daemons.
        #[serde(deserialize_with = "at_most::<_, _, LIST_CHUNK>")]
        newcomers: Vec<Newcomer>,
    },
    /// Connect to the daemon at one of these addresses, so that its ring and this one become one:
    /// [`ConsoleReply::Done`], at once.
    Seek {
        #[serde(deserialize_with = "at_most::<_, _, MAX_ADDRESSES>")]
        addresses: Vec<Address>,
    },
    /// Each event of the ring as it happens: [`ConsoleReply::Event`], the first one at once.
    Watch,
    /// The events of a job: [`ConsoleReply::JobEvents`] with the kept ones at once and with others as they happen, until
    /// the job is over. Refused if there is no such job, or if its events are no longer known.
    JobEvents {
        job: JobRef,
        /// The number of the first event; `None`: the oldest one that is kept.
        from: Option<u64>,
    },
    /// Connect to the daemon of another host: [`ConsoleReply::Pong`], or refused with the reason.
    Ping {
        /// A member's name, or `HOST:PORT` with a numeric host.
        target: String,
    },
    /// The state of this daemon's ring machine, or of the manager that the job has on this host:
    /// [`ConsoleReply::State`], in several replies if needed.
    State {
        /// The job; `None`: the daemon itself.
        job: Option<JobRef>,
    },
}

/// A name that a job has published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    pub name: String,
    pub value: String,
    /// The job that published it. The name ends with the job.
    pub job: JobId,
    /// The daemon through which it was published.
    pub host: DaemonName,
    /// Whether a lookup needs a key.
    pub keyed: bool,
}

/// Daemon to console. After an accepted submission the daemon sends nothing more: the connection
/// belongs to the job's manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleReply {
    /// The request is not carried out.
    Refused {
        /// Why, for people.
        problem: String,
    },
    /// The daemon's description of itself.
    Status {
        /// The daemon's name in the ring.
        name: String,
        /// Its process id.
        pid: u32,
        jobs: Vec<JobSummary>,
    },
    /// Members of a ring that is too large for one reply. More of them follow, and at last
    /// [`ConsoleReply::Ring`] with the rest.
    RingPart {
        /// Some members, in the order of [`RingView::members`].
        members: Vec<MemberView>,
    },
    /// The ring as this daemon knows it. Members of earlier parts are not repeated.
    Ring(RingView),
    /// All laps are complete.
    LapsHome {
        /// Hops of the last lap: the number of members.
        hops: u32,
        /// The members on the last lap, from the right-hand neighbour to this daemon, if requested.
        names: Vec<DaemonName>,
        /// From request to end, in microseconds.
        took_us: u64,
    },
    /// A lap was lost: the ring broke during it.
    LapLost {
        /// How many laps were complete before it.
        home: u32,
    },
    /// Answers of members that are too many for one reply. More of them follow, and at last
    /// [`ConsoleReply::Census`] with the rest.
    CensusPart {
        /// Some members that answered, in the order of the ring.
        members: Vec<MemberDescription>,
    },
    /// The answers of the members. Those of earlier parts are not repeated.
    Census {
        /// The members that answered, in the order of the ring.
        members: Vec<MemberDescription>,
        /// Live members that did not answer in time.
        missing: Vec<DaemonName>,
        /// Most forwarding steps to any member.
        depth: u32,
    },
    /// All members concerned have received the request.
    Done {
        /// Live members that did not receive the request in time.
        missing: Vec<DaemonName>,
    },
    /// Jobs of the ring, or a part of them.
    Jobs {
        /// The daemon that received the request.
        me: DaemonName,
        /// The jobs by host: this host first, then in the order of the ring.
        jobs: Vec<HostedPart>,
        /// Live members that did not answer in time.
        missing: Vec<DaemonName>,
        /// Whether another reply follows.
        more: bool,
    },
    /// The names that jobs have published, or a part of them.
    Names {
        /// The names in order.
        names: Vec<Published>,
        /// Whether another reply follows.
        more: bool,
    },
    /// The resources that hosts and ranks use, or a part of them.
    Top {
        /// This host first, then in the order of the ring. A repeated host has more ranks.
        hosts: Vec<HostTop>,
        /// Live members that did not answer in time.
        missing: Vec<DaemonName>,
        /// Whether another reply follows.
        more: bool,
    },
    /// News or a list about slots, as `mpd_alloc::exchange::Reply`.
    Slots(Payload),
    /// The daemons are members now.
    Introduced {
        /// The record of the daemon that answers, then those of the new members. A daemon whose name
        /// is known already gets no record.
        records: Vec<Record>,
    },
    /// An event of the ring.
    Event(Happening),
    JobEvents(EventPage),
    /// The state of a machine as text for people, or a part of it.
    State {
        text: String,
        /// Whether another reply follows.
        more: bool,
    },
    /// The requested daemon answered.
    Pong {
        name: DaemonName,
        instance: Instance,
        /// The address that answered.
        address: Address,
        /// The connection alone, in microseconds.
        connect_us: u64,
        /// Connection, mutual proof of the key and greeting, in microseconds.
        total_us: u64,
    },
}

/// A ring as one of its daemons knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingView {
    /// Its name; empty for the default one.
    pub ring: String,
    /// The daemon that describes the ring.
    pub me: DaemonName,
    /// Short id of the key it connects with.
    pub key: String,
    /// Whether both neighbours are linked and have sent a message. Otherwise the ring is healing
    /// here.
    pub whole: bool,
    /// The linked right-hand neighbour.
    pub rhs: Option<DaemonName>,
    /// The linked left-hand neighbour.
    pub lhs: Option<DaemonName>,
    /// The live members in the order of the ring from `me`, then the dead and departed ones by
    /// name.
    pub members: Vec<MemberView>,
    /// How often each kind of event happened since the daemon began. A kind that did not happen is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, u64>,
}

/// One member in a [`RingView`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    pub name: DaemonName,
    /// Live, dead or departed.
    pub standing: Standing,
    pub instance: Instance,
    /// Its position in listings and placement.
    pub ordinal: u64,
    /// Processes that it takes before another member is preferred.
    pub ncpus: u32,
    /// Its addresses, the best first.
    pub addresses: Vec<Address>,
    /// Whether it is a neighbour that has been silent for too long.
    pub suspect: bool,
    /// Whether it gets new processes only in jobs that name it.
    pub draining: bool,
    /// The member that declared it dead.
    pub by: Option<DaemonName>,
}

/// A member's description of itself in a census.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberDescription {
    pub name: DaemonName,
    /// Its release.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Jobs that have a manager on its host.
    pub jobs: u32,
    /// Forwarding steps from the daemon that took the census.
    pub hops: u32,
}

/// One event of the ring, for `mpdwatch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// The time, as RFC 3339 in UTC with microseconds.
    pub time: String,
    /// The daemon that saw it.
    pub seen_by: DaemonName,
    /// The kind of event: `watching` (always the first), `entered`, `entry_failed`,
    /// `member_entered`, `member_returned`, `member_died`, `member_left`, `linked_rhs`, `lost_rhs`,
    /// `linked_lhs`, `lost_lhs`, `suspected`, `recovered`, `refuted`, `reseated`, `stepped_down`,
    /// `left`, `stalled`, `full`.
    pub event: String,
    /// The member concerned.
    pub member: Option<DaemonName>,
    /// The number of live members.
    pub live: u32,
    /// The same for people.
    pub text: String,
}

/// One job in a daemon's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    pub job: JobId,
    /// The process id of its manager.
    pub manager: u32,
}

/// Most bytes of one [`JobInput::Debug`]: the message fits a frame of a job link, even if every
/// byte is escaped.
pub const MAX_DEBUG_LINE: usize = 16 * 1024;

/// `mpirun` to the root manager. Standard input travels in frames of its own kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobInput {
    /// Send this signal to the process group of every rank, once.
    Signal { signal: u8 },
    /// The terminal's size has changed: send SIGWINCH likewise, and resize the ranks' terminals.
    Resize { columns: u16, lines: u16 },
    /// `^C`: interrupt now, terminate and kill after grace periods. The second one kills at once.
    Interrupt,
    /// The terminal is closed: end the job.
    HangUp,
    /// `^Z`: stop every process of the job and answer [`JobNews::Suspended`].
    Suspend,
    /// `fg`: continue all processes.
    Resume,
    /// A command for the debuggers of these ranks, if the job is debugged.
    Debug {
        ranks: RankSet,
        /// The command, without a newline; at most [`MAX_DEBUG_LINE`] bytes.
        line: String,
    },
    /// The programs of a debugged job have ended and will be started again: answered by
    /// [`JobNews::Restarted`].
    Restart,
    /// Answer held ranks, and let held crashed processes die. For jobs whose specification asks to
    /// hold ranks or crashes.
    GoOn,
    /// Give a sign: [`JobNews::Echo`].
    Echo,
}

/// The root manager to `mpirun`, and the daemon's refusal of the job before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobNews {
    /// The daemon does not take the job. This is [`ConsoleReply::Refused`], which the daemon sends to any peer.
    Refused {
        /// Why, for people.
        problem: String,
    },
    /// The manager has the job, and the job has not started for half a second.
    Begun {
        /// The process id of the root manager.
        manager: u32,
    },
    /// The job has an id; its ranks are about to run.
    Started {
        job: JobId,
        /// The host it runs on.
        host: String,
        /// The process id of the root manager.
        manager: u32,
    },
    /// The answer to [`JobInput::Echo`].
    Echo,
    /// Process ids of the ranks of a host, after all ranks have started. Together these messages
    /// have every rank of the first world.
    Processes {
        host: DaemonName,
        /// Some of its ranks.
        ranks: RankSet,
        /// The process id of each, in order.
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUN>")]
        pids: Vec<u32>,
    },
    /// The console may send further bytes of standard input.
    StdinCredit {
        /// How many.
        bytes: u32,
    },
    /// No rank reads standard input any more.
    StdinUnwanted,
    /// A process of a rank crashed, and was caught before it ended.
    Crashed {
        rank: Rank,
        /// The report.
        crash: Crash,
    },
    /// Programs are on their way to hosts that lack them (`-preload`); at most ten times a second, and when all is sent.
    Staging {
        /// Bytes that the root manager has sent.
        sent: u64,
        /// Bytes that it must send, as far as it is known.
        bytes: u64,
        /// Hosts to which it has sent all they lack. They pass it on.
        done: u32,
        /// Hosts to which it sends.
        hosts: u32,
    },
    /// Every process of the job is stopped.
    Suspended,
    /// The programs of a debugged job can be started again.
    Restarted,
    /// The first failure, as soon as it is known.
    Failed { host: String, failure: Failure },
    /// The ends of ranks of one host, if the specification asks for them. Those of a spawned world
    /// come as soon as the whole world has ended, those of the first world at the end of the job.
    Ends {
        host: String,
        /// Their world, if it was spawned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        world: Option<World>,
        /// The ranks, numbered through the job.
        ranks: RankSet,
        /// Process id and end of each of them, in order.
        ends: Vec<(u32, RankEnd)>,
    },
    /// The number of ends of spawned ranks that were left out, because the console did not read the
    /// earlier ones; at the end.
    EndsLeftOut { ranks: u64 },
    /// The spans of a host and its ranks, at the end, if the specification asks for the timeline.
    /// Times are by the clock of the root manager's host, as far as the difference is known.
    Trace {
        host: DaemonName,
        /// Some of the spans.
        spans: Vec<Span>,
    },
    /// The number of forwarding steps of the launch, at the end, if the specification asks for the
    /// timeline.
    Hops {
        /// Hosts of the job.
        hosts: u32,
        /// Most forwarding steps to any host that received the launch; `None` if there was no other
        /// host, or the daemon sent no number.
        scatter: Option<u32>,
        /// Steps from the root manager to the deepest one.
        tree: u32,
    },
    /// A line for the user, other than the job's end.
    Notice(Notice),
    /// The job has ended, and nothing of it is left.
    Ended {
        /// The exit code of `mpirun`.
        code: u8,
    },
}
