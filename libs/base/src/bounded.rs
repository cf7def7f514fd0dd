//! Sequences of bounded length. The decoder refuses a longer sequence before it takes memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// For `#[serde(deserialize_with = "…")]`: at most `MOST` elements.
pub fn at_most<'de, D, T, const MOST: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(AtMost::<T, MOST>(PhantomData))
}

/// The same for an optional field.
pub fn at_most_if_any<'de, D, T, const MOST: usize>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Few<T, MOST>>::deserialize(deserializer)?.map(|few| few.0))
}

struct Few<T, const MOST: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        at_most::<_, _, MOST>(deserializer).map(Self)
    }
}

struct AtMost<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for AtMost<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MOST} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            if elements.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            elements.push(element);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Small {
        #[serde(deserialize_with = "at_most::<_, _, 3>")]
        numbers: Vec<u8>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Perhaps {
        #[serde(deserialize_with = "at_most_if_any::<_, _, 2>")]
        numbers: Option<Vec<u8>>,
    }

    #[test]
    fn a_sequence_of_the_bound_is_read_and_a_longer_one_is_refused() {
        let read = |text| serde_json::from_str::<Small>(text);
        assert_eq!(read(r#"{"numbers":[1,2,3]}"#).unwrap().numbers, [1, 2, 3]);
        assert_eq!(read(r#"{"numbers":[]}"#).unwrap().numbers.len(), 0);
        let error = read(r#"{"numbers":[1,2,3,4]}"#).unwrap_err().to_string();
        assert!(error.contains("at most 3 elements"), "{error}");
    }

    #[test]
    fn an_optional_sequence_is_bounded_as_well() {
        let read = |text| serde_json::from_str::<Perhaps>(text).map(|few| few.numbers);
        assert_eq!(read(r#"{"numbers":null}"#).unwrap(), None);
        assert_eq!(read(r#"{"numbers":[1,2]}"#).unwrap(), Some(vec![1, 2]));
        assert!(read(r#"{"numbers":[1,2,3]}"#).is_err());
    }
}
