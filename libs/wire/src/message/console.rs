//! Between a console and its daemon, and between `mpirun` and the root manager of its job.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::{Crash, Failure, Notice, RankEnd, World};
use crate::message::jobs::{HostedPart, JobRef, MAX_RUN};
use crate::message::top::HostTop;
use crate::message::trace::Span;
use crate::{Address, DaemonName, Instance, JobId, MAX_MEMBERS, Rank, RankSet, Standing};

/// What a console wants of the ring. One connection, one request; [`RingRequest::Watch`] is answered
/// until the console closes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RingRequest {
    /// The ring as this daemon knows it: [`ConsoleReply::Ring`].
    Describe,
    /// A message so many times round the ring: [`ConsoleReply::LapsHome`] or
    /// [`ConsoleReply::LapLost`].
    Lap {
        /// How often, at least once.
        laps: u32,
        /// Whether the members of the last lap are to be named.
        trace: bool,
    },
    /// A word from every member: [`ConsoleReply::Census`].
    Census,
    /// That member shall leave: [`ConsoleReply::Done`], or refused if there is none of that name.
    Exit {
        /// `None`: the daemon that is asked.
        member: Option<DaemonName>,
    },
    /// Every member shall leave: [`ConsoleReply::Done`].
    ExitAll,
    /// These members shall get new processes only where they are named, or like any other again:
    /// [`ConsoleReply::Done`] when the list shows it, or refused if there is none of such a name.
    Drain {
        /// Who.
        #[serde(deserialize_with = "at_most::<_, _, MAX_MEMBERS>")]
        members: Vec<DaemonName>,
        /// Whether they are draining from now on.
        draining: bool,
    },
    /// The jobs that run in the ring: [`ConsoleReply::Jobs`], several times if they are many.
    Jobs,
    /// The names that jobs have published: [`ConsoleReply::Names`], several times if they are many.
    Names,
    /// What hosts and ranks use of their machines: [`ConsoleReply::Top`], several times if there are
    /// many.
    Top,
    /// The job shall end: [`ConsoleReply::Done`] as soon as its root manager is told, or refused if there
    /// is none.
    KillJob {
        /// Which.
        job: JobRef,
    },
    /// The ranks of the job shall get a signal: answered as [`RingRequest::KillJob`].
    SignalJob {
        /// Which.
        job: JobRef,
        /// The signal's number.
        signal: u8,
        /// Only to the rank's own process, not to its process group.
        single: bool,
    },
    /// Other ranks of the job shall receive standard input from now on: answered as
    /// [`RingRequest::KillJob`], and refused where a rank cannot.
    SwitchStdin {
        /// Which.
        job: JobRef,
        /// Who receives.
        ranks: RankSet,
    },
    /// Each event of the ring as it happens: [`ConsoleReply::Event`], the first one at once.
    Watch,
    /// A connection to the daemon of another host and back: [`ConsoleReply::Pong`] or refused with
    /// the reason.
    Ping {
        /// A member's name, or `HOST:PORT` with a numeric host.
        target: String,
    },
}

/// A name that a job has published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub value: String,
    /// Whose it is, and with whom it vanishes.
    pub job: JobId,
    /// The daemon through which it was published.
    pub host: DaemonName,
    /// Whether only who has its key finds it.
    pub keyed: bool,
}

/// Daemon to console. After a submission that is accepted the daemon says nothing more: the
/// connection belongs to the job's manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ConsoleReply {
    /// The request is not carried out.
    Refused {
        /// Why, for people.
        problem: String,
    },
    /// What a daemon says of itself.
    Status {
        /// The daemon's name in the ring.
        name: String,
        /// Its process id.
        pid: u32,
        /// Its jobs.
        jobs: Vec<JobSummary>,
    },
    /// The ring as this daemon knows it.
    Ring(RingView),
    /// All laps came home.
    LapsHome {
        /// Hops of the last one: the members of the ring.
        hops: u32,
        /// The last one's way, from the right-hand neighbour to this daemon, if asked for.
        names: Vec<DaemonName>,
        /// From request to end, in microseconds.
        took_us: u64,
    },
    /// A lap was lost: the ring broke under way.
    LapLost {
        /// How many came home before it.
        home: u32,
    },
    /// A word from every member.
    Census {
        /// Those who answered, in the order of the ring.
        members: Vec<Word>,
        /// Live members that did not answer in time.
        missing: Vec<DaemonName>,
        /// Most forwarding steps to any member.
        depth: u32,
    },
    /// All members concerned have been told.
    Done {
        /// Live members that could not be told in time.
        missing: Vec<DaemonName>,
    },
    /// Jobs of the ring, or a part of them.
    Jobs {
        /// The daemon that was asked.
        me: DaemonName,
        /// What runs where, this host first, then in the order of the ring.
        jobs: Vec<HostedPart>,
        /// Live members that did not answer in time.
        missing: Vec<DaemonName>,
        /// Whether another reply follows.
        more: bool,
    },
    /// The names that jobs have published, or a part of them.
    Names {
        /// In order.
        names: Vec<Published>,
        /// Whether another reply follows.
        more: bool,
    },
    /// What hosts and ranks use, or a part of it.
    Top {
        /// This host first, then in the order of the ring. A host that comes again has more ranks.
        hosts: Vec<HostTop>,
        /// Live members that did not answer in time.
        missing: Vec<DaemonName>,
        /// Whether another reply follows.
        more: bool,
    },
    /// Something happened to the ring.
    Event(Happening),
    /// The daemon that was asked for answered.
    Pong {
        /// Its name.
        name: DaemonName,
        /// Which life of it.
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
#[serde(deny_unknown_fields)]
pub struct RingView {
    /// Its name; empty for the default one.
    pub ring: String,
    /// The daemon that says so.
    pub me: DaemonName,
    /// Short id of the key it connects with.
    pub key: String,
    /// Whether both neighbours are linked and heard of: else the ring is healing here.
    pub whole: bool,
    /// The right-hand neighbour that is linked.
    pub rhs: Option<DaemonName>,
    /// The left-hand neighbour that is linked.
    pub lhs: Option<DaemonName>,
    /// The live ones in the order of the ring from `me`, then the dead and departed by name.
    pub members: Vec<MemberView>,
}

/// One member in a [`RingView`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberView {
    /// Its name.
    pub name: DaemonName,
    /// How it stands.
    pub standing: Standing,
    /// Which life of it.
    pub instance: Instance,
    /// Its place in listings and placement.
    pub ordinal: u64,
    /// Processes it takes before another is preferred.
    pub ncpus: u32,
    /// Where it is reached, the best first.
    pub addresses: Vec<Address>,
    /// Whether it is a neighbour that has been silent for a while.
    pub suspect: bool,
    /// Whether it gets new processes only where it is named.
    pub draining: bool,
    /// Who declared it dead.
    pub by: Option<DaemonName>,
}

/// What a member says of itself in a census.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// Its name.
    pub name: DaemonName,
    /// Its release.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Jobs that have a manager there.
    pub jobs: u32,
    /// Forwarding steps from the daemon that asked.
    pub hops: u32,
}

/// One event of the ring, for `mpdwatch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happening {
    /// When, as RFC 3339 in UTC with microseconds.
    pub time: String,
    /// The daemon that saw it.
    pub seen_by: DaemonName,
    /// What, as one word: `watching` (always the first), `entered`, `entry_failed`,
    /// `member_entered`, `member_returned`, `member_died`, `member_left`, `linked_rhs`, `lost_rhs`,
    /// `linked_lhs`, `lost_lhs`, `suspected`, `recovered`, `refuted`, `reseated`, `stepped_down`,
    /// `left`, `stalled`, `full`.
    pub event: String,
    /// The member it is about.
    pub member: Option<DaemonName>,
    /// Members that live now.
    pub live: u32,
    /// The same for people.
    pub text: String,
}

/// One job in a daemon's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSummary {
    /// The job.
    pub job: JobId,
    /// The process id of its manager.
    pub manager: u32,
}

/// Most bytes of one [`JobInput::Debug`]: however they are escaped, the word fits a frame of a job link.
pub const MAX_DEBUG_LINE: usize = 16 * 1024;

/// `mpirun` to the root manager. Standard input travels beside, as frames of its own kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobInput {
    /// Send this signal to the process group of every rank, once.
    Signal {
        /// Its number.
        signal: u8,
    },
    /// The terminal has another size: send SIGWINCH likewise, and let terminals of ranks follow.
    Resize {
        /// Its columns.
        columns: u16,
        /// Its lines.
        lines: u16,
    },
    /// `^C`: interrupt now, terminate and kill after graces; the second one kills at once.
    Interrupt,
    /// The terminal is gone: end the job.
    HangUp,
    /// `^Z`: stop every process of the job and answer [`JobNews::Suspended`].
    Suspend,
    /// `fg`: let them all continue.
    Resume,
    /// Something for the debuggers of these ranks, if the job is debugged.
    Debug {
        /// Whose.
        ranks: RankSet,
        /// What, without a newline; at most [`MAX_DEBUG_LINE`] bytes.
        line: String,
    },
    /// The programs of a job that is debugged have ended and are to be started once more: answered by
    /// [`JobNews::Restarted`].
    Restart,
    /// Of a job whose specification holds it, or what crashes of it: what is held now goes on.
    GoOn,
}

/// The root manager to `mpirun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobNews {
    /// The job has an id; its ranks are about to run.
    Started {
        /// The id.
        job: JobId,
        /// The host it runs on.
        host: String,
    },
    /// Which processes run the ranks of a host, once all ranks are started: every rank of the first
    /// world is in one of these.
    Processes {
        /// The host.
        host: DaemonName,
        /// Some of its ranks.
        ranks: RankSet,
        /// The process id of each, in order.
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUN>")]
        pids: Vec<u32>,
    },
    /// That many further bytes of standard input may be sent.
    StdinCredit {
        /// How many.
        bytes: u32,
    },
    /// Nobody reads standard input any more.
    StdinUnwanted,
    /// A process of a rank crashed, and was caught before it was gone.
    Crashed {
        /// Whose.
        rank: Rank,
        /// What is known of it.
        crash: Crash,
    },
    /// Every process of the job is stopped.
    Suspended,
    /// The programs of a job that is debugged can be started once more.
    Restarted,
    /// What the first failure was, as soon as it is known.
    Failed {
        /// Where.
        host: String,
        /// The failure.
        failure: Failure,
    },
    /// The ends of ranks of one host, if the specification asks for them: of a world that was spawned as
    /// soon as all of it has ended, of the first one at the end.
    Ends {
        /// The host.
        host: String,
        /// Their world, if it was spawned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        world: Option<World>,
        /// The ranks, numbered through the job.
        ranks: RankSet,
        /// Process id and end of each of them, in order.
        ends: Vec<(u32, RankEnd)>,
    },
    /// So many ends of spawned ranks were not told, since the console did not take what was; at the end.
    EndsLeftOut {
        /// How many.
        ranks: u64,
    },
    /// What a host and its ranks did when, at the end, if the specification asks for it. By the clock
    /// of the root manager's host, as far as it is known to differ.
    Trace {
        /// Where.
        host: DaemonName,
        /// Some of the spans.
        spans: Vec<Span>,
    },
    /// How far the words of the launch travelled, at the end, if the specification asks for the
    /// timeline.
    Hops {
        /// Hosts of the job.
        hosts: u32,
        /// Most forwarding steps to any host that was told of the job; none if no other host was, or
        /// the daemon did not say.
        scatter: Option<u32>,
        /// Steps from the root manager to the deepest one.
        tree: u32,
    },
    /// A line for the user that is not the end of the job.
    Notice(Notice),
    /// The job is over and nothing of it is left.
    Ended {
        /// The exit code of `mpirun`.
        code: u8,
    },
}
