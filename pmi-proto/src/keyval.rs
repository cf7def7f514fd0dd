//! Parses `key=value key=value …` in one pass, by the list of attributes of a command.
//!
//! A pair is split at its first `=`. Most values are one word. A few are longer, and only the command's row in the
//! table defines them. Attributes that the row does not list are ignored, so that clients of later subversions can be
//! served. Values are not unescaped, because clients do not escape.

use std::str::FromStr;

use crate::error::{ProtocolError, excerpt};

/// An attribute as a row of the table lists it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) extent: Extent,
}

/// The end of an attribute's value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent {
    /// To the next space.
    Word,
    /// To the last ` name=` of the line, spaces included.
    UntilLast(&'static str),
    /// To the end of the line, spaces included.
    Rest,
}

impl Attribute {
    pub(crate) const fn word(name: &'static str) -> Self {
        Self { name, required: true, extent: Extent::Word }
    }

    pub(crate) const fn rest(name: &'static str) -> Self {
        Self { name, required: true, extent: Extent::Rest }
    }

    pub(crate) const fn until_last(name: &'static str, next: &'static str) -> Self {
        Self { name, required: true, extent: Extent::UntilLast(next) }
    }

    pub(crate) const fn optional(self) -> Self {
        Self { name: self.name, required: false, extent: self.extent }
    }
}

/// The attributes of one line.
#[derive(Debug)]
pub(crate) struct Attributes<'l> {
    command: &'static str,
    pairs: Vec<(&'static str, &'l [u8])>,
}

impl<'l> Attributes<'l> {
    /// Parses the text after the command's name. Of a repeated attribute the first one counts.
    pub(crate) fn parse(
        command: &'static str,
        attributes: &'static [Attribute],
        text: &'l [u8],
    ) -> Result<Self, ProtocolError> {
        let mut pairs: Vec<(&'static str, &'l [u8])> = Vec::new();
        let mut text = text;
        while let Some(begin) = text.iter().position(|&byte| byte != b' ') {
            text = &text[begin..];
            let word_end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
            let Some((name, _)) = split_pair(&text[..word_end]) else {
                return Err(ProtocolError::NotAPair { command, word: excerpt(&text[..word_end]) });
            };
            let known = attributes.iter().find(|attribute| attribute.name.as_bytes() == name);
            let end = match known.map(|attribute| attribute.extent) {
                None | Some(Extent::Word) => word_end,
                Some(Extent::UntilLast(next)) => last_pair(text, next).unwrap_or(text.len()),
                Some(Extent::Rest) => text.len(),
            };
            if let Some(attribute) = known
                && !pairs.iter().any(|(name, _)| *name == attribute.name)
            {
                pairs.push((attribute.name, &text[name.len() + 1..end]));
            }
            text = &text[end..];
        }
        Self::from_pairs(command, attributes, pairs)
    }

    /// Takes pairs from another parser. Required attributes are not checked.
    pub(crate) fn unchecked(command: &'static str, pairs: Vec<(&'static str, &'l [u8])>) -> Self {
        Self { command, pairs }
    }

    /// Takes pairs from another parser, such as those of a message, and checks the required attributes.
    pub(crate) fn from_pairs(
        command: &'static str,
        attributes: &'static [Attribute],
        pairs: Vec<(&'static str, &'l [u8])>,
    ) -> Result<Self, ProtocolError> {
        let found = Self::unchecked(command, pairs);
        for attribute in attributes.iter().filter(|attribute| attribute.required) {
            found.bytes(attribute.name)?;
        }
        Ok(found)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'l [u8]> {
        self.pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The length of all values together.
    pub(crate) fn length(&self) -> usize {
        self.pairs.iter().map(|(_, value)| value.len()).sum()
    }

    /// The attribute's value, or an error if it is missing.
    pub(crate) fn bytes(&self, attribute: &'static str) -> Result<&'l [u8], ProtocolError> {
        self.get(attribute)
            .ok_or(ProtocolError::MissingAttribute { command: self.command, attribute })
    }

    /// Like [`bytes`](Self::bytes), as an owned value.
    pub(crate) fn owned(&self, attribute: &'static str) -> Result<Vec<u8>, ProtocolError> {
        self.bytes(attribute).map(<[u8]>::to_vec)
    }

    /// The attribute's value as a decimal number of type `T`.
    pub(crate) fn number<T: FromStr>(&self, attribute: &'static str) -> Result<T, ProtocolError> {
        let value = self.bytes(attribute)?;
        parse_number(value).ok_or_else(|| self.bad_number(attribute, value))
    }

    /// The error for an invalid number.
    pub(crate) fn bad_number(&self, attribute: &'static str, value: &[u8]) -> ProtocolError {
        ProtocolError::BadNumber { command: self.command, attribute, value: excerpt(value) }
    }
}

/// Splits at the first `=`.
pub(crate) fn split_pair(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = pair.iter().position(|&byte| byte == b'=')?;
    Some((&pair[..equals], &pair[equals + 1..]))
}

/// A decimal number.
pub(crate) fn parse_number<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The offset of the last ` name=` of `text`, at its space.
fn last_pair(text: &[u8], name: &str) -> Option<usize> {
    text.windows(name.len() + 2).rposition(|window| {
        window[0] == b' '
            && &window[1..=name.len()] == name.as_bytes()
            && window[name.len() + 1] == b'='
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: &[Attribute] = &[Attribute::word("key"), Attribute::rest("value")];
    const PUBLISH: &[Attribute] =
        &[Attribute::until_last("service", "port"), Attribute::rest("port")];

    #[test]
    fn a_pair_is_split_at_its_first_equals_sign() {
        let found = Attributes::parse("put", PUT, b" key=a=b value=segments=9").unwrap();
        assert_eq!(found.get("key"), Some(&b"a=b"[..]));
        assert_eq!(found.get("value"), Some(&b"segments=9"[..]));
    }

    #[test]
    fn a_value_may_reach_to_the_end_of_the_line() {
        let found = Attributes::parse("put", PUT, b" key=k value= a  key=x - ").unwrap();
        assert_eq!(found.get("key"), Some(&b"k"[..]));
        assert_eq!(found.get("value"), Some(&b" a  key=x - "[..]));
    }

    #[test]
    fn a_service_reaches_to_the_last_port() {
        let line = b" service=my port=1 svc port=tag#0$ description";
        let found = Attributes::parse("publish_name", PUBLISH, line).unwrap();
        assert_eq!(found.get("service"), Some(&b"my port=1 svc"[..]));
        assert_eq!(found.get("port"), Some(&b"tag#0$ description"[..]));
    }

    #[test]
    fn repeated_spaces_and_unlisted_attributes_are_ignored() {
        let found = Attributes::parse("put", PUT, b"  extra=1   key=k  value=").unwrap();
        assert_eq!(found.get("key"), Some(&b"k"[..]));
        assert_eq!(found.get("value"), Some(&b""[..]));
        assert_eq!(found.get("extra"), None);
    }

    #[test]
    fn of_a_repeated_attribute_the_first_counts() {
        let found = Attributes::parse("put", PUT, b" key=1 key=2 value=").unwrap();
        assert_eq!(found.get("key"), Some(&b"1"[..]));
    }

    #[test]
    fn a_word_without_equals_sign_is_an_error() {
        let error = Attributes::parse("put", PUT, b" key=a b value=v").unwrap_err();
        assert_eq!(error, ProtocolError::NotAPair { command: "put", word: "b".into() });
    }

    #[test]
    fn a_number_out_of_range_is_an_error() {
        let found = Attributes::parse("put", PUT, b" key=-1 value=4294967296").unwrap();
        assert_eq!(found.number::<i32>("key"), Ok(-1));
        assert!(found.number::<usize>("key").is_err());
        assert!(found.number::<u32>("value").is_err());
    }
}
