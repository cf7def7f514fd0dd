//! Between the managers of one job, on the links of the job tree.
//!
//! Every frame of a job link begins with one byte for the type of the rest ([`TreeKind`]). Commands
//! (down) and reports (up) have the compact encoding. A job's specification, keys and values, output and input
//! travel as raw bytes. Each kind belongs to a [`Class`]. Classes are sent in their order, so that
//! a stopped console delays neither a fence nor a signal.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::frame::Versions;
use crate::job::{
    Crash, Digest, Failure, HostSlice, MAX_HOST_SLICES, MpiLibrary, Parts, RankEnd, SpawnOutcome,
    World,
};
use crate::message::group::FenceGroup;
use crate::message::trace::{MAX_SPANS, Span};
use crate::{DaemonName, Rank, RankSet, Stream};

/// Most bytes of a text in a message: a frame holds it even if every byte is escaped.
pub const MAX_TEXT: usize = 16 * 1024;
/// Most bytes of output of one stream, or of standard input, in flight on one link.
pub const TREE_WINDOW: usize = 256 * 1024;

/// Most bytes of one frame, its kind included.
pub const MAX_TREE_FRAME: usize = 128 * 1024;

/// Most ends or process ids in one message; more need several.
pub const MAX_LISTED: usize = 2048;

/// Most programs that are copied to other hosts, and most in one message.
pub const MAX_PRELOADS: usize = 512;

/// A program that is copied to hosts that lack it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preload {
    /// The argset of the program, counted from 0.
    pub argset: u32,
    /// Number of the file, counted from 0 in the order of transfer. Several argsets may have the
    /// same file.
    pub file: u32,
    /// The content's digest.
    pub digest: Digest,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The order in which frames are sent. A class waits only for those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Commands and reports: never held back.
    Control,
    /// Fences with their keys and values, and spawned worlds.
    Collective,
    /// Standard error, by credit.
    Err,
    /// Standard output, by credit, and messages that follow output of both streams.
    Out,
    /// Standard input, by credit.
    In,
    /// The specification, before anything else runs.
    Spec,
    /// Programs, before anything runs.
    File,
}

/// First byte of a frame on a job link: the type of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// One [`Down`] or [`Up`].
    Control,
    /// A [`Down::Release`], [`Down::ReleaseGroup`], [`Down::World`], [`Down::Restart`],
    /// [`Up::Entered`], [`Up::EnteredGroup`] or [`Up::Restarted`], in order with keys and pieces of
    /// worlds.
    Fence,
    /// Keys and values put since the last fence, preceded by the first rank of the world as four
    /// bytes, big-endian.
    Keys,
    /// Output of this stream: `mpd_stdio::record::Item`s.
    Output(Stream),
    /// Standard input: `mpd_stdio::input::Stdin`.
    Stdin,
    /// A piece of the encoded specification.
    Spec,
    /// The next piece of a program: its number as four bytes, big-endian, then the bytes.
    File,
    /// A piece of the description of a spawned world: [`crate::message::WorldPiece`].
    World,
    /// A piece of data of PMIx clients: a zero byte or the way of it, then a
    /// [`crate::message::WorldPiece`].
    Pmix,
    /// A [`Up::Looked`], in order with output.
    Look,
    /// A [`LinkHello`], the first frame of both sides.
    Hello,
}

/// The versions of the messages on job links. Version 1 had JSON and no hello.
pub const LINK_VERSIONS: Versions = Versions::only(2);

/// The first message of both sides of a job link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkHello {
    /// The versions that the sender reads. Without a common one the link is lost.
    pub versions: Versions,
}

impl TreeKind {
    /// The byte on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::Control => 0,
            Self::Fence => 1,
            Self::Keys => 2,
            Self::Output(Stream::Out) => 3,
            Self::Output(Stream::Err) => 4,
            Self::Stdin => 5,
            Self::Spec => 6,
            Self::File => 7,
            Self::World => 8,
            Self::Pmix => 9,
            Self::Look => 10,
            Self::Hello => 11,
        }
    }

    /// The kind of a byte.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Control,
            1 => Self::Fence,
            2 => Self::Keys,
            3 => Self::Output(Stream::Out),
            4 => Self::Output(Stream::Err),
            5 => Self::Stdin,
            6 => Self::Spec,
            7 => Self::File,
            8 => Self::World,
            9 => Self::Pmix,
            10 => Self::Look,
            11 => Self::Hello,
            _ => return None,
        })
    }

    pub const fn class(self) -> Class {
        match self {
            Self::Control | Self::Hello => Class::Control,
            Self::Fence | Self::Keys | Self::World | Self::Pmix => Class::Collective,
            Self::Output(Stream::Out) | Self::Look => Class::Out,
            Self::Output(Stream::Err) => Class::Err,
            Self::Stdin => Class::In,
            Self::Spec => Class::Spec,
            Self::File => Class::File,
        }
    }
}

/// From a manager to its children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Down {
    /// Pieces of the specification follow. First message on every link.
    Spec {
        /// Their total length.
        bytes: u32,
    },
    /// The programs to copy, if the specification asks for that. A host that lacks some answers by
    /// [`Up::Lacks`].
    Preloads {
        /// Some of the programs.
        #[serde(deserialize_with = "at_most::<_, _, MAX_PRELOADS>")]
        files: Vec<Preload>,
        /// Whether others follow.
        more: bool,
    },
    /// All hosts are ready: start the ranks.
    Go,
    /// Send the signal to the process group of every rank that lives.
    Signal { signal: u8 },
    /// Send the signal to the process of every rank that lives, and not to the rest of its group.
    SignalProcesses { signal: u8 },
    /// Send SIGTERM to the process groups of these ranks: a user wants them to end.
    Retire { ranks: RankSet },
    /// The new size of the ranks' terminals. Send SIGWINCH as for a [`Down::Signal`].
    Resize { columns: u16, lines: u16 },
    /// Stop every process; answered by [`Up::Stopped`] of the same round.
    Stop {
        /// Counted by the root.
        round: u32,
    },
    /// Let every process continue.
    Continue,
    /// Answer the PMI requests of held ranks; let held crashed processes die.
    GoOn,
    /// Kill every process; answered by [`Up::Gone`].
    Kill,
    /// The ranks of a world that wait in the fence may continue. The keys came before, in frames of
    /// their own.
    Release {
        /// The world's first rank.
        first: Rank,
    },
    /// The ranks of a world that wait in the fence of a group may continue. The keys came before.
    ReleaseGroup {
        /// The world's first rank.
        first: Rank,
        group: FenceGroup,
    },
    /// Further hosts join the job, from this tree index on.
    Grow {
        /// The first new place.
        from: u32,
        #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
        host_slices: Vec<HostSlice>,
    },
    /// Start a world. Its description came before, in pieces. Managers with a part in it prepare,
    /// and answer [`Up::Prepared`].
    World {
        world: World,
        /// The ranks by tree index.
        parts: Parts,
    },
    /// All managers are prepared: start that world's ranks; answered by [`Up::WorldStarted`].
    GoWorld {
        /// The world's first rank.
        first: Rank,
    },
    /// Kill the running ranks of a world. [`Up::Exited`] reports every rank of it as if it had been
    /// started.
    EndWorld {
        /// The world's first rank.
        first: Rank,
    },
    /// All ranks of a world have ended.
    Forget {
        /// The world's first rank.
        first: Rank,
    },
    /// The result of a spawn, for the rank that requested it.
    Spawned {
        spawner: Rank,
        /// The result.
        outcome: SpawnOutcome,
    },
    /// Send the signal to the process of that rank.
    Interrupt { rank: Rank, signal: u8 },
    /// A rank has failed, and the others continue. Ranks of its world that use PMI are notified.
    Dead { rank: Rank },
    /// A command for the debuggers of these ranks, if the job is debugged.
    Debug {
        ranks: RankSet,
        /// The command.
        line: String,
    },
    /// The programs of a debugged job have ended and will be started again: reset their shared
    /// state; answered by [`Up::Restarted`].
    Restart,
    /// Write the remaining output; answered by [`Up::Drained`].
    Drain,
    /// Discard the remaining output.
    Discard,
    /// Clean up, answer [`Up::CleanedUp`], and end.
    CleanUp,
    /// The receiver may send further bytes of a stream up.
    OutputCredit {
        stream: Stream,
        /// How many bytes.
        bytes: u32,
    },
    /// Look at these ranks: the root waits for equal lines of them. The answer is [`Up::Looked`].
    LookAt { stream: Stream, ranks: RankSet },
    /// The sender lives.
    Pulse,
}

/// From a manager to its parent. Managers in between forward the messages for the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Up {
    /// All checks before the start have passed, here and in the descendants.
    Ready,
    /// Request for the programs of these numbers, in this order.
    Lacks {
        /// The numbers.
        #[serde(deserialize_with = "at_most::<_, _, MAX_PRELOADS>")]
        files: Vec<u32>,
    },
    /// A check before the start, or the start of a rank, failed.
    StartFailed {
        /// The host's daemon.
        member: DaemonName,
        failure: Failure,
    },
    /// A failure on a host that ends the job and does not belong to a rank.
    Failed {
        /// The host's daemon.
        member: DaemonName,
        failure: Failure,
    },
    /// Process ids of started ranks.
    Pids {
        /// The id of each rank.
        #[serde(deserialize_with = "at_most::<_, _, MAX_LISTED>")]
        pids: Vec<(Rank, u32)>,
    },
    /// Every rank here and in the descendants has started; their process ids came before.
    Started,
    /// The ends of ranks.
    Exited {
        /// The end of each rank.
        #[serde(deserialize_with = "at_most::<_, _, MAX_LISTED>")]
        ends: Vec<(Rank, RankEnd)>,
    },
    /// Ranks that called PMI init.
    Initialized { ranks: RankSet },
    /// Ranks that called PMI finalize.
    Finalized { ranks: RankSet },
    /// Ranks that entered the fence. Their puts came before, in frames of their own.
    Entered { ranks: RankSet },
    /// Ranks of one world that entered the fence of a group. Their puts came before.
    EnteredGroup { group: FenceGroup, ranks: RankSet },
    /// A rank aborted the job.
    Aborted { rank: Rank, code: i32, message: String },
    /// A rank violated the protocol on its PMI connection, which cannot continue.
    BrokeProtocol {
        rank: Rank,
        /// The violation.
        problem: String,
    },
    /// The first rank of a world here or in the descendants that uses an MPI library of this kind.
    Uses { rank: Rank, library: MpiLibrary },
    /// A rank uses an MPI library without PMI, for which it is rank 0 of 1.
    Alone {
        rank: Rank,
        /// The library's file.
        library: String,
    },
    /// A process of a rank crashed. Its end comes after.
    Crashed {
        rank: Rank,
        /// The report.
        crash: Crash,
    },
    /// A host cannot start its part of a world.
    WorldFailed {
        /// The world's first rank.
        first: Rank,
        /// The host's daemon.
        member: DaemonName,
        failure: Failure,
    },
    /// The part of a world here and in the descendants is prepared, or has failed.
    Prepared {
        /// The world's first rank.
        first: Rank,
    },
    /// The part of a world here and in the descendants has started, or has failed.
    WorldStarted {
        /// The world's first rank.
        first: Rank,
    },
    /// A rank ends or restores the shared fate of its world and another one of the job.
    WorldConnection {
        from: Rank,
        /// The number of the other world.
        number: u32,
        /// Whether the worlds share their fate from now on.
        joined: bool,
    },
    /// A rank requests a signal for another rank.
    Interrupt {
        /// The requesting rank.
        from: Rank,
        /// The other rank.
        rank: Rank,
        /// The signal's number.
        signal: u8,
    },
    /// The shared state of programs is as before their first start, here and in the descendants.
    Restarted,
    /// Every process here and in the descendants is stopped.
    Stopped {
        /// Round of the [`Down::Stop`].
        round: u32,
    },
    /// No process of the job lives here or in the descendants.
    Gone,
    /// All output of this manager and its descendants was sent before this.
    Drained,
    /// Nothing of the job is left here or in the descendants.
    CleanedUp,
    /// A descendant is lost, with its own descendants.
    Lost {
        /// Its host's daemon.
        member: DaemonName,
        /// How the loss was detected.
        problem: String,
        /// Whether its link was closed: its manager has probably ended, and its daemon may know why.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        closed: bool,
    },
    /// A line for the user.
    Notice {
        /// The line.
        text: String,
    },
    /// The job's directory on a host is not in the directory that the job asks for. Before [`Up::Ready`].
    Elsewhere {
        /// The host's daemon.
        member: DaemonName,
        /// The directory in which it is.
        place: String,
        /// The directory that was asked for, and why it cannot be used.
        problem: String,
    },
    /// The spans of a manager and its ranks, if the specification asks for the timeline; before
    /// [`Up::CleanedUp`]. Times are by the clock of the sender.
    Trace {
        /// The tree index of the manager that recorded the spans.
        tree_index: u32,
        /// When the sender received [`Down::Go`], in microseconds since 1970; 0 if it did not.
        received_us: u64,
        /// When the sender sent this.
        reported_us: u64,
        /// Some of the spans.
        #[serde(deserialize_with = "at_most::<_, _, MAX_SPANS>")]
        spans: Vec<Span>,
    },
    /// The parent may send further bytes of standard input.
    StdinCredit {
        /// How many.
        bytes: u32,
    },
    /// No rank here or in the descendants reads standard input, unless a switch selects a reader.
    StdinUnwanted {
        /// The number of switches that the sender had received.
        switches: u32,
    },
    /// The answer of a manager to [`Down::LookAt`]. Its ancestors may know more of ranks.
    Looked {
        stream: Stream,
        /// Ranks that get no CPU, or whose output is on its way.
        behind: RankSet,
        /// The other ranks of the question there.
        others: RankSet,
    },
    /// The sender lives.
    Pulse,
}

impl Up {
    /// Cuts texts from programs and the system to [`MAX_TEXT`] bytes, so that the message fits a
    /// frame.
    pub fn shorten(&mut self) {
        match self {
            Self::StartFailed { failure, .. } | Self::WorldFailed { failure, .. } => {
                match failure {
                    Failure::CannotExecute { program, problem, .. } => {
                        shorten(program);
                        shorten(problem);
                    }
                    Failure::Suite { problem } => shorten(problem),
                    _ => {}
                }
            }
            Self::Crashed { crash, .. } => crash.shorten(),
            Self::Aborted { message: text, .. }
            | Self::BrokeProtocol { problem: text, .. }
            | Self::Lost { problem: text, .. }
            | Self::Alone { library: text, .. }
            | Self::Elsewhere { problem: text, .. }
            | Self::Notice { text } => shorten(text),
            _ => {}
        }
    }
}

fn shorten(text: &mut String) {
    if text.len() > MAX_TEXT {
        let mut end = MAX_TEXT;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(" …");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut word = Up::Notice { text: "é".repeat(MAX_TEXT) };
        word.shorten();
        let Up::Notice { text } = word else { panic!("another word") };
        assert_eq!(text, format!("{} …", "é".repeat(MAX_TEXT / 2)));
    }

    #[test]
    fn every_kind_reads_back_from_its_byte() {
        let kinds: Vec<TreeKind> = (0..=u8::MAX).filter_map(TreeKind::from_code).collect();
        assert_eq!(kinds.len(), 12);
        assert!(kinds.iter().all(|kind| TreeKind::from_code(kind.code()) == Some(*kind)));
    }

    #[test]
    fn control_precedes_fences_and_fences_precede_output() {
        assert!(TreeKind::Control.class() < TreeKind::Keys.class());
        assert!(TreeKind::Fence.class() < TreeKind::Output(Stream::Err).class());
        assert!(TreeKind::Output(Stream::Err).class() < TreeKind::Output(Stream::Out).class());
    }
}
