//! The bytes of one side, in any chunking → its lines and messages.

use super::Message;
use crate::error::ProtocolError;
use crate::input::{InputBuffer, Unit};
use crate::limits::MAX_LINE;

/// What one side says, from its first byte on: `init` and its answer are lines, all else messages.
#[derive(Debug)]
pub struct Decoder {
    input: InputBuffer,
    /// Where the next message begins is not known.
    lost: bool,
}

/// One thing it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A message.
    Message(Message),
}

impl Decoder {
    /// Nothing was said yet.
    pub fn new() -> Self {
        Self { input: InputBuffer::new(MAX_LINE), lost: false }
    }

    /// Takes bytes, in any chunking.
    pub fn receive(&mut self, bytes: &[u8]) {
        if !self.lost {
            self.input.push(bytes);
        }
    }

    /// What was said next, or `None` until more bytes come.
    ///
    /// Behind [`ProtocolError::BadFrame`] and [`ProtocolError::LineTooLong`] nothing more is found; a
    /// message that cannot be read is an error of its own.
    pub fn poll(&mut self) -> Option<Result<Said, ProtocolError>> {
        if self.lost {
            return None;
        }
        Some(match self.input.next_unit()? {
            Ok(Unit::Line(line)) => Ok(Said::Line(line)),
            Ok(Unit::Body(body)) => Message::parse(&body).map(Said::Message),
            Err(error) => {
                self.lost = true;
                self.input.clear();
                Err(error)
            }
        })
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_and_what_follows_are_found_whatever_the_chunking() {
        let stream =
            b"cmd=response_to_init rc=0\n    27cmd=finalize-response;rc=0;3     xyz9 9   x     1y";
        for chunk in [1, 5, 100] {
            let mut decoder = Decoder::new();
            let mut found = Vec::new();
            for piece in stream.chunks(chunk) {
                decoder.receive(piece);
                found.extend(std::iter::from_fn(|| decoder.poll()));
            }
            let message = Message::new("finalize-response").with("rc", "0");
            let expected = [
                Ok(Said::Line(b"cmd=response_to_init rc=0".into())),
                Ok(Said::Message(message)),
                Err(ProtocolError::NoCommand { line: "xyz".into() }),
                Err(ProtocolError::BadFrame { header: "9_9___".into() }),
            ];
            assert_eq!(found, expected);
        }
    }
}
