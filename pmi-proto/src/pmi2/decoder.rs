//! Decodes the bytes of one side, in any chunking, to its lines and messages.

use super::Message;
use crate::error::ProtocolError;
use crate::input::{InputBuffer, Unit};
use crate::limits::MAX_LINE;

/// The decoder of one side's stream. `init` and its answer are lines, all else are messages.
#[derive(Debug)]
pub struct Decoder {
    input: InputBuffer,
    /// The beginning of the next message is unknown.
    lost: bool,
}

/// One element of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    /// A line, without its end.
    Line(Vec<u8>),
    Message(Message),
}

impl Decoder {
    /// The decoder of a new stream.
    pub fn new() -> Self {
        Self { input: InputBuffer::new(MAX_LINE), lost: false }
    }

    /// Takes bytes, in any chunking.
    pub fn receive(&mut self, bytes: &[u8]) {
        if !self.lost {
            self.input.push(bytes);
        }
    }

    /// The next element, or `None` until more bytes come.
    ///
    /// After [`ProtocolError::BadFrame`] and [`ProtocolError::LineTooLong`] there is no further element. A message that
    /// cannot be parsed is an error for itself.
    pub fn poll(&mut self) -> Option<Result<Element, ProtocolError>> {
        if self.lost {
            return None;
        }
        Some(match self.input.next_unit()? {
            Ok(Unit::Line(line)) => Ok(Element::Line(line)),
            Ok(Unit::Body(body)) => Message::parse(&body).map(Element::Message),
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
    fn an_init_and_the_messages_after_it_are_found_with_any_chunking() {
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
                Ok(Element::Line(b"cmd=response_to_init rc=0".into())),
                Ok(Element::Message(message)),
                Err(ProtocolError::NoCommand { line: "xyz".into() }),
                Err(ProtocolError::BadFrame { header: "9_9___".into() }),
            ];
            assert_eq!(found, expected);
        }
    }
}
