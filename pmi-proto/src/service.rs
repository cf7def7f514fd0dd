//! The service that a client publishes, looks up or withdraws, with an optional key.

use std::fmt;

use crate::limits::MAX_SERVICE_KEY;

/// A service, as a client names it.
///
/// A publisher may give a key. Then only lookups with the same key find the service. The key is the info key `mpd_key`
/// in PMI-2, or follows the name in both dialects as `NAME#key=KEY`, a form that passes through every library. `Debug`
/// shows neither name nor key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// The name. It may contain spaces and have any length.
    pub name: Vec<u8>,
    /// Further pairs of the request.
    pub info: Vec<(Vec<u8>, Vec<u8>)>,
}

pub type NameAndKey = (Vec<u8>, Option<Vec<u8>>);

impl Service {
    /// Splits off the key, if there is one.
    ///
    /// # Errors
    ///
    /// The reason why the key is invalid, as one word for the client.
    pub fn split(self) -> Result<NameAndKey, &'static str> {
        let mut name = self.name;
        let behind = name.windows(MARK.len()).rposition(|window| window == MARK).map(|at| {
            let key = name.split_off(at);
            key[MARK.len()..].to_vec()
        });
        let from_info =
            self.info.into_iter().find(|(key, _)| key == INFO_KEY).map(|(_, value)| value);
        let key = match (behind, from_info) {
            (Some(_), Some(_)) => return Err("two_keys"),
            (behind, from_info) => behind.or(from_info),
        };
        match key.as_ref().map_or(1, Vec::len) {
            0 => Err("key_is_empty"),
            length if length > MAX_SERVICE_KEY => Err("key_is_too_long"),
            _ => Ok((name, key)),
        }
    }
}

impl From<Vec<u8>> for Service {
    fn from(name: Vec<u8>) -> Self {
        Self { name, info: Vec::new() }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service(..)")
    }
}

/// The text between a name and its key.
const MARK: &[u8] = b"#key=";

/// The info key that holds the key.
const INFO_KEY: &[u8] = b"mpd_key";

#[cfg(test)]
mod tests {
    use super::*;

    fn split(name: &str, info: &[(&str, &str)]) -> Result<(String, Option<String>), &'static str> {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let info = info.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let (name, key) = Service { name: name.into(), info }.split()?;
        Ok((text(name), key.map(text)))
    }

    #[test]
    fn a_key_follows_the_name_or_is_in_the_info() {
        let long = "x".repeat(MAX_SERVICE_KEY);
        let named = |name: &str, key: &str| Ok((name.to_owned(), Some(key.to_owned())));
        assert_eq!(split("a b", &[("host", "h1")]), Ok(("a b".to_owned(), None)));
        assert_eq!(split("a b#key=c d", &[]), named("a b", "c d"));
        assert_eq!(split("a#key=b#key=c=", &[]), named("a#key=b", "c="));
        assert_eq!(split("a", &[("x", ""), ("mpd_key", "b"), ("mpd_key", "c")]), named("a", "b"));
        assert_eq!(split(&format!("a#key={long}"), &[]), named("a", &long));
        assert_eq!(split(&format!("a#key={long}x"), &[]), Err("key_is_too_long"));
        assert_eq!(split("a#key=", &[]), Err("key_is_empty"));
        assert_eq!(split("a", &[("mpd_key", "")]), Err("key_is_empty"));
        assert_eq!(split("a#key=b", &[("mpd_key", "b")]), Err("two_keys"));
        assert_eq!(split("#key=b", &[]), named("", "b"));
    }

    #[test]
    fn a_service_with_a_key_is_not_shown() {
        let service = Service { name: b"a#key=deep".into(), info: vec![] };
        assert_eq!(format!("{service:?}"), "Service(..)");
    }
}
