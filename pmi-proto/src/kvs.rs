//! Kvs: the pairs that the ranks of one job and its manager have put.
//!
//! Keys and values are bytes. This module knows neither reserved keys nor the length limits of the wire. The manager
//! that owns the store exchanges it with other managers at each fence.

use std::collections::BTreeMap;

use crate::error::PutError;
use crate::limits::{KVS_ENTRY_COST, MAX_KVS_BYTES};

/// The key-value space of one job. Pairs are found by key or by their order of arrival.
#[derive(Debug, Default, Clone)]
pub struct Kvs {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    index_of: BTreeMap<Vec<u8>, usize>,
    bytes: usize,
}

impl Kvs {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a pair. An existing key gets the new value and keeps its index.
    ///
    /// # Errors
    ///
    /// [`PutError::Full`] if all pairs together would pass [`MAX_KVS_BYTES`]; nothing changes then.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), PutError> {
        let known = self.index_of.get(key).copied();
        let freed = known.map_or(0, |index| cost(key, &self.entries[index].1));
        let bytes = self.bytes - freed + cost(key, value);
        if bytes > MAX_KVS_BYTES {
            return Err(PutError::Full);
        }
        self.bytes = bytes;
        match known {
            Some(index) => self.entries[index].1 = value.to_vec(),
            None => {
                self.index_of.insert(key.to_vec(), self.entries.len());
                self.entries.push((key.to_vec(), value.to_vec()));
            }
        }
        Ok(())
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.index_of.get(key).map(|&index| self.entries[index].1.as_slice())
    }

    /// The pair put `index`-th, counted from 0.
    pub fn get_index(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.entries.get(index).map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The bytes that a pair counts towards [`MAX_KVS_BYTES`]: the key is stored twice.
fn cost(key: &[u8], value: &[u8]) -> usize {
    2 * key.len() + value.len() + KVS_ENTRY_COST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_found_by_key_and_by_index() {
        let mut kvs = Kvs::new();
        assert!(kvs.is_empty());
        kvs.put(b"b", b"1").unwrap();
        kvs.put(b"a", b"").unwrap();
        assert_eq!(kvs.len(), 2);
        assert_eq!(kvs.get(b"a"), Some(&b""[..]));
        assert_eq!(kvs.get(b"c"), None);
        assert_eq!(kvs.get_index(0), Some((&b"b"[..], &b"1"[..])));
        assert_eq!(kvs.get_index(2), None);
    }

    #[test]
    fn a_second_put_replaces_the_value_and_keeps_the_index() {
        let mut kvs = Kvs::new();
        kvs.put(b"a", b"1").unwrap();
        kvs.put(b"b", b"2").unwrap();
        kvs.put(b"a", b"3").unwrap();
        assert_eq!(kvs.len(), 2);
        assert_eq!(kvs.get_index(0), Some((&b"a"[..], &b"3"[..])));
    }

    #[test]
    fn a_full_kvs_refuses_a_pair_and_does_not_change() {
        let mut kvs = Kvs::new();
        let half = vec![b'x'; MAX_KVS_BYTES / 2];
        kvs.put(b"a", &half).unwrap();
        assert_eq!(kvs.put(b"b", &half), Err(PutError::Full));
        assert_eq!(kvs.get(b"b"), None);
        assert_eq!(kvs.len(), 1);
        kvs.put(b"a", b"small").unwrap();
        kvs.put(b"b", &half).unwrap();
    }

    #[test]
    fn replacing_the_only_large_value_is_not_counted_twice() {
        let mut kvs = Kvs::new();
        let most = vec![b'x'; MAX_KVS_BYTES / 4 * 3];
        kvs.put(b"a", &most).unwrap();
        kvs.put(b"a", &most).unwrap();
    }
}
