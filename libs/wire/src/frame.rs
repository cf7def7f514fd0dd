//! Bytes to frames and back, on every stream of the suite.
//!
//! A frame is `length u32 | kind u8 | payload`, all numbers big-endian. The length counts the kind
//! and the payload. Control messages are one JSON value; job specifications and stdin travel as raw
//! bytes. The decoder accepts bytes in pieces of any size, and allocates nothing before it has
//! checked the length.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes of a payload. One MiB exceeds every control message, and bulk data needs few frames.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// Payload size of bulk data: a control message never waits for more than this.
pub const BULK_CHUNK: usize = 64 * 1024;

const HEADER: usize = 5;

/// The type of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One JSON value.
    Control,
    /// A piece of an encoded job specification.
    Spec,
    /// A piece of standard input; an empty piece means end of file.
    Stdin,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Control => 0,
            Self::Spec => 1,
            Self::Stdin => 2,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Control),
            1 => Some(Self::Spec),
            2 => Some(Self::Stdin),
            _ => None,
        }
    }
}

/// The bytes are not frames of this protocol. The stream cannot be continued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFrame {
    /// The length is zero, or the payload is longer than [`MAX_PAYLOAD`].
    #[error("frame length {0} is out of bounds")]
    Length(u32),
    /// The kind is unknown.
    #[error("unknown frame kind {0}")]
    Kind(u8),
    /// The payload of a control frame is not the expected message.
    #[error("malformed message: {0}")]
    Message(String),
}

/// Appends one frame to `out`. The caller ensures that the payload fits [`MAX_PAYLOAD`].
pub fn encode(kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
    assert!(payload.len() <= MAX_PAYLOAD, "payload of {} bytes", payload.len());
    let length = u32::try_from(payload.len() + 1).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.push(kind.code());
    out.extend_from_slice(payload);
}

/// Appends a control frame holding `message`.
pub fn encode_message(message: &impl Serialize, out: &mut Vec<u8>) {
    // Serialising our own enums into memory cannot fail: no map with non-string keys, no I/O.
    let json = serde_json::to_vec(message).expect("message serialises");
    encode(Kind::Control, &json, out);
}

/// Appends a control frame holding `message`, if the message fits a frame.
///
/// # Errors
/// [`InvalidFrame::Length`]; `out` is unchanged.
pub fn try_encode_message(message: &impl Serialize, out: &mut Vec<u8>) -> Result<(), InvalidFrame> {
    let json = serde_json::to_vec(message).expect("message serialises");
    if json.len() > MAX_PAYLOAD {
        return Err(InvalidFrame::Length(u32::try_from(json.len()).unwrap_or(u32::MAX)));
    }
    encode(Kind::Control, &json, out);
    Ok(())
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
/// The payload is not JSON, not this message, or has unknown fields.
pub fn decode_message<M: DeserializeOwned>(payload: &[u8]) -> Result<M, InvalidFrame> {
    serde_json::from_slice(payload).map_err(|e| InvalidFrame::Message(e.to_string()))
}

/// Collects bytes and returns whole frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
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
    pub fn next_frame(&mut self) -> Result<Option<(Kind, &[u8])>, InvalidFrame> {
        let waiting = &self.buffer[self.start..];
        let Some(head) = waiting.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head);
        if length == 0 || length as usize > MAX_PAYLOAD + 1 {
            return Err(InvalidFrame::Length(length));
        }
        let Some(&code) = waiting.get(4) else { return Ok(None) };
        let kind = Kind::from_code(code).ok_or(InvalidFrame::Kind(code))?;
        let end = self.start + 4 + length as usize;
        if self.buffer.len() < end {
            return Ok(None);
        }
        let payload = self.start + HEADER..end;
        self.start = end;
        Ok(Some((kind, &self.buffer[payload])))
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

    fn drain(decoder: &mut Decoder) -> Result<Vec<(Kind, Vec<u8>)>, InvalidFrame> {
        let mut frames = Vec::new();
        while let Some((kind, payload)) = decoder.next_frame()? {
            frames.push((kind, payload.to_vec()));
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
        let mut decoder = Decoder::default();
        decoder.push(&[0, 0, 0, 2, 9]);
        assert_eq!(decoder.next_frame(), Err(InvalidFrame::Kind(9)));
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
