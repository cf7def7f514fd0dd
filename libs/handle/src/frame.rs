//! Frames: the length in 4 bytes, little endian, and a message as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message.
pub const MAX_FRAME: usize = 16 << 20;

/// The bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message of this release: {0}")]
pub struct InvalidFrame(String);

/// The message as a frame; `None` if it is too long.
pub fn encode(message: &impl Serialize) -> Option<Vec<u8>> {
    // Our own types serialise: they have no maps with other keys than text.
    let payload = serde_json::to_vec(message).expect("a message serialises");
    let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= MAX_FRAME)?;
    Some([&length.to_le_bytes()[..], &payload].concat())
}

/// Bytes that have arrived.
#[derive(Debug, Default)]
pub struct Frames(Vec<u8>);

impl Frames {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next message, if all of it has arrived.
    ///
    /// # Errors
    /// [`InvalidFrame`].
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, InvalidFrame> {
        let Some((length, rest)) = self.0.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_FRAME {
            return Err(InvalidFrame("it is too long".to_owned()));
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(payload).map_err(|e| InvalidFrame(e.to_string()))?;
        self.0.drain(..4 + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use crate::{End, RequestId, ToProgram};

    use super::*;

    #[test]
    fn messages_arrive_in_any_pieces_and_other_bytes_are_refused() {
        let all = [
            ToProgram::Started(RequestId(7)),
            ToProgram::Ended(RequestId(7), End::Signaled(9)),
            ToProgram::Refused { first: RequestId(1), count: 1, why: "ü".to_owned() },
        ];
        let bytes: Vec<u8> = all.iter().flat_map(|message| encode(message).unwrap()).collect();
        let mut frames = Frames::default();
        let mut found: Vec<ToProgram> = Vec::new();
        for byte in bytes {
            frames.push(&[byte]);
            found.extend(frames.message().unwrap());
        }
        assert_eq!(found, all);
        for bad in [&[2, 0, 0, 0, b'{', b'}'][..], &[255, 255, 255, 255]] {
            let mut frames = Frames::default();
            frames.push(bad);
            assert!(frames.message::<ToProgram>().is_err());
        }
        assert_eq!(encode(&"x".repeat(MAX_FRAME)), None);
    }
}
