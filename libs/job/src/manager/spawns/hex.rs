//! Bytes as text in a recording: hexadecimal digits.

use mpd_wire::hex;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

/// Writes bytes.
///
/// # Errors
/// Those of the writer.
pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&hex::encode(bytes))
}

/// Reads bytes.
///
/// # Errors
/// The text has another form.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let mut bytes = vec![0; text.len() / 2];
    let decoded = hex::decode(&text, &mut bytes);
    decoded.map(|()| bytes).ok_or_else(|| D::Error::custom("no hexadecimal text"))
}
