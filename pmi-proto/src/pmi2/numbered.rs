//! Lists among the pairs of a message: a count, and values with keys numbered from 0.

use super::Message;
use crate::error::{ProtocolError, excerpt};
use crate::keyval::parse_number;

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// The first value of that key.
pub(super) fn find<'p>(pairs: &'p [Pair], key: &str) -> Option<&'p [u8]> {
    let found = pairs.iter().find(|(name, _)| name == key.as_bytes())?;
    Some(&found.1)
}

/// Parses the lists of a command.
#[derive(Clone, Copy)]
pub(super) struct Lists(pub(super) &'static str);

impl Lists {
    /// A count; 0 if it is missing.
    pub(super) fn count(self, pairs: &[Pair], name: &'static str) -> Result<usize, ProtocolError> {
        let Some(text) = find(pairs, name) else { return Ok(0) };
        // A list cannot have more elements than the message has pairs.
        let count = parse_number(text).filter(|&count| count <= pairs.len());
        count.ok_or_else(|| self.bad_number(name, text))
    }

    /// The values of `name0`, `name1`, … in order, found in one pass.
    pub(super) fn values(
        self,
        pairs: &[Pair],
        count: usize,
        name: &'static str,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let mut values = Vec::with_capacity(count);
        let mut wanted = format!("{name}0");
        for (key, value) in pairs {
            if values.len() < count && key == wanted.as_bytes() {
                values.push(value.clone());
                wanted = format!("{name}{}", values.len());
            }
        }
        if values.len() < count { Err(self.missing(name)) } else { Ok(values) }
    }

    /// The keys and values of a list, as many as the count `counted`.
    pub(super) fn pairs(
        self,
        pairs: &[Pair],
        counted: &'static str,
        keys: &'static str,
        values: &'static str,
    ) -> Result<Vec<Pair>, ProtocolError> {
        let count = self.count(pairs, counted)?;
        let keys = self.values(pairs, count, keys)?;
        Ok(keys.into_iter().zip(self.values(pairs, count, values)?).collect())
    }

    /// The info of a request.
    pub(super) fn info(self, pairs: &[Pair]) -> Result<Vec<Pair>, ProtocolError> {
        self.pairs(pairs, "infokeycount", "infokey", "infoval")
    }

    pub(super) const fn missing(self, attribute: &'static str) -> ProtocolError {
        ProtocolError::MissingAttribute { command: self.0, attribute }
    }

    pub(super) fn bad_number(self, attribute: &'static str, value: &[u8]) -> ProtocolError {
        ProtocolError::BadNumber { command: self.0, attribute, value: excerpt(value) }
    }
}

/// Writes pairs with numbered keys.
pub(super) fn write(pairs: &[Pair], keys: &str, values: &str, message: &mut Message) {
    for (number, (key, value)) in pairs.iter().enumerate() {
        message.push(&format!("{keys}{number}"), key.clone());
        message.push(&format!("{values}{number}"), value.clone());
    }
}

/// Writes the info of a request.
pub(super) fn write_info(info: &[Pair], message: &mut Message) {
    message.push("infokeycount", info.len().to_string());
    write(info, "infokey", "infoval", message);
}
