//! The messages between the farm and its workers. They are in docs/PROTOCOL.md, "Farms".
//!
//! A frame is its length (4 bytes, little endian), a payload of that length, and a newline. The newline makes a frame
//! the end of a line, and the manager of a worker passes lines on at once. The payload has the compact encoding.

use mpd_frame::{Format, InvalidFrame, Kind, Versions, compact};
use serde::{Deserialize, Serialize, Serializer};

use crate::{End, TaskId};

pub use mpd_frame::Decoder;

/// The versions of these messages that this release reads.
pub const VERSION: Versions = Versions::only(3);
/// Longest command of a task. The system takes no longer argument.
pub const MAX_COMMAND: usize = 128 * 1024 - 1;
/// Most bytes of output in one message.
pub const MAX_CHUNK: usize = 64 * 1024;
/// Most tasks that one message returns.
pub const MAX_RETURNED: usize = 1024;
/// Longest payload.
const MAX_PAYLOAD: usize = MAX_COMMAND + 64;
/// The frames of both directions.
pub const FORMAT: Format = Format::lines(MAX_PAYLOAD);

/// The two output streams of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A message to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker<'a> {
    /// The first message.
    Setup {
        /// The slots of the host; 0: as many as CPUs that the worker may use.
        slots: u32,
        /// The slots of each task.
        per_task: u32,
        /// The time limit of each task in milliseconds; 0: none.
        limit_ms: u64,
    },
    /// Run a task behind the earlier ones.
    Task {
        /// Its number.
        id: TaskId,
        /// Its command line.
        #[serde(serialize_with = "as_bytes")]
        command: &'a [u8],
    },
    /// Return up to so many tasks that have not begun, the last ones first. The answer is [`ToFarm::Returned`].
    TakeBack {
        /// How many.
        count: u32,
    },
    /// The host has so many slots for tasks from now on. What runs continues.
    Slots {
        /// How many.
        slots: u32,
    },
    /// End all running tasks.
    Kill,
}

/// A message of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToFarm<'a> {
    /// The answer to [`ToWorker::Setup`].
    Hello {
        /// [`VERSION`] of the worker.
        versions: Versions,
        slots: u32,
    },
    /// A task begins.
    Started(TaskId),
    /// Output of a task.
    Output {
        id: TaskId,
        stream: Stream,
        /// At most [`MAX_CHUNK`] bytes.
        #[serde(serialize_with = "as_bytes")]
        bytes: &'a [u8],
    },
    /// A task has ended. All its output came before.
    Ended(TaskId, End),
    /// Tasks that have not begun and that the worker has no longer.
    Returned(Vec<TaskId>),
}

/// Without it, serde would write a list of numbers.
fn as_bytes<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl<'a> ToWorker<'a> {
    /// Appends the message as a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame(out, self);
    }

    /// The message of a payload.
    ///
    /// # Errors
    /// [`InvalidFrame::Unknown`] for a message of a later release, which its receiver skips.
    pub fn decode(payload: &'a [u8]) -> Result<Self, InvalidFrame> {
        match compact::decode_message(payload)? {
            Self::Task { command, .. } if command.len() > MAX_COMMAND => {
                Err(InvalidFrame::Message("a command is too long".to_owned()))
            }
            message => Ok(message),
        }
    }
}

impl<'a> ToFarm<'a> {
    /// Appends the message as a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame(out, self);
    }

    /// The message of a payload.
    ///
    /// # Errors
    /// As for [`ToWorker::decode`].
    pub fn decode(payload: &'a [u8]) -> Result<Self, InvalidFrame> {
        match compact::decode_message(payload)? {
            Self::Output { bytes, .. } if bytes.len() > MAX_CHUNK => {
                Err(InvalidFrame::Message("a piece of output is too long".to_owned()))
            }
            Self::Returned(ids) if ids.len() > MAX_RETURNED => {
                Err(InvalidFrame::Message("too many tasks".to_owned()))
            }
            message => Ok(message),
        }
    }
}

fn frame(out: &mut Vec<u8>, message: &impl Serialize) {
    let payload = compact::to_vec(message);
    let written = FORMAT.frame(Kind::Control, out, |out| out.extend_from_slice(&payload));
    assert_eq!(written, Ok(()), "a message is within the bounds of its fields");
}
