//! One message: its command and its pairs, to and from the body of a frame.
//!
//! Pairs end with `;`, and a `;` in a value is doubled. MPICH since 4.1 does not double it: a piece without `=` is
//! treated as the rest of the preceding value. This module does not know the table of commands.

use crate::error::{ProtocolError, excerpt};
use crate::input::HEADER;
use crate::keyval::split_pair;
use crate::limits::MAX_FRAME;

/// A request or a response. Pairs are in the order of the wire, and keys may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    command: Vec<u8>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A message is too long for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message of {length} bytes, at most {MAX_FRAME} are allowed")]
pub struct FrameTooLong {
    /// Length of the message in bytes.
    pub length: usize,
}

impl Message {
    /// A message with a command and no pairs.
    pub fn new(command: impl Into<Vec<u8>>) -> Self {
        Self { command: command.into(), pairs: Vec::new() }
    }

    /// Appends a pair. A key must be one word without `=` and `;`; in debug builds another key panics.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Vec<u8>>) -> Self {
        self.push(key, value);
        self
    }

    /// Like [`with`](Self::with), in place.
    pub fn push(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        debug_assert!(!key.is_empty() && !key.contains(['=', ';']), "a key is one word");
        self.pairs.push((key.into(), value.into()));
    }

    /// The command's name.
    pub fn command(&self) -> &[u8] {
        &self.command
    }

    /// All pairs after the command.
    pub fn pairs(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.pairs
    }

    /// The first value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.pairs.iter().find(|(name, _)| name == key.as_bytes())?;
        Some(&found.1)
    }

    /// Reads the body of a frame.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::NoCommand`] if it does not begin with `cmd=`. There is no other error.
    pub fn parse(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for piece in pieces(body) {
            match (split_pair(&piece), pairs.last_mut()) {
                (Some((key, value)), _) => pairs.push((key.to_vec(), value.to_vec())),
                (None, Some((_, value))) => {
                    value.push(b';');
                    value.extend_from_slice(&piece);
                }
                (None, None) => break,
            }
        }
        let begins = pairs.first().is_some_and(|(key, _)| key == b"cmd");
        if !begins {
            return Err(ProtocolError::NoCommand { line: excerpt(body) });
        }
        let (_, command) = pairs.remove(0);
        Ok(Self { command, pairs })
    }

    /// Writes the whole frame.
    ///
    /// # Errors
    ///
    /// [`FrameTooLong`] when the body would pass [`MAX_FRAME`].
    pub fn encode(&self) -> Result<Vec<u8>, FrameTooLong> {
        let mut frame = vec![b' '; HEADER];
        write_pair(&mut frame, b"cmd", &self.command);
        for (key, value) in &self.pairs {
            write_pair(&mut frame, key, value);
        }
        let length = frame.len() - HEADER;
        if length > MAX_FRAME {
            return Err(FrameTooLong { length });
        }
        frame[..HEADER].copy_from_slice(format!("{length:HEADER$}").as_bytes());
        Ok(frame)
    }
}

/// The pieces between single `;`, with doubled ones made single.
fn pieces(body: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    let mut bytes = body.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b';' || bytes.next_if_eq(&b';').is_some() {
            piece.push(byte);
        } else {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

fn write_pair(frame: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    frame.extend_from_slice(key);
    frame.push(b'=');
    for &byte in value {
        if byte == b';' {
            frame.push(byte);
        }
        frame.push(byte);
    }
    frame.push(b';');
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn parse(body: &str) -> Message {
        Message::parse(body.as_bytes()).unwrap()
    }

    #[test]
    fn a_frame_begins_with_its_length_at_the_right() {
        let frame = Message::new("finalize-response").with("rc", "0").encode().unwrap();
        assert_eq!(frame, b"    27cmd=finalize-response;rc=0;");
    }

    #[test]
    fn a_semicolon_in_a_value_may_be_doubled_or_not() {
        for body in ["cmd=spawn;argv0=a;;b;argc=1;", "cmd=spawn;argv0=a;b;argc=1;"] {
            assert_eq!(parse(body), Message::new("spawn").with("argv0", "a;b").with("argc", "1"));
        }
        assert_eq!(parse("cmd=x;k=;;;;;").get("k"), Some(&b";;"[..]));
    }

    #[test]
    fn a_pair_is_split_at_its_first_equals_sign_and_the_last_may_lack_its_end() {
        let message = parse("cmd=kvs-put;key=a b;value=x=y;thrid=;last=1");
        assert_eq!(message.command(), b"kvs-put");
        assert_eq!(message.get("key"), Some(&b"a b"[..]));
        assert_eq!(message.get("value"), Some(&b"x=y"[..]));
        assert_eq!(message.get("thrid"), Some(&b""[..]));
        assert_eq!(message.get("last"), Some(&b"1"[..]));
        assert_eq!(message.get("none"), None);
    }

    #[test]
    fn a_message_must_begin_with_its_command() {
        for body in ["", ";", "hello", ";cmd=x;", "key=1;cmd=x;", "cmd"] {
            let error = Message::parse(body.as_bytes()).unwrap_err();
            assert!(matches!(error, ProtocolError::NoCommand { .. }), "{body}");
        }
    }

    #[test]
    fn a_message_longer_than_a_frame_is_not_written() {
        let body = |length: usize| Message::new("x").with("k", vec![b'v'; length]).encode();
        let longest = MAX_FRAME - "cmd=x;k=;".len();
        assert_eq!(body(longest).unwrap().len(), HEADER + MAX_FRAME);
        assert_eq!(body(longest + 1), Err(FrameTooLong { length: MAX_FRAME + 1 }));
    }

    proptest! {
        #[test]
        fn a_message_reads_back_with_any_values(
            command in "[a-z;=-]{0,9}",
            pairs in vec(("[a-z0-9-]{1,5}", vec(prop_oneof![Just(b';'), any::<u8>()], 0..9)), 0..9),
        ) {
            let mut message = Message::new(command);
            for (key, value) in pairs {
                message.push(&key, value);
            }
            let frame = message.encode().unwrap();
            prop_assert_eq!(Message::parse(&frame[HEADER..]), Ok(message));
        }

        #[test]
        fn any_body_is_read_or_refused(body in "(cmd=)?[a;=\\x00-\\xff]{0,60}") {
            let _ = Message::parse(body.as_bytes());
        }
    }
}
