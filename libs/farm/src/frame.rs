//! The messages between the farm and its workers. They are in docs/PROTOCOL.md, "Farms".
//!
//! A frame is its length (4 bytes, little endian), a payload of that length, and a newline. The newline makes a frame
//! the end of a line, and the manager of a worker passes lines on at once. The payload is the kind (1 byte) and the fields. A
//! number is a varint of LEB128; bytes come last, without a length.

use crate::{End, Outcome, TaskId};

/// The version of these messages. Both sides must have the same one.
pub const VERSION: u64 = 2;
/// Longest command of a task. The system takes no longer argument.
pub const MAX_COMMAND: usize = 128 * 1024 - 1;
/// Most bytes of output in one message.
pub const MAX_CHUNK: usize = 64 * 1024;
/// Most tasks that one message returns.
pub const MAX_RETURNED: usize = 1024;
/// Longest payload.
const MAX_PAYLOAD: usize = MAX_COMMAND + 64;
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
        version: u64,
        /// Its slots.
        slots: u32,
    },
    /// A task begins.
    Started(TaskId),
    /// Output of a task.
    Output {
        /// The task.
        id: TaskId,
        /// Which of its streams.
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
#[error("not a message of this release: {0}")]
pub struct InvalidFrame(&'static str);

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
    /// [`InvalidFrame`].
    pub fn decode(payload: &[u8]) -> Result<ToWorker<'_>, InvalidFrame> {
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
                    return Err(InvalidFrame("a command is too long"));
                }
                return Ok(ToWorker::Task { id, command: rest });
            }
            b'B' => ToWorker::TakeBack { count: small(&mut rest)? },
            b'N' => ToWorker::Slots { slots: small(&mut rest)? },
            b'K' => ToWorker::Kill,
            _ => return Err(InvalidFrame("an unknown kind")),
        };
        end(rest, message)
    }
}

impl ToFarm<'_> {
    /// Appends the message as a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame(out, |out| match self {
            Self::Hello { version, slots } => {
                out.push(b'H');
                [*version, (*slots).into()].into_iter().for_each(|number| varint(out, number));
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
    /// [`InvalidFrame`].
    pub fn decode(payload: &[u8]) -> Result<ToFarm<'_>, InvalidFrame> {
        let (kind, mut rest) = split(payload)?;
        let message = match kind {
            b'H' => ToFarm::Hello { version: number(&mut rest)?, slots: small(&mut rest)? },
            b'S' => ToFarm::Started(TaskId(number(&mut rest)?)),
            b'O' | b'E' => {
                let id = TaskId(number(&mut rest)?);
                if rest.len() > MAX_CHUNK {
                    return Err(InvalidFrame("a piece of output is too long"));
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
                        return Err(InvalidFrame("too many tasks"));
                    }
                    ids.push(TaskId(number(&mut rest)?));
                }
                ToFarm::Returned(ids)
            }
            _ => return Err(InvalidFrame("an unknown kind")),
        };
        end(rest, message)
    }
}

/// Bytes of a stream of frames, in pieces as they arrive.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Where the next frame begins.
    at: usize,
}

impl Frames {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The payload of the next frame, if it is complete.
    ///
    /// # Errors
    /// [`InvalidFrame`]; the stream cannot be used any more.
    pub fn next_payload(&mut self) -> Result<Option<&[u8]>, InvalidFrame> {
        let Some((head, rest)) = self.bytes[self.at..].split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        if length > MAX_PAYLOAD {
            return Err(InvalidFrame("a frame is too long"));
        }
        match rest.get(length) {
            None => Ok(None),
            Some(b'\n') => {
                let begin = self.at + head.len();
                self.at = begin + length + 1;
                Ok(Some(&self.bytes[begin..begin + length]))
            }
            Some(_) => Err(InvalidFrame("a frame has no end")),
        }
    }
}

fn frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let head = out.len();
    out.extend([0; 4]);
    write(out);
    let length = u32::try_from(out.len() - head - 4).unwrap_or(u32::MAX);
    out[head..head + 4].copy_from_slice(&length.to_le_bytes());
    out.push(b'\n');
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn split(bytes: &[u8]) -> Result<(u8, &[u8]), InvalidFrame> {
    bytes.split_first().map(|(first, rest)| (*first, rest)).ok_or(InvalidFrame("it is too short"))
}

fn number(bytes: &mut &[u8]) -> Result<u64, InvalidFrame> {
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
    Err(InvalidFrame("a number is too large"))
}

fn small(bytes: &mut &[u8]) -> Result<u32, InvalidFrame> {
    u32::try_from(number(bytes)?).map_err(|_| InvalidFrame("a number is too large"))
}

fn end<M>(rest: &[u8], message: M) -> Result<M, InvalidFrame> {
    if rest.is_empty() { Ok(message) } else { Err(InvalidFrame("bytes follow it")) }
}
