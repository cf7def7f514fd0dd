//! Bytes to frames and back, on every stream of the suite.
//!
//! [`Format`] is the outline of frames. On most streams a frame is `length u32 | kind u8 | payload`, all numbers
//! big-endian. The length counts the kind and the payload. The upper half of the kind is the number of descriptors that are passed with the
//! frame. Control messages are one JSON value; job specifications and stdin travel as raw bytes. Links between hosts have
//! the [`compact`] encoding instead of JSON. The decoder accepts bytes in pieces of any size, and allocates nothing before it has checked the length.
//!
//! A later release has further kinds of frames and messages, and further fields. Unknown fields are
//! ignored. A message of an unknown kind is [`InvalidFrame::Unknown`], and the stream continues behind it. An
//! unknown part of a known message is an error.
//! Both sides of a stream state their [`Versions`] first.
//!
//! **Users.** `mpd-wire`, whose messages travel in these frames, and the crates of other streams.
//!
//! **Must not know.** Messages, sockets and descriptors.
#![forbid(unsafe_code)]

pub mod compact;
mod format;
mod kind;
mod versions;

pub use format::Format;
use format::Parts;
pub use versions::Versions;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Most bytes of a payload. One MiB exceeds every control message, and bulk data needs few frames.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// Payload size of bulk data: a control message never waits for more than this.
pub const BULK_CHUNK: usize = 64 * 1024;

const HEADER: usize = 5;

/// The bits of the kind. The bits above them are the number of descriptors.
const KIND_BITS: u32 = 4;

/// Most characters of an unknown kind that an error shows.
const MAX_SHOWN: usize = 64;

/// Most characters of the reason why a message is malformed. It may quote the message.
const MAX_REASON: usize = 300;

/// The type of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One JSON value.
    Control,
    /// A piece of an encoded job specification.
    Spec,
    /// A piece of standard input; an empty piece means end of file.
    Stdin,
    /// A kind of a later release, below 16.
    Unknown(u8),
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Control => 0,
            Self::Spec => 1,
            Self::Stdin => 2,
            Self::Unknown(code) => code,
        }
    }

    /// The kind of this byte of a frame, and the number of its descriptors.
    fn split(code: u8) -> (Self, usize) {
        (Self::from_code(code & ((1 << KIND_BITS) - 1)), usize::from(code >> KIND_BITS))
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Control,
            1 => Self::Spec,
            2 => Self::Stdin,
            code => Self::Unknown(code),
        }
    }
}

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The type of its payload.
    pub kind: Kind,
    /// The number of descriptors that were passed with it.
    pub descriptors: usize,
    pub payload: &'a [u8],
}

/// The bytes are not frames of this protocol, or the message is not the expected one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFrame {
    /// The length is too small, or the payload is longer than its [`Format`] allows. The stream cannot be continued.
    #[error("frame length {0} is out of bounds")]
    Length(u32),
    /// The newline behind the payload is missing. The stream cannot be continued.
    #[error("a frame has no end")]
    End,
    /// The payload of a control frame is not the expected message.
    #[error("malformed message: {0}")]
    Message(String),
    /// A message of a kind that this release does not know. Its receiver refuses or skips it, and the stream continues.
    #[error("a message of a kind that is unknown here: {0}")]
    Unknown(String),
    /// A message of a known kind with a part that this release does not know. It is not skipped: its receiver needs the
    /// rest of it, or the sender waits for an answer.
    #[error("a message with a part of a kind that is unknown here: {0}")]
    UnknownPart(String),
}

/// Why a payload of that kind is not the message `M`: `text` is the error of serde.
fn invalid<'de, M: Deserialize<'de>>(
    text: &str,
    outer: impl FnOnce() -> Option<String>,
) -> InvalidFrame {
    let Some(kind) = unknown_in(text) else {
        return InvalidFrame::Message(shown(text, MAX_REASON));
    };
    // A known kind without its content is another error.
    let is_known = |outer: String| match M::deserialize(serde_json::Value::from(outer)) {
        Ok(_) => true,
        Err(error) => unknown_in(&error.to_string()).is_none(),
    };
    if outer().is_some_and(is_known) {
        InvalidFrame::UnknownPart(shown(kind, MAX_SHOWN))
    } else {
        InvalidFrame::Unknown(shown(kind, MAX_SHOWN))
    }
}

/// The kind that an error of serde calls unknown. The text alone marks this error; a test holds it for each enum of
/// messages.
fn unknown_in(error: &str) -> Option<&str> {
    Some(error.strip_prefix("unknown variant `")?.split_once('`')?.0)
}

/// The beginning of a foreign text, for people.
fn shown(text: &str, most: usize) -> String {
    text.chars().take(most).flat_map(char::escape_default).collect()
}

/// The messages of one connection that were skipped because their kinds are unknown here.
#[derive(Debug, Default)]
pub struct Skipped(u32);

/// Most lines of the log about skipped messages of a connection.
const MAX_SKIPPED_LOGGED: u32 = 4;

impl Skipped {
    /// Counts a message. Returns a line for the log, for the first ones.
    pub fn count(&mut self, kind: &str) -> Option<String> {
        if self.0 == MAX_SKIPPED_LOGGED {
            return None;
        }
        self.0 += 1;
        let last = if self.0 == MAX_SKIPPED_LOGGED { "; further ones are not logged" } else { "" };
        Some(format!("skipped a message of a kind that is unknown here: {kind}{last}"))
    }
}

/// Appends one frame to `out`. The caller ensures that the payload fits [`MAX_PAYLOAD`].
pub fn encode(kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
    let written = Format::STREAM.frame(kind, out, |out| out.extend_from_slice(payload));
    assert_eq!(written, Ok(()), "payload of {} bytes", payload.len());
}

/// Writes into the first of `frames` that this number of descriptors, below 16, is passed with it.
pub fn announce(frames: &mut [u8], descriptors: usize) {
    let count = u8::try_from(descriptors).ok().filter(|&count| count >> KIND_BITS == 0);
    let count = count.expect("fewer descriptors than the header can count");
    frames[HEADER - 1] |= count << KIND_BITS;
}

/// Appends a control frame holding `message`. The caller ensures that it fits [`MAX_PAYLOAD`].
pub fn encode_message(message: &impl Serialize, out: &mut Vec<u8>) {
    let written = try_encode_message(message, out);
    assert_eq!(written, Ok(()), "a message too long for a frame");
}

/// Appends a control frame holding `message`, if the message fits a frame.
///
/// # Errors
/// [`InvalidFrame::Length`]; `out` is unchanged.
pub fn try_encode_message(message: &impl Serialize, out: &mut Vec<u8>) -> Result<(), InvalidFrame> {
    Format::STREAM.message(message, out)
}

/// Appends `bytes` as frames of `kind`, cut in pieces of [`BULK_CHUNK`].
pub fn encode_bulk(kind: Kind, bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(BULK_CHUNK) {
        encode(kind, chunk, out);
    }
}

/// Reads the message in a control payload.
///
/// # Errors
/// The payload is not JSON or not this message. [`InvalidFrame::Unknown`] if only its kind is unknown.
pub fn decode_message<M: DeserializeOwned>(payload: &[u8]) -> Result<M, InvalidFrame> {
    serde_json::from_slice(payload).map_err(|error| {
        let outer = || kind::of(&mut serde_json::Deserializer::from_slice(payload));
        invalid::<M>(&error.to_string(), outer)
    })
}

/// Collects bytes and returns whole frames.
#[derive(Debug)]
pub struct Decoder {
    format: Format,
    buffer: Vec<u8>,
    start: usize,
}

/// For [`Format::STREAM`].
impl Default for Decoder {
    fn default() -> Self {
        Self::new(Format::STREAM)
    }
}

impl Decoder {
    /// A decoder of frames of this format.
    pub const fn new(format: Format) -> Self {
        Self { format, buffer: Vec::new(), start: 0 }
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        } else if self.start > BULK_CHUNK {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`InvalidFrame`]; every later call returns the same error.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, InvalidFrame> {
        let waiting = &self.buffer[self.start..];
        let Some(length) = waiting.first_chunk() else { return Ok(None) };
        let Parts { payload, end, next } = self.format.parts(*length)?;
        let Some(frame) = waiting.get(..next) else { return Ok(None) };
        let (kind, descriptors) = self.format.kind(&frame[..payload], &frame[end..])?;
        self.start += next;
        Ok(Some(Frame { kind, descriptors, payload: &frame[payload..end] }))
    }

    /// Whether the decoder holds bytes of an unfinished frame.
    pub fn is_partial(&self) -> bool {
        self.start < self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Sample {
        Signal { signal: u8 },
        Inner(Box<Self>),
    }

    fn drain(decoder: &mut Decoder) -> Result<Vec<(Kind, Vec<u8>)>, InvalidFrame> {
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next_frame()? {
            frames.push((frame.kind, frame.payload.to_vec()));
        }
        Ok(frames)
    }

    #[test]
    fn a_length_out_of_bounds_is_refused_before_its_bytes_arrive() {
        let mut decoder = Decoder::default();
        decoder.push(&[0xff; 4]);
        assert_eq!(decoder.next_frame(), Err(InvalidFrame::Length(u32::MAX)));
        let mut decoder = Decoder::default();
        decoder.push(&[0; 4]);
        assert_eq!(decoder.next_frame(), Err(InvalidFrame::Length(0)));
    }

    #[test]
    fn each_format_has_its_outline_and_its_bound() {
        for (format, bytes) in [
            (Format::STREAM, &[0, 0, 0, 3, 0, b'4', b'2'][..]),
            (Format::plain(2), &[2, 0, 0, 0, b'4', b'2']),
            (Format::lines(2), &[2, 0, 0, 0, b'4', b'2', b'\n']),
        ] {
            let mut out = vec![7];
            format.message(&42, &mut out).unwrap();
            assert_eq!(out[1..], *bytes);
            let mut decoder = Decoder::new(format);
            for byte in bytes {
                assert_eq!(decoder.next_frame(), Ok(None));
                decoder.push(&[*byte]);
            }
            assert_eq!(decoder.next_frame().unwrap().unwrap().payload, b"42");
        }
        let mut out = vec![7];
        assert_eq!(Format::plain(2).message(&421, &mut out), Err(InvalidFrame::Length(3)));
        assert_eq!(out, [7]);
        let mut decoder = Decoder::new(Format::lines(2));
        decoder.push(&[3, 0, 0, 0]);
        assert_eq!(decoder.next_frame(), Err(InvalidFrame::Length(3)));
        let mut decoder = Decoder::new(Format::lines(2));
        decoder.push(&[1, 0, 0, 0, b'4', b'2']);
        assert_eq!(decoder.next_frame(), Err(InvalidFrame::End));
    }

    #[test]
    fn a_frame_of_an_unknown_kind_ends_at_its_length_and_says_how_many_descriptors_it_has() {
        let mut bytes = Vec::new();
        encode(Kind::Unknown(9), b"later", &mut bytes);
        announce(&mut bytes, 3);
        encode(Kind::Control, b"1", &mut bytes);
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        let later = Frame { kind: Kind::Unknown(9), descriptors: 3, payload: b"later" };
        assert_eq!(decoder.next_frame(), Ok(Some(later)));
        let known = Frame { kind: Kind::Control, descriptors: 0, payload: b"1" };
        assert_eq!(decoder.next_frame(), Ok(Some(known)));
    }

    #[test]
    fn skipped_messages_of_a_connection_make_a_few_lines() {
        let mut skipped = Skipped::default();
        let lines: Vec<String> = (0..1000).filter_map(|_| skipped.count("later")).collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[3].ends_with("unknown here: later; further ones are not logged"));
    }

    #[test]
    fn an_unknown_kind_is_another_error_than_a_malformed_message() {
        let unknown = |kind: &str| InvalidFrame::Unknown(kind.to_owned());
        let later = decode_message::<Sample>(b"{\"later\":{\"signal\":1}}");
        assert_eq!(later, Err(unknown("later")));
        assert_eq!(decode_message::<Sample>(b"\"later\""), Err(unknown("later")));
        let inner = br#"{"inner":{"later":{}}}"#;
        let part = |kind: &str| InvalidFrame::UnknownPart(kind.to_owned());
        assert_eq!(decode_message::<Sample>(inner), Err(part("later")));
        let named_alike = br#"{"inner":{"inner":{"signals":1}}}"#;
        assert_eq!(decode_message::<Sample>(named_alike), Err(part("signals")));
        let more = br#"{"signal":{"signal":1,"later":2}}"#;
        assert_eq!(decode_message(more), Ok(Sample::Signal { signal: 1 }));
        let long = format!("\"{}\\u0007\"", "x".repeat(1000));
        assert_eq!(decode_message::<Sample>(long.as_bytes()), Err(unknown(&"x".repeat(64))));
        let malformed = decode_message::<Sample>(b"{\"signal\":{}}");
        assert!(matches!(malformed, Err(InvalidFrame::Message(_))), "{malformed:?}");
    }

    proptest! {
        #[test]
        fn every_chunking_gives_the_same_frames(
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
            cut in 1usize..50,
        ) {
            let kinds = [Kind::Control, Kind::Spec, Kind::Stdin];
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (i, payload) in payloads.iter().enumerate() {
                encode(kinds[i % 3], payload, &mut bytes);
                expected.push((kinds[i % 3], payload.clone()));
            }
            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for chunk in bytes.chunks(cut) {
                decoder.push(chunk);
                got.extend(drain(&mut decoder).unwrap());
            }
            prop_assert_eq!(got, expected);
            prop_assert!(!decoder.is_partial());
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            let _ = drain(&mut decoder);
        }
    }
}
