//! Between the managers of one job, on the links of the job tree.
//!
//! Every frame of a job link begins with one byte that says what the rest is ([`TreeKind`]). Commands
//! go down and words of ranks go up as JSON; a job's specification, keys and values, output and input
//! travel as raw bytes. Each kind belongs to a class; classes wait for each other in the order of
//! [`Class`], so that a stopped console delays neither a fence nor a signal.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::{Crash, Digest, Failure, MAX_SHARES, Parts, RankEnd, Share, SpawnOutcome, World};
use crate::message::group::FenceGroup;
use crate::message::trace::{MAX_SPANS, Span};
use crate::{DaemonName, Rank, RankSet, Stream};

/// Longest text in a word, in bytes: a frame holds it even if every byte of it has to be escaped.
pub const MAX_TEXT: usize = 16 * 1024;
/// Bytes of output of one stream, or of standard input, that may be under way on one link.
pub const TREE_WINDOW: usize = 256 * 1024;

/// Most bytes of one frame, its kind included.
pub const MAX_TREE_FRAME: usize = 128 * 1024;

/// Most ends or process ids in one message: more are sent as several.
pub const MAX_LISTED: usize = 2048;

/// Most programs that are brought to other hosts, and most in one message.
pub const MAX_PRELOADS: usize = 512;

/// A program that is brought to hosts that lack it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preload {
    /// Whose program, counted from 0.
    pub argset: u32,
    /// Number of the file, counted from 0 in the order in which they come; several argsets may have
    /// the same.
    pub file: u32,
    /// What it is.
    pub digest: Digest,
    /// How long it is.
    pub bytes: u64,
}

/// What is sent first. A class waits only for those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Commands and words: never held back.
    Control,
    /// Fences with their keys and values, and worlds that are spawned.
    Collective,
    /// Standard error, by credit.
    Err,
    /// Standard output, by credit.
    Out,
    /// Standard input, by credit.
    In,
    /// The specification, before anything else runs.
    Spec,
    /// Programs, before anything runs.
    File,
}

/// First byte of a frame on a job link: what the rest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// One [`Down`] or [`Up`].
    Control,
    /// One [`Down::Release`], [`Down::ReleaseGroup`], [`Down::World`], [`Down::Restart`], [`Up::Entered`],
    /// [`Up::EnteredGroup`] or [`Up::Restarted`], in order with keys and pieces of worlds.
    Fence,
    /// Keys and values that were put since the last fence, behind the first rank of the world as four
    /// bytes, big-endian.
    Keys,
    /// Output of this stream: `mpd_stdio::record::Item`s.
    Output(Stream),
    /// Standard input: `mpd_stdio::input::Stdin`.
    Stdin,
    /// A piece of the encoded specification.
    Spec,
    /// The next piece of a program: its number as four bytes, big-endian, and the bytes.
    File,
    /// A piece of what is to be known of a world that is spawned: [`crate::message::WorldPiece`].
    World,
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
            _ => return None,
        })
    }

    /// Its class.
    pub const fn class(self) -> Class {
        match self {
            Self::Control => Class::Control,
            Self::Fence | Self::Keys | Self::World => Class::Collective,
            Self::Output(Stream::Out) => Class::Out,
            Self::Output(Stream::Err) => Class::Err,
            Self::Stdin => Class::In,
            Self::Spec => Class::Spec,
            Self::File => Class::File,
        }
    }
}

/// From a manager to those below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Down {
    /// Pieces of the specification follow, so many bytes in all. First word on every link.
    Spec {
        /// How many.
        bytes: u32,
    },
    /// Programs that there are to have, if the specification says so; answered by [`Up::Lacks`] of those
    /// that lack some.
    Preloads {
        /// Some of them.
        #[serde(deserialize_with = "at_most::<_, _, MAX_PRELOADS>")]
        files: Vec<Preload>,
        /// Whether others follow.
        more: bool,
    },
    /// Everybody is ready: start the ranks.
    Go,
    /// Send the signal to the process group of every rank that lives.
    Signal {
        /// Its number.
        signal: u8,
    },
    /// Send the signal to the process of every rank that lives, and to nobody else of its group.
    SignalProcesses {
        /// Its number.
        signal: u8,
    },
    /// The terminals of ranks have this size from now on; send SIGWINCH as a [`Down::Signal`].
    Resize {
        /// Columns.
        columns: u16,
        /// Lines.
        lines: u16,
    },
    /// Stop every process; answered by [`Up::Stopped`] of the same round.
    Stop {
        /// Counted by the root.
        round: u32,
    },
    /// Let every process continue.
    Continue,
    /// Ranks that were held may speak PMI; those that crashed and are held now die.
    GoOn,
    /// Kill every process; answered by [`Up::Gone`].
    Kill,
    /// Every rank of a world that waits in the fence may go on. Keys came before, in frames of their own.
    Release {
        /// The world's first rank.
        first: Rank,
    },
    /// Every rank of a world that waits in the fence of a group may go on. Keys came before.
    ReleaseGroup {
        /// The world's first rank.
        first: Rank,
        /// Which group.
        group: FenceGroup,
    },
    /// Further hosts join the job, at the places from here on.
    Grow {
        /// The first new place.
        from: u32,
        /// Who they are.
        #[serde(deserialize_with = "at_most::<_, _, MAX_SHARES>")]
        shares: Vec<Share>,
    },
    /// A world is to be started: what is to be known of it came before, in pieces. Those with a part in
    /// it prepare, and answer [`Up::Prepared`].
    World {
        /// Which.
        world: World,
        /// Who runs what of it.
        parts: Parts,
    },
    /// Everybody is prepared: start that world's ranks; answered by [`Up::Begun`].
    GoWorld {
        /// The world's first rank.
        first: Rank,
    },
    /// Kill what runs of a world; every rank of it is told by [`Up::Exited`] as if it had been started.
    EndWorld {
        /// The world's first rank.
        first: Rank,
    },
    /// All ranks of a world have ended.
    Forget {
        /// The world's first rank.
        first: Rank,
    },
    /// What came of a spawn, for the rank that asked for it.
    Spawned {
        /// Who asked.
        spawner: Rank,
        /// What came of it.
        outcome: SpawnOutcome,
    },
    /// Send the signal to the process of that rank.
    Interrupt {
        /// Whom.
        rank: Rank,
        /// Its number.
        signal: u8,
    },
    /// That rank has failed, and the others go on. Those of its world that use PMI are to hear.
    Dead {
        /// Which.
        rank: Rank,
    },
    /// Something for the debuggers of these ranks, if the job is debugged.
    Debug {
        /// Whose.
        ranks: RankSet,
        /// What.
        line: String,
    },
    /// The programs of a job that is debugged have ended and are to be started once more: begin anew what
    /// they share; answered by [`Up::Restarted`].
    Restart,
    /// Write what is left of the output; answered by [`Up::Drained`].
    Drain,
    /// Throw away what is left of the output.
    Discard,
    /// Clean up, answer [`Up::Tidied`], and end.
    Tidy,
    /// So many further bytes of that stream may be sent up.
    OutputCredit {
        /// Which stream.
        stream: Stream,
        /// How many bytes.
        bytes: u32,
    },
    /// I live.
    Pulse,
}

/// From a manager to the one above it. Words that are for the root are passed on by those between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Up {
    /// All that can be checked beforehand is well, here and below.
    Ready,
    /// Send the programs of these numbers, in this order.
    Lacks {
        /// Which.
        #[serde(deserialize_with = "at_most::<_, _, MAX_PRELOADS>")]
        files: Vec<u32>,
    },
    /// A check before the start, or the start of a rank, failed.
    StartFailed {
        /// Where.
        member: DaemonName,
        /// What.
        failure: Failure,
    },
    /// Something that ends the job happened on a host, and not to one of its ranks.
    Failed {
        /// Where.
        member: DaemonName,
        /// What.
        failure: Failure,
    },
    /// Process ids of ranks that were started.
    Pids {
        /// Of each rank.
        #[serde(deserialize_with = "at_most::<_, _, MAX_LISTED>")]
        pids: Vec<(Rank, u32)>,
    },
    /// Every rank here and below was started; their process ids came before.
    Started,
    /// Ranks that ended.
    Exited {
        /// How each did.
        #[serde(deserialize_with = "at_most::<_, _, MAX_LISTED>")]
        ends: Vec<(Rank, RankEnd)>,
    },
    /// Ranks that did PMI init.
    Initialized {
        /// Which.
        ranks: RankSet,
    },
    /// Ranks that did PMI finalize.
    Finalized {
        /// Which.
        ranks: RankSet,
    },
    /// Ranks that entered the fence. What they put came before, in frames of its own.
    Entered {
        /// Which.
        ranks: RankSet,
    },
    /// Ranks of one world that entered the fence of a group. What they put came before.
    EnteredGroup {
        /// Which group.
        group: FenceGroup,
        /// Which ranks.
        ranks: RankSet,
    },
    /// A rank asked for the end of the job.
    Aborted {
        /// Which.
        rank: Rank,
        /// Its code.
        code: i32,
        /// What it said.
        message: String,
    },
    /// A rank's PMI connection cannot be continued.
    BrokeProtocol {
        /// Which.
        rank: Rank,
        /// What it did.
        problem: String,
    },
    /// A rank uses an MPI library that does not speak PMI: to that library it is rank 0 of 1.
    Alone {
        /// Which.
        rank: Rank,
        /// The library's file.
        library: String,
    },
    /// A process of a rank crashed. Its end comes after.
    Crashed {
        /// Whose.
        rank: Rank,
        /// What is known of it.
        crash: Crash,
    },
    /// Something of a world cannot be started on a host.
    WorldFailed {
        /// The world's first rank.
        first: Rank,
        /// Where.
        member: DaemonName,
        /// What.
        failure: Failure,
    },
    /// All of a world that is to run here and below is prepared, or has failed.
    Prepared {
        /// The world's first rank.
        first: Rank,
    },
    /// All of a world that is to run here and below was started, or has failed.
    Begun {
        /// The world's first rank.
        first: Rank,
    },
    /// A rank says that its world and another one of the job share their fate no more, or do again.
    Bond {
        /// Who says so.
        from: Rank,
        /// The number of the other world.
        number: u32,
        /// Whether they do.
        joined: bool,
    },
    /// A rank wants another one signaled.
    Interrupt {
        /// Who wants it.
        from: Rank,
        /// Whom.
        rank: Rank,
        /// The signal's number.
        signal: u8,
    },
    /// All that programs share is as before their first start, here and below.
    Restarted,
    /// Every process here and below is stopped.
    Stopped {
        /// Of the [`Down::Stop`] that asked.
        round: u32,
    },
    /// No process of the job lives here and below.
    Gone,
    /// All output of here and below went up before this.
    Drained,
    /// Nothing of the job is left here and below.
    Tidied,
    /// A manager below is lost, and what was below it.
    Lost {
        /// On which host.
        member: DaemonName,
        /// How that shows.
        problem: String,
    },
    /// Something worth a line to the user.
    Notice {
        /// The line.
        text: String,
    },
    /// What a manager and its ranks did when, if the specification asks for it; before
    /// [`Up::Tidied`]. Times are by the clock of the manager that sends this.
    Trace {
        /// Whose spans these are.
        place: u32,
        /// When the sender heard [`Down::Go`], in microseconds since 1970; 0 if it did not.
        heard_us: u64,
        /// When it sends this.
        told_us: u64,
        /// Some of them.
        #[serde(deserialize_with = "at_most::<_, _, MAX_SPANS>")]
        spans: Vec<Span>,
    },
    /// So many further bytes of standard input may be sent down.
    StdinCredit {
        /// How many.
        bytes: u32,
    },
    /// Nobody here or below reads standard input any more, unless a switch brings somebody back.
    StdinUnwanted {
        /// How many switches I was told of before.
        switches: u32,
    },
    /// I live.
    Pulse,
}

impl Up {
    /// Cuts texts that came from programs or the system to [`MAX_TEXT`] bytes, so that the word fits a
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
        assert_eq!(kinds.len(), 9);
        assert!(kinds.iter().all(|kind| TreeKind::from_code(kind.code()) == Some(*kind)));
    }

    #[test]
    fn control_is_before_fences_and_those_before_output() {
        assert!(TreeKind::Control.class() < TreeKind::Keys.class());
        assert!(TreeKind::Fence.class() < TreeKind::Output(Stream::Err).class());
        assert!(TreeKind::Output(Stream::Err).class() < TreeKind::Output(Stream::Out).class());
    }
}
