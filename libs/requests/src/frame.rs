//! The frames between a program and its helper: the length in 4 bytes, little endian, and a message as JSON.

use std::collections::BTreeMap;

use mpd_frame::{Format, decode_message};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use mpd_frame::{Decoder, InvalidFrame};

/// The frames of both directions; a message has at most 16 MiB.
pub const FORMAT: Format = Format::plain(16 << 20);

/// The message as a frame; `None` if it is too long.
pub fn encode(message: &impl Serialize) -> Option<Vec<u8>> {
    let mut frame = Vec::new();
    FORMAT.message(message, &mut frame).ok()?;
    Some(frame)
}

/// What has arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T> {
    Message(T),
    /// A message of a kind that is unknown here, or a message with a number and such a part.
    Unknown {
        /// Its kind, for people.
        kind: String,
        /// The number of the answer that the sender waits for, if it has one.
        number: Option<u64>,
    },
}

/// The field of all messages that are answered.
#[derive(Deserialize)]
struct Numbered {
    number: u64,
}

/// The next message, if all of it has arrived.
///
/// # Errors
/// The bytes are no message.
pub fn receive<T: DeserializeOwned>(
    decoder: &mut Decoder,
) -> Result<Option<Received<T>>, InvalidFrame> {
    let Some(frame) = decoder.next_frame()? else { return Ok(None) };
    match decode_message(frame.payload) {
        Ok(message) => Ok(Some(Received::Message(message))),
        Err(InvalidFrame::Unknown(kind)) => {
            Ok(Some(Received::Unknown { kind, number: number_in(frame.payload) }))
        }
        Err(InvalidFrame::UnknownPart(kind)) => match number_in(frame.payload) {
            // The sender gets an answer.
            Some(number) => Ok(Some(Received::Unknown { kind, number: Some(number) })),
            None => Err(InvalidFrame::UnknownPart(kind)),
        },
        Err(invalid) => Err(invalid),
    }
}

/// The number of the answer that the sender of a message waits for.
fn number_in(payload: &[u8]) -> Option<u64> {
    let numbered = decode_message::<BTreeMap<String, Numbered>>(payload).ok()?;
    numbered.into_values().next().map(|of| of.number)
}

#[cfg(test)]
mod tests {
    use crate::{End, RequestId, ToHelper, ToProgram};

    use super::*;

    #[test]
    fn messages_arrive_in_any_pieces_and_other_bytes_are_refused() {
        let all = [
            ToProgram::Started(RequestId(7)),
            ToProgram::Ended(RequestId(7), End::Signaled(9)),
            ToProgram::Refused { first: RequestId(1), count: 1, why: "ü".to_owned() },
        ];
        let bytes: Vec<u8> = all.iter().flat_map(|message| encode(message).unwrap()).collect();
        let mut decoder = Decoder::new(FORMAT);
        let mut found: Vec<Received<ToProgram>> = Vec::new();
        for byte in bytes {
            decoder.push(&[byte]);
            found.extend(receive(&mut decoder).unwrap());
        }
        assert_eq!(found, all.map(Received::Message));
        for bad in [&[2, 0, 0, 0, b'{', b'}'][..], &[255, 255, 255, 255]] {
            let mut decoder = Decoder::new(FORMAT);
            decoder.push(bad);
            assert!(receive::<ToProgram>(&mut decoder).is_err());
        }
        assert_eq!(encode(&"x".repeat(16 << 20)), None);
    }

    #[test]
    fn an_unknown_request_has_the_number_of_its_answer() {
        let mut decoder = Decoder::new(FORMAT);
        for later in [r#"{"later":{"number":7,"more":[1]}}"#, r#"{"later":"x"}"#] {
            let frame: serde_json::Value = serde_json::from_str(later).unwrap();
            decoder.push(&encode(&frame).unwrap());
        }
        let ended = serde_json::json!({"ended": [5, {"later": 1}]});
        decoder.push(&encode(&ended).unwrap());
        let answer = serde_json::json!({"answer": {"number": 8, "error": {"later": 1}}});
        decoder.push(&encode(&answer).unwrap());
        let unknown = |number| Received::Unknown { kind: "later".to_owned(), number };
        assert_eq!(receive::<ToHelper>(&mut decoder).unwrap(), Some(unknown(Some(7))));
        assert_eq!(receive::<ToHelper>(&mut decoder).unwrap(), Some(unknown(None)));
        let end = receive::<ToProgram>(&mut decoder);
        assert!(matches!(end, Err(InvalidFrame::UnknownPart(_))), "an end that cannot be read");
        let answer = receive::<ToProgram>(&mut decoder).unwrap();
        assert_eq!(answer, Some(Received::Unknown { kind: "later".to_owned(), number: Some(8) }));
        assert_eq!(receive::<ToHelper>(&mut decoder).unwrap(), None);
    }
}
