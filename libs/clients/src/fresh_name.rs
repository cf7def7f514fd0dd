//! The name that a publisher gets with `-unique-names`, if another job has the wanted one: the wanted name and a number.

use std::fmt;

use mpd_wire::names::{NameKey, scoped_name, split_name};

/// The largest number behind a name.
const MOST: u32 = 1000;

/// A wanted name, and the names to try after it.
#[derive(Clone)]
pub(super) struct FreshName {
    wanted: String,
    number: u32,
    /// The text of the key. Each name has a key of its own, which is made of it.
    words: Option<Vec<u8>>,
}

impl FreshName {
    pub(super) fn new(wanted: &str, words: Option<&[u8]>) -> Self {
        Self { wanted: wanted.to_owned(), number: 1, words: words.map(<[u8]>::to_vec) }
    }

    pub(super) fn wanted(&self) -> &str {
        &self.wanted
    }

    /// The next name and its key; `None` after the last one.
    pub(super) fn next(&mut self) -> Option<(String, Option<NameKey>)> {
        self.number += 1;
        let (key, scope) = split_name(&self.wanted);
        let key = format!("{key}-{}", self.number);
        let name = scope.map_or(key.clone(), |scope| scoped_name(&key, scope));
        let name_key = self.words.as_ref().map(|words| NameKey::new(&name, words));
        (self.number <= MOST).then_some((name, name_key))
    }
}

/// Without the key.
impl fmt::Debug for FreshName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FreshName({:?}, {})", self.wanted, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_from_2_and_end_after_a_thousand() {
        let mut fresh = FreshName::new("ocean", Some(b"deep"));
        let key = |name: &str| Some(NameKey::new(name, b"deep"));
        assert_eq!(fresh.next(), Some(("ocean-2".to_owned(), key("ocean-2"))));
        assert_eq!(fresh.next(), Some(("ocean-3".to_owned(), key("ocean-3"))));
        assert!(!format!("{fresh:?}").contains("deep"));
        assert_eq!(std::iter::from_fn(|| fresh.next()).count(), 997);
    }

    #[test]
    fn the_processes_that_may_find_a_name_stay_the_same() {
        let mut fresh = FreshName::new(&scoped_name("ocean", "h1"), None);
        assert_eq!(fresh.next(), Some((scoped_name("ocean-2", "h1"), None)));
    }
}
