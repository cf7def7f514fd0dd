//! The frames of a link between two root managers, and the messages in them.
//!
//! A frame is `u8` version (2), `u8` flags, `u64` position of its first byte in the stream, `u64` bytes received of the
//! other stream, and bytes of the stream. The stream is messages, each a `u32` length and the compact encoding. A frame that reports a
//! failed job has a [`Cause`] instead of bytes of the stream.

use mpd_wire::frame::compact;
use mpd_wire::message::{MAX_PASSED, Payload};
use serde::{Deserialize, Serialize};

/// Bytes of the stream in one frame.
pub(super) const MAX_BYTES: usize = MAX_PASSED - HEAD;
/// Most bytes of one message.
pub(super) const MAX_MESSAGE: usize = 8 * 1024 * 1024;

const HEAD: usize = 18;
const VERSION: u8 = 2;

/// The receiver does not know this stream: the link is over.
pub(super) const RESET: u8 = 1;
/// The job of the sender ends.
pub(super) const BYE: u8 = 2;
/// It ends because of a failure.
pub(super) const FAILED: u8 = 4;
/// It is connected to the receiver's job.
pub(super) const CONNECTED: u8 = 8;

/// Most bytes of the text of a cause.
const MAX_CAUSE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) flags: u8,
    pub(super) position: u64,
    pub(super) received: u64,
    pub(super) bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A frame without bytes of the stream.
    pub(super) const fn bare(flags: u8) -> Self {
        Self { flags, position: 0, received: 0, bytes: &[] }
    }

    pub(super) fn write(&self) -> Payload {
        let mut frame = Vec::with_capacity(HEAD + self.bytes.len());
        frame.extend_from_slice(&[VERSION, self.flags]);
        frame.extend_from_slice(&self.position.to_be_bytes());
        frame.extend_from_slice(&self.received.to_be_bytes());
        frame.extend_from_slice(self.bytes);
        Payload::from(frame.as_slice())
    }

    pub(super) fn read(frame: &'a [u8]) -> Option<Self> {
        let ([VERSION, flags], rest) = frame.split_first_chunk::<2>()? else { return None };
        let (position, rest) = rest.split_first_chunk::<8>()?;
        let (received, bytes) = rest.split_first_chunk::<8>()?;
        let (position, received) = (u64::from_be_bytes(*position), u64::from_be_bytes(*received));
        (bytes.len() <= MAX_BYTES).then_some(Self { flags: *flags, position, received, bytes })
    }
}

/// Why a job has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its exit code.
    pub code: u8,
    /// Its failure; a text for people.
    pub text: String,
}

impl Cause {
    /// The exit code, and a bounded part of the text.
    pub(super) fn write(&self) -> Vec<u8> {
        let end = self.text.floor_char_boundary(MAX_CAUSE);
        [&[self.code], &self.text.as_bytes()[..end]].concat()
    }

    /// The cause in a frame. A frame without a cause reports an unknown failure.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let (code, text) = bytes.split_first().unwrap_or((&UNKNOWN_CODE, b"unknown"));
        let text = &text[..text.len().min(MAX_CAUSE)];
        Self { code: *code, text: String::from_utf8_lossy(text).into_owned() }
    }

    /// The end of a job without a report.
    pub(super) fn unreported(text: &str) -> Self {
        Self { code: UNKNOWN_CODE, text: text.to_owned() }
    }
}

/// The exit code of a job whose end is unknown.
const UNKNOWN_CODE: u8 = mpd_wire::job::exit::SUITE;

/// What the members of one job are to the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// The secret part of the namespaces of the job.
    pub secret: String,
    /// Whether all its members live.
    pub is_whole: bool,
    /// The description of its worlds. Opaque here.
    pub info: Payload,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// To the coordinator: the members of the sender's job have arrived.
    Arrived { key: String, attempt: u32, party: Party },
    /// From the coordinator: the members of all jobs have arrived.
    Complete { key: String, attempt: u32, parties: Vec<Party> },
    /// To the coordinator: the members of the sender's job wait no longer.
    Withdrawn { key: String, attempt: u32 },
    /// For the owner.
    Told(Payload),
}

impl Message {
    /// The message as bytes of the stream.
    pub(super) fn write(&self) -> Vec<u8> {
        let message = compact::to_vec(self);
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        [&length.to_be_bytes()[..], &message].concat()
    }

    /// Takes the first message of the stream, if it is complete.
    ///
    /// # Errors
    /// It is malformed or too long.
    pub(super) fn take(stream: &mut Vec<u8>) -> Result<Option<Self>, Malformed> {
        let Some((length, rest)) = stream.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_MESSAGE {
            return Err(Malformed);
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let message = compact::from_slice(message).map_err(|_| Malformed)?;
        stream.drain(..4 + length);
        Ok(Some(message))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_as_it_was_written_and_its_cuts_do_not() {
        let frame = Frame { flags: 2, position: 1 << 40, received: 7, bytes: b"abc" };
        let payload = frame.write();
        assert_eq!(Frame::read(payload.as_bytes()), Some(frame));
        for length in 0..HEAD {
            assert_eq!(Frame::read(&payload.as_bytes()[..length]), None);
        }
        assert_eq!(Frame::read(&[1; 40]), None);
        assert_eq!(Frame::read(&[2; MAX_PASSED + 1]), None);
    }

    #[test]
    fn a_cause_reads_as_it_was_written_and_is_bounded() {
        let cause = |text: &str| Cause { code: 7, text: text.to_owned() };
        assert_eq!(Cause::read(&cause("rank 1: exited").write()), cause("rank 1: exited"));
        let long = "é".repeat(MAX_CAUSE);
        assert_eq!(Cause::read(&cause(&long).write()), cause(&long[..MAX_CAUSE]));
        assert_eq!(Cause::read(&[7, 0xff]), cause("\u{fffd}"));
        assert_eq!(Cause::read(&[]).code, 125);
    }

    #[test]
    fn messages_are_taken_from_the_stream_when_they_are_complete() {
        let told = Message::Told(Payload::from(&b"x"[..]));
        let withdrawn = Message::Withdrawn { key: "k".into(), attempt: 3 };
        let whole = [told.write(), withdrawn.write()].concat();
        let mut stream = Vec::new();
        let mut taken = Vec::new();
        for byte in whole {
            stream.push(byte);
            taken.extend(Message::take(&mut stream).unwrap());
        }
        assert_eq!((taken, stream.len()), (vec![told, withdrawn], 0));
        assert_eq!(Message::take(&mut vec![0xff; 5]), Err(Malformed));
        assert_eq!(Message::take(&mut vec![0, 0, 0, 1, b'{']), Err(Malformed));
    }
}
