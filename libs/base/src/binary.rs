//! Bytes that need not be text, for `#[serde(with = "binary")]`: also optional ones, and lists of them.
//!
//! serde's own form of `Vec<u8>` is a list of numbers. The compact encoding has byte strings.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded::at_most;

/// Most elements of one list. The kernel takes fewer arguments and variables for one program.
const MOST: usize = 1 << 20;

/// Writes `value`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: Binary, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.write(serializer)
}

/// Reads a value.
///
/// # Errors
/// The value has another type, or a list is too long.
pub fn deserialize<'de, T: Binary, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

/// What consists of byte strings.
pub trait Binary: Sized {
    /// See [`serialize`].
    ///
    /// # Errors
    /// As there.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// See [`deserialize`].
    ///
    /// # Errors
    /// As there.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl Binary for Vec<u8> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(OneString)
    }
}

impl<T: Binary> Binary for Option<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Lent).serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Owned<T>>::deserialize(deserializer)?.map(|owned| owned.0))
    }
}

impl<T: Binary> Binary for Vec<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Lent))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = at_most::<_, Owned<T>, MOST>(deserializer)?;
        Ok(list.into_iter().map(|owned| owned.0).collect())
    }
}

struct Lent<'a, T>(&'a T);

impl<T: Binary> Serialize for Lent<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

struct Owned<T>(T);

impl<'de, T: Binary> Deserialize<'de> for Owned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Self)
    }
}

struct OneString;

impl Visitor<'_> for OneString {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a byte string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}
