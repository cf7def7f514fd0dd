//! The outlines of frames, of which each kind of stream has one.

use serde::Serialize;

use crate::{InvalidFrame, Kind, MAX_PAYLOAD};

/// The bytes of the length.
pub(crate) const LENGTH: usize = 4;

/// What is around a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outline {
    /// The length, big-endian, and the kind, which the length counts.
    Kinds,
    /// The length, little-endian.
    Plain,
    /// The length, little-endian; a newline behind the payload.
    Lines,
}

/// The frames of one kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    outline: Outline,
    max_payload: usize,
}

/// Where the parts of a frame are.
pub(crate) struct Parts {
    /// The first byte of the payload.
    pub(crate) payload: usize,
    /// The byte behind the payload.
    pub(crate) end: usize,
    /// The byte behind the frame.
    pub(crate) next: usize,
}

impl Format {
    /// The streams between consoles, daemons and managers.
    pub const STREAM: Self = Self { outline: Outline::Kinds, max_payload: MAX_PAYLOAD };

    /// Frames of control messages alone.
    pub const fn plain(max_payload: usize) -> Self {
        Self { outline: Outline::Plain, max_payload }
    }

    /// The same for a stream that is passed on line by line: each frame is the end of a line.
    pub const fn lines(max_payload: usize) -> Self {
        Self { outline: Outline::Lines, max_payload }
    }

    /// Appends a frame whose payload `write` appends.
    ///
    /// # Errors
    /// [`InvalidFrame::Length`] if the payload is too long; `out` is unchanged.
    pub fn frame(
        self,
        kind: Kind,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), InvalidFrame> {
        let begin = out.len();
        out.extend([0; LENGTH]);
        if self.outline == Outline::Kinds {
            out.push(kind.code());
        }
        let payload = out.len();
        write(out);
        let counted = u32::try_from(out.len() - begin - LENGTH).unwrap_or(u32::MAX);
        if out.len() - payload > self.max_payload {
            out.truncate(begin);
            return Err(InvalidFrame::Length(counted));
        }
        let length = match self.outline {
            Outline::Kinds => counted.to_be_bytes(),
            Outline::Plain | Outline::Lines => counted.to_le_bytes(),
        };
        out[begin..begin + LENGTH].copy_from_slice(&length);
        if self.outline == Outline::Lines {
            out.push(b'\n');
        }
        Ok(())
    }

    /// Appends a control frame with `message`.
    ///
    /// # Errors
    /// As for [`Format::frame`].
    pub fn message(self, message: &impl Serialize, out: &mut Vec<u8>) -> Result<(), InvalidFrame> {
        // Serialising our own types into memory cannot fail: no map with non-string keys, no I/O.
        let write = |out: &mut Vec<u8>| serde_json::to_writer(out, message).expect("it serialises");
        self.frame(Kind::Control, out, write)
    }

    /// The parts of the frame that begins with this length.
    pub(crate) fn parts(self, length: [u8; LENGTH]) -> Result<Parts, InvalidFrame> {
        let (length, kind, newline) = match self.outline {
            Outline::Kinds => (u32::from_be_bytes(length), 1, 0),
            Outline::Plain => (u32::from_le_bytes(length), 0, 0),
            Outline::Lines => (u32::from_le_bytes(length), 0, 1),
        };
        let counted = usize::try_from(length).unwrap_or(usize::MAX);
        if counted < kind || counted - kind > self.max_payload {
            return Err(InvalidFrame::Length(length));
        }
        let end = LENGTH + counted;
        Ok(Parts { payload: LENGTH + kind, end, next: end + newline })
    }

    /// The kind of a frame with these bytes around its payload, and the number of its descriptors.
    pub(crate) fn kind(self, head: &[u8], tail: &[u8]) -> Result<(Kind, usize), InvalidFrame> {
        match (self.outline, head, tail) {
            (Outline::Kinds, [.., code], _) => Ok(Kind::split(*code)),
            (Outline::Lines, _, [last]) if *last != b'\n' => Err(InvalidFrame::End),
            (Outline::Kinds | Outline::Plain | Outline::Lines, ..) => Ok((Kind::Control, 0)),
        }
    }
}
