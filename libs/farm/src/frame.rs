//! The messages between the farm and its workers. They are in docs/PROTOCOL.md, "Farms".
//!
//! A frame is its length (4 bytes, little endian), a payload of that length, and a newline. The newline makes a frame
//! the end of a line, and the manager of a worker passes lines on at once. The payload is the kind (1 byte) and the fields. A
//! number is a varint of LEB128; bytes come last, without a length. Further bytes behind the numbers are fields of a later
//! release, which are ignored.

use mpd_frame::{Format, Kind, Versions};

use crate::{End, Outcome, TaskId};

pub use mpd_frame::Decoder;

/// The versions of these messages that this release reads.
pub const VERSION: Versions = Versions::only(2);
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
/// Longest varint.
const MAX_VARINT: usize = 10;

/// The two output streams of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A message to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
        bytes: &'a [u8],
    },
    /// A task has ended. All its output came before.
    Ended(TaskId, End),
    /// Tasks that have not begun and that the worker has no longer.
    Returned(Vec<TaskId>),
}

/// The bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMessage {
    /// The message breaks the protocol.
    #[error("not a message of this release: {0}")]
    Malformed(&'static str),
    /// A message of a later release. Its receiver skips it.
    #[error("a message of the unknown kind {0}")]
    Unknown(u8),
}

impl ToWorker<'_> {
    /// Appends the message as a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame(out, |out| match *self {
            Self::Setup { slots, per_task, limit_ms } => {
                out.push(b'S');
                [slots.into(), per_task.into(), limit_ms]
                    .into_iter()
                    .for_each(|number| varint(out, number));
            }
            Self::Task { id, command } => {
                out.push(b'T');
                varint(out, id.0);
                out.extend_from_slice(command);
            }
            Self::TakeBack { count } => {
                out.push(b'B');
                varint(out, count.into());
            }
            Self::Slots { slots } => {
                out.push(b'N');
                varint(out, slots.into());
            }
            Self::Kill => out.push(b'K'),
        });
    }

    /// The message of a payload.
    ///
    /// # Errors
    /// [`InvalidMessage`].
    pub fn decode(payload: &[u8]) -> Result<ToWorker<'_>, InvalidMessage> {
        let (kind, mut rest) = split(payload)?;
        let message = match kind {
            b'S' => ToWorker::Setup {
                slots: small(&mut rest)?,
                per_task: small(&mut rest)?,
                limit_ms: number(&mut rest)?,
            },
            b'T' => {
                let id = TaskId(number(&mut rest)?);
                if rest.len() > MAX_COMMAND {
                    return Err(InvalidMessage::Malformed("a command is too long"));
                }
                return Ok(ToWorker::Task { id, command: rest });
            }
            b'B' => ToWorker::TakeBack { count: small(&mut rest)? },
            b'N' => ToWorker::Slots { slots: small(&mut rest)? },
            b'K' => ToWorker::Kill,
            _ => return Err(InvalidMessage::Unknown(kind)),
        };
        Ok(message)
    }
}

impl ToFarm<'_> {
    /// Appends the message as a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame(out, |out| match self {
            Self::Hello { versions, slots } => {
                let (lowest, highest) = versions.bounds();
                out.push(b'H');
                [highest, *slots].into_iter().for_each(|number| varint(out, number.into()));
                if lowest != highest {
                    varint(out, lowest.into());
                }
            }
            Self::Started(id) => {
                out.push(b'S');
                varint(out, id.0);
            }
            Self::Output { id, stream, bytes } => {
                out.push(if *stream == Stream::Out { b'O' } else { b'E' });
                varint(out, id.0);
                out.extend_from_slice(bytes);
            }
            Self::Ended(id, end) => {
                let (kind, value) = match end.outcome {
                    Outcome::Exited(code) => (b'x', code),
                    Outcome::Killed(signal) => (b'k', signal),
                    Outcome::TimedOut(signal) => (b't', signal),
                };
                out.extend([kind, value]);
                [id.0, end.began, end.took].into_iter().for_each(|number| varint(out, number));
            }
            Self::Returned(ids) => {
                out.push(b'R');
                ids.iter().for_each(|id| varint(out, id.0));
            }
        });
    }

    /// The message of a payload.
    ///
    /// # Errors
    /// [`InvalidMessage`].
    pub fn decode(payload: &[u8]) -> Result<ToFarm<'_>, InvalidMessage> {
        let (kind, mut rest) = split(payload)?;
        let message = match kind {
            b'H' => {
                let (highest, slots) = (small(&mut rest)?, small(&mut rest)?);
                let lowest = if rest.is_empty() { highest } else { small(&mut rest)? };
                let versions = Versions::range(lowest, highest)
                    .ok_or(InvalidMessage::Malformed("the lowest version is above the highest"))?;
                ToFarm::Hello { versions, slots }
            }
            b'S' => ToFarm::Started(TaskId(number(&mut rest)?)),
            b'O' | b'E' => {
                let id = TaskId(number(&mut rest)?);
                if rest.len() > MAX_CHUNK {
                    return Err(InvalidMessage::Malformed("a piece of output is too long"));
                }
                let stream = if kind == b'O' { Stream::Out } else { Stream::Err };
                return Ok(ToFarm::Output { id, stream, bytes: rest });
            }
            b'x' | b'k' | b't' => {
                let (value, behind) = split(rest)?;
                rest = behind;
                let outcome = match kind {
                    b'x' => Outcome::Exited(value),
                    b'k' => Outcome::Killed(value),
                    _ => Outcome::TimedOut(value),
                };
                let id = TaskId(number(&mut rest)?);
                let (began, took) = (number(&mut rest)?, number(&mut rest)?);
                ToFarm::Ended(id, End { outcome, began, took })
            }
            b'R' => {
                let mut ids = Vec::new();
                while !rest.is_empty() {
                    if ids.len() == MAX_RETURNED {
                        return Err(InvalidMessage::Malformed("too many tasks"));
                    }
                    ids.push(TaskId(number(&mut rest)?));
                }
                ToFarm::Returned(ids)
            }
            _ => return Err(InvalidMessage::Unknown(kind)),
        };
        Ok(message)
    }
}

fn frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let written = FORMAT.frame(Kind::Control, out, write);
    assert_eq!(written, Ok(()), "a message is within the bounds of its fields");
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn split(bytes: &[u8]) -> Result<(u8, &[u8]), InvalidMessage> {
    bytes
        .split_first()
        .map(|(first, rest)| (*first, rest))
        .ok_or(InvalidMessage::Malformed("it is too short"))
}

fn number(bytes: &mut &[u8]) -> Result<u64, InvalidMessage> {
    let mut number = 0_u64;
    for place in 0..MAX_VARINT {
        let (byte, rest) = split(bytes)?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * place);
        if shifted >> (7 * place) != bits {
            break;
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(InvalidMessage::Malformed("a number is too large"))
}

fn small(bytes: &mut &[u8]) -> Result<u32, InvalidMessage> {
    u32::try_from(number(bytes)?).map_err(|_| InvalidMessage::Malformed("a number is too large"))
}
