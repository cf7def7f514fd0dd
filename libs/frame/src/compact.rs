//! The compact encoding: CBOR (RFC 8949) as serde derives it, with the names of fields and kinds. Unknown fields are ignored.
//!
//! Job specifications have it. Numbers and texts have definite lengths here, but a reader accepts all forms. The reader takes no
//! memory for a length or count that the bytes do not hold, and nests at most [`MAX_DEPTH`] deep.

use cbor4ii::core::dec::{Read, Reference};
use cbor4ii::core::error::Never;
use cbor4ii::core::utils::BufWriter;
use cbor4ii::serde::{DecodeError, Deserializer, Serializer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{MAX_REASON, shown};

/// Most levels of lists, maps and options in each other.
const MAX_DEPTH: usize = 64;

/// The bytes are not the expected value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

/// Appends a value.
pub fn write(value: &impl Serialize, out: &mut Vec<u8>) {
    let mut serializer = Serializer::new(BufWriter::new(std::mem::take(out)));
    // Serialising our own types into memory cannot fail.
    value.serialize(&mut serializer).expect("it serialises");
    *out = serializer.into_inner().into_inner();
}

/// The bytes of a value.
pub fn to_vec(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4096);
    write(value, &mut bytes);
    bytes
}

/// Reads a value, which has all the bytes.
///
/// # Errors
/// [`Malformed`], for people. It may quote the bytes, in part.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    let mut deserializer = Deserializer::new(Reader { rest: bytes, levels: MAX_DEPTH });
    let value = T::deserialize(&mut deserializer).map_err(|error| Malformed(text_of(&error)))?;
    match deserializer.into_inner().rest.len() {
        0 => Ok(value),
        more => Err(Malformed(format!("{more} bytes too many"))),
    }
}

fn text_of(error: &DecodeError<Never>) -> String {
    match error {
        DecodeError::Custom(text) => shown(text, MAX_REASON),
        DecodeError::Core(error) => shown(&error.to_string(), MAX_REASON),
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
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

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
