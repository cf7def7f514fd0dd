//! The compact encoding: CBOR (RFC 8949) as serde derives it, with the names of fields and kinds. Unknown fields are ignored.
//!
//! Job specifications and the messages between hosts have it. Programs that people may script get JSON. Numbers and texts have definite lengths here, but a reader accepts all forms. The reader takes no
//! memory for a length or count that the bytes do not hold, and nests at most `MAX_DEPTH` deep.

use cbor4ii::core::dec::{Read, Reference};
use cbor4ii::core::error::Never;
use cbor4ii::core::utils::BufWriter;
use cbor4ii::serde::{DecodeError, Deserializer, Serializer};
use serde::{Deserialize, Serialize};

use crate::{InvalidFrame, MAX_REASON, invalid, kind, shown};

/// Most levels of lists, maps and options in each other.
const MAX_DEPTH: usize = 64;

/// The first room for the bytes of a value. Most messages have fewer.
const FIRST_ROOM: usize = 256;

/// The bytes are not the expected value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

/// The bytes of a value.
pub fn to_vec(value: &impl Serialize) -> Vec<u8> {
    let mut serializer = Serializer::new(BufWriter::new(Vec::with_capacity(FIRST_ROOM)));
    // Serialising our own types into memory cannot fail.
    value.serialize(&mut serializer).expect("it serialises");
    serializer.into_inner().into_inner()
}

/// Reads a value, which has all the bytes.
///
/// # Errors
/// [`Malformed`], for people. It may quote the bytes, in part.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Malformed> {
    read(bytes).map_err(|problem| Malformed(shown(&problem, MAX_REASON)))
}

/// Reads a message.
///
/// # Errors
/// As for [`decode_message`](crate::decode_message).
pub fn decode_message<'de, M: Deserialize<'de>>(payload: &'de [u8]) -> Result<M, InvalidFrame> {
    read(payload).map_err(|problem| invalid::<M>(&problem, || kind::of(&mut reader(payload))))
}

fn reader(bytes: &[u8]) -> Deserializer<Reader<'_>> {
    Deserializer::new(Reader { rest: bytes, levels: MAX_DEPTH })
}

fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, String> {
    let mut deserializer = reader(bytes);
    let value = T::deserialize(&mut deserializer).map_err(text_of)?;
    match deserializer.into_inner().rest.len() {
        0 => Ok(value),
        more => Err(format!("{more} bytes too many")),
    }
}

fn text_of(error: DecodeError<Never>) -> String {
    match error {
        DecodeError::Custom(text) => text.into(),
        DecodeError::Core(error) => error.to_string().replace('"', ""),
    }
}

/// The bytes that are not read yet, and how many levels may still be entered.
struct Reader<'a> {
    rest: &'a [u8],
    levels: usize,
}

impl<'de> Read<'de> for Reader<'de> {
    type Error = Never;

    fn fill<'b>(&'b mut self, want: usize) -> Result<Reference<'de, 'b>, Never> {
        Ok(Reference::Long(&self.rest[..want.min(self.rest.len())]))
    }

    fn advance(&mut self, count: usize) {
        self.rest = &self.rest[count.min(self.rest.len())..];
    }

    fn step_in(&mut self) -> bool {
        let is_allowed = self.levels > 0;
        self.levels = self.levels.saturating_sub(1);
        is_allowed
    }

    fn step_out(&mut self) {
        self.levels += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Sample {
        number: Option<u32>,
        inner: Option<Box<Self>>,
        list: Vec<u32>,
    }

    #[test]
    fn a_value_reads_back_and_a_later_field_is_ignored_and_a_missing_one_has_its_default() {
        #[derive(Serialize)]
        struct Later {
            more: Vec<Option<&'static str>>,
            number: u32,
        }
        let inner = Box::new(Sample { list: vec![1, 70_000], ..Sample::default() });
        let sample = Sample { number: Some(7), inner: Some(inner), list: Vec::new() };
        assert_eq!(from_slice(&to_vec(&sample)), Ok(sample));
        let later = Later { more: vec![None, Some("x")], number: 7 };
        let known = Sample { number: Some(7), ..Sample::default() };
        assert_eq!(from_slice(&to_vec(&later)), Ok(known));
    }

    #[test]
    fn a_message_of_an_unknown_kind_is_another_error_than_an_unknown_part_of_a_known_one() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Message {
            Signal { signal: u8 },
            Inner(Box<Self>),
        }
        let read = |bytes: &[u8]| decode_message::<Message>(bytes);
        let later = || to_vec(&std::collections::BTreeMap::from([("later", Some(1))]));
        assert_eq!(read(&later()), Err(InvalidFrame::Unknown("later".to_owned())));
        assert_eq!(read(&to_vec(&"later")), Err(InvalidFrame::Unknown("later".to_owned())));
        let inner = [&b"\xa1\x65inner"[..], &later()].concat();
        assert_eq!(read(&inner), Err(InvalidFrame::UnknownPart("later".to_owned())));
        let message = Message::Inner(Box::new(Message::Signal { signal: 7 }));
        assert_eq!(read(&to_vec(&message)), Ok(message));
        assert!(matches!(read(b"\xa1\x66signal\xa0"), Err(InvalidFrame::Message(_))));
    }

    #[test]
    fn bytes_behind_a_value_are_an_error() {
        let mut bytes = to_vec(&7);
        bytes.push(7);
        assert_eq!(from_slice::<u32>(&bytes), Err(Malformed("1 bytes too many".to_owned())));
    }

    #[test]
    fn deep_values_are_refused_known_or_not() {
        let deep = |levels: usize| (0..levels).flat_map(|_| *b"\xa1\x65inner").chain([0xf6]);
        let lists =
            |levels: usize| (*b"\xa1\x61x").into_iter().chain(vec![0x81; levels]).chain([0]);
        let read = |bytes: Vec<u8>| from_slice::<Sample>(&bytes).map(drop);
        assert_eq!(read(deep(30).collect()), Ok(()));
        assert_eq!(read(lists(60).collect()), Ok(()));
        for bytes in [deep(100_000).collect(), lists(100_000).collect()] {
            let problem = read(bytes).unwrap_err().to_string();
            assert!(problem.contains("Depth"), "{problem}");
        }
    }

    #[test]
    fn a_count_that_the_bytes_do_not_hold_is_an_error() {
        for claim in [
            &b"\xa1\x64list\x9b\xff\xff\xff\xff\xff\xff\xff\xff"[..],
            b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert!(from_slice::<Sample>(claim).is_err());
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = from_slice::<Sample>(&bytes);
        }
    }
}
