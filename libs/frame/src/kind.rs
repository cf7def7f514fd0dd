//! The kind of a message, read without its content.

use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// The kind of a message: its first key, or its text. `None` if the payload is something else. Takes no memory for the
/// content, which may be anything.
pub(crate) fn of<'de>(payload: impl Deserializer<'de>) -> Option<String> {
    payload.deserialize_any(Outer).ok()
}

struct Outer;

impl<'de> Visitor<'de> for Outer {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_str<E: Error>(self, kind: &str) -> Result<String, E> {
        Ok(kind.to_owned())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<String, A::Error> {
        let kind = fields.next_key()?.ok_or_else(|| A::Error::custom("no kind"))?;
        fields.next_value::<IgnoredAny>()?;
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_kind_is_the_first_key_or_the_text() {
        let kind = |text: &str| of(&mut serde_json::Deserializer::from_str(text));
        assert_eq!(kind(r#"{"signal":{"signal":1}}"#).as_deref(), Some("signal"));
        assert_eq!(kind(r#"{"a\u0062":[1,{"c":2}],"d":3}"#).as_deref(), Some("ab"));
        assert_eq!(kind(r#""kill""#).as_deref(), Some("kill"));
        for none in ["{}", "[1]", "7", "{\"a\":", "", "null"] {
            assert_eq!(kind(none), None, "{none}");
        }
    }
}
