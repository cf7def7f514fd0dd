//! Frames of an open channel: encrypted, counted, and ended by a final frame.
//!
//! A frame is `length u32 | ciphertext | tag[16]`, AES-256-GCM. The length counts the ciphertext
//! and is authenticated. The nonce is the number of the frame in its direction and is not sent. So
//! a left out, repeated or moved frame is detected. A frame of length 0 is "bye": a stream that
//! ends without it was cut. The content of frames is unknown here. Any failure is final.

use std::fmt;

use crypto::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::schedule::{Secret, next_key};

/// Most bytes in one frame.
pub const MAX_FRAME: usize = 1 << 20;

/// The number of bytes that a frame adds to its content.
pub const OVERHEAD: usize = HEADER + TAG;

/// Frames under one key. GCM is safe for 2^24.5 frames of full size; this is far below. A new key
/// takes a microsecond.
pub const REKEY_AFTER: u64 = 1 << 20;

/// Seals frames of one direction.
pub struct Sealer(Direction);

impl Sealer {
    pub(super) fn new(key: Secret) -> Self {
        Self(Direction::new(key))
    }

    /// Appends to `out` one frame that holds the concatenated `parts`. The caller ensures that they
    /// have at least one byte and at most [`MAX_FRAME`].
    ///
    /// # Errors
    /// [`Exhausted`], after 2^63 frames.
    pub fn seal(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), Exhausted> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        assert!((1..=MAX_FRAME).contains(&length), "frame of {length} bytes");
        if self.0.count >= MAX_FRAMES {
            return Err(Exhausted);
        }
        self.append(length, parts, out);
        Ok(())
    }

    /// Appends the last frame to `out`.
    pub fn bye(mut self, out: &mut Vec<u8>) {
        self.append(0, &[], out);
    }

    fn append(&mut self, length: usize, parts: &[&[u8]], out: &mut Vec<u8>) {
        let header = u32::try_from(length).expect("a frame is at most 1 MiB").to_be_bytes();
        out.reserve(length + OVERHEAD);
        out.extend_from_slice(&header);
        let from = out.len();
        for part in parts {
            out.extend_from_slice(part);
        }
        let nonce = self.0.next_nonce();
        let tag = (self.0.key)
            .seal_in_place_separate_tag(nonce, Aad::from(header), &mut out[from..])
            .expect("AES-GCM seals 1 MiB");
        out.extend_from_slice(tag.as_ref());
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({} frames)", self.0.count)
    }
}

/// The direction has sealed the maximum number of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the channel is used up")]
pub struct Exhausted;

/// The frames are invalid because of the peer or an attacker in between. The owner closes the
/// connection without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The length is greater than [`MAX_FRAME`].
    #[error("frame length {0} is out of bounds")]
    Length(u32),
    /// The frame is not the next one that the peer sealed.
    #[error("a frame was changed, left out or repeated")]
    Forged,
    /// Bytes follow the last frame.
    #[error("bytes after the end of the channel")]
    AfterBye,
    /// The stream ended without the last frame.
    #[error("the connection was cut")]
    Truncated,
    /// The direction has had the maximum number of frames.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

/// The content of a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Opened<'a> {
    /// The peer's bytes; never empty.
    Frame(&'a [u8]),
    /// The peer's final frame: the stream ends properly here.
    Bye,
}

/// Collects bytes of one direction and opens its frames.
pub struct Opener {
    direction: Direction,
    buffer: Vec<u8>,
    start: usize,
    end: OpenerState,
}

#[derive(Clone, Copy)]
enum OpenerState {
    Open,
    Bye,
    Failed(ChannelError),
}

impl Opener {
    pub(super) fn new(key: Secret) -> Self {
        Self {
            direction: Direction::new(key),
            buffer: Vec::new(),
            start: 0,
            end: OpenerState::Open,
        }
    }

    /// Adds received bytes. Call [`Opener::next_frame`] until it returns `None` before the next
    /// call. The opener then holds at most one frame and these bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if matches!(self.end, OpenerState::Failed(_)) {
            return;
        }
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.buffer.shrink_to(RETAINED);
            self.start = 0;
        } else if self.start > RETAINED {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`ChannelError`]; every later call returns the same error.
    pub fn next_frame(&mut self) -> Result<Option<Opened<'_>>, ChannelError> {
        match self.end {
            OpenerState::Open => {}
            OpenerState::Bye if self.start == self.buffer.len() => return Ok(None),
            OpenerState::Bye => return Err(self.fail(ChannelError::AfterBye)),
            OpenerState::Failed(error) => return Err(error),
        }
        let waiting = &self.buffer[self.start..];
        let Some(&header) = waiting.first_chunk::<HEADER>() else { return Ok(None) };
        let length = u32::from_be_bytes(header);
        if length as usize > MAX_FRAME {
            return Err(self.fail(ChannelError::Length(length)));
        }
        let length = length as usize;
        if length > 0 && self.direction.count >= MAX_FRAMES {
            return Err(self.fail(Exhausted.into()));
        }
        if waiting.len() < length + OVERHEAD {
            return Ok(None);
        }
        let from = self.start + HEADER;
        self.start = from + length + TAG;
        let nonce = self.direction.next_nonce();
        let sealed = &mut self.buffer[from..self.start];
        if self.direction.key.open_in_place(nonce, Aad::from(header), sealed).is_err() {
            return Err(self.fail(ChannelError::Forged));
        }
        if length == 0 {
            self.end = OpenerState::Bye;
            return Ok(Some(Opened::Bye));
        }
        Ok(Some(Opened::Frame(&self.buffer[from..from + length])))
    }

    /// Reports the end of the stream, after all frames were taken.
    ///
    /// # Errors
    /// [`ChannelError::Truncated`] unless the last frame was "bye"; an earlier error, if there was
    /// one.
    pub fn peer_closed(&mut self) -> Result<(), ChannelError> {
        match self.end {
            OpenerState::Bye if self.start == self.buffer.len() => Ok(()),
            OpenerState::Bye => Err(self.fail(ChannelError::AfterBye)),
            OpenerState::Open => Err(self.fail(ChannelError::Truncated)),
            OpenerState::Failed(error) => Err(error),
        }
    }

    fn fail(&mut self, error: ChannelError) -> ChannelError {
        self.end = OpenerState::Failed(error);
        self.buffer = Vec::new();
        self.start = 0;
        error
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({} frames)", self.direction.count)
    }
}

/// The key of one direction and the number of its next frame, kept together so that no nonce is
/// used twice.
struct Direction {
    secret: Secret,
    key: LessSafeKey,
    count: u64,
}

impl Direction {
    fn new(secret: Secret) -> Self {
        Self { key: cipher(&secret), secret, count: 0 }
    }

    fn next_nonce(&mut self) -> Nonce {
        if self.count > 0 && self.count.is_multiple_of(REKEY_AFTER) {
            self.secret = next_key(&self.secret);
            self.key = cipher(&self.secret);
        }
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.count.to_be_bytes());
        self.count += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

fn cipher(secret: &Secret) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, &secret[..]).expect("AES-256 takes 32 bytes");
    LessSafeKey::new(key)
}

const HEADER: usize = 4;
const TAG: usize = 16;

/// The counter never wraps. One more number is left for "bye".
const MAX_FRAMES: u64 = 1 << 63;

/// Capacity that an idle channel keeps.
const RETAINED: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn an_exhausted_direction_reports_that_and_can_still_send_bye() {
        let mut sealer = Sealer::new(Zeroizing::new([7; 32]));
        let mut opener = Opener::new(Zeroizing::new([7; 32]));
        sealer.0.count = MAX_FRAMES - 1;
        opener.direction.count = MAX_FRAMES - 1;
        let mut out = Vec::new();
        sealer.seal(&[b"last"], &mut out).unwrap();
        assert_eq!(sealer.seal(&[b"more"], &mut out), Err(Exhausted));
        sealer.bye(&mut out);
        opener.push(&out);
        assert_eq!(opener.next_frame(), Ok(Some(Opened::Frame(b"last"))));
        assert_eq!(opener.next_frame(), Ok(Some(Opened::Bye)));
        assert_eq!(opener.peer_closed(), Ok(()));
    }

    #[test]
    fn a_frame_beyond_the_last_is_refused() {
        let mut opener = Opener::new(Zeroizing::new([7; 32]));
        opener.direction.count = MAX_FRAMES;
        opener.push(&[0, 0, 0, 1]);
        assert_eq!(opener.next_frame(), Err(ChannelError::Exhausted(Exhausted)));
    }

    #[test]
    fn an_idle_channel_frees_the_memory_of_a_large_frame() {
        let mut sealer = Sealer::new(Zeroizing::new([7; 32]));
        let mut opener = Opener::new(Zeroizing::new([7; 32]));
        let mut out = Vec::new();
        sealer.seal(&[&vec![1; MAX_FRAME]], &mut out).unwrap();
        opener.push(&out);
        assert!(opener.next_frame().unwrap().is_some());
        opener.push(b"");
        assert!(opener.buffer.capacity() <= RETAINED);
    }

    #[test]
    fn a_failed_channel_discards_later_bytes() {
        let mut opener = Opener::new(Zeroizing::new([7; 32]));
        opener.push(&[0xff; 4]);
        assert_eq!(opener.next_frame(), Err(ChannelError::Length(u32::MAX)));
        opener.push(&[0; 100]);
        assert_eq!(opener.buffer.capacity(), 0);
    }

    #[test]
    #[should_panic(expected = "frame of 0 bytes")]
    fn an_empty_frame_cannot_be_sealed() {
        let _ = Sealer::new(Zeroizing::new([7; 32])).seal(&[b""], &mut Vec::new());
    }
}
