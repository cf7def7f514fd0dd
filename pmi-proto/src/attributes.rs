//! NodeAttributes: what the ranks of a job on one node tell each other, and who waits for what.
//!
//! Knows nothing of other nodes, of how long a key may be on the wire, nor of who is gone meanwhile.

use std::collections::BTreeMap;

use crate::error::PutError;
use crate::limits::{MAX_NODE_ATTRIBUTE_BYTES, MAX_NODE_WAITERS, NODE_ATTRIBUTE_COST};

/// Pairs, and those who wait for a key that is not there; `W` says who that is.
#[derive(Debug, Clone)]
pub struct NodeAttributes<W> {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    waiting: BTreeMap<Vec<u8>, Vec<W>>,
    waiters: usize,
}

impl<W> NodeAttributes<W> {
    /// Nothing is there, and nobody waits.
    pub fn new() -> Self {
        Self { values: BTreeMap::new(), bytes: 0, waiting: BTreeMap::new(), waiters: 0 }
    }

    /// Stores a pair, in the place of another with this key, and tells who has waited for it, in the
    /// order they came.
    ///
    /// # Errors
    ///
    /// [`PutError::Full`] when the pair would take the whole past [`MAX_NODE_ATTRIBUTE_BYTES`];
    /// nothing has changed then.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Vec<W>, PutError> {
        let freed = self.get(key).map_or(0, |old| cost(key, old));
        let bytes = self.bytes - freed + cost(key, value);
        if bytes > MAX_NODE_ATTRIBUTE_BYTES {
            return Err(PutError::Full);
        }
        self.bytes = bytes;
        self.values.insert(key.to_vec(), value.to_vec());
        let woken = self.waiting.remove(key).unwrap_or_default();
        self.waiters -= woken.len();
        Ok(woken)
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.values.get(key).map(Vec::as_slice)
    }

    /// Somebody waits for a key that is not there.
    ///
    /// # Errors
    ///
    /// [`PutError::Full`] when [`MAX_NODE_WAITERS`] wait already.
    pub fn wait(&mut self, key: &[u8], waiter: W) -> Result<(), PutError> {
        debug_assert!(self.get(key).is_none(), "nobody waits for what is there");
        if self.waiters >= MAX_NODE_WAITERS {
            return Err(PutError::Full);
        }
        self.waiters += 1;
        self.waiting.entry(key.to_vec()).or_default().push(waiter);
        Ok(())
    }
}

impl<W> Default for NodeAttributes<W> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a pair counts towards [`MAX_NODE_ATTRIBUTE_BYTES`].
fn cost(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + NODE_ATTRIBUTE_COST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_key_is_told_once_and_in_order() {
        let mut attributes = NodeAttributes::new();
        attributes.wait(b"a", 1).unwrap();
        attributes.wait(b"b", 2).unwrap();
        attributes.wait(b"a", 3).unwrap();
        assert_eq!(attributes.put(b"a", b"x"), Ok(vec![1, 3]));
        assert_eq!(attributes.get(b"a"), Some(&b"x"[..]));
        assert_eq!(attributes.put(b"a", b"y"), Ok(vec![]));
        assert_eq!(attributes.get(b"a"), Some(&b"y"[..]));
        assert_eq!(attributes.get(b"b"), None);
        assert_eq!(attributes.put(b"b", b""), Ok(vec![2]));
    }

    #[test]
    fn a_full_store_refuses_and_stays_as_it_was() {
        let mut attributes = NodeAttributes::new();
        let half = vec![b'x'; MAX_NODE_ATTRIBUTE_BYTES / 2];
        assert_eq!(attributes.put(b"a", &half), Ok(vec![]));
        attributes.wait(b"b", 1).unwrap();
        assert_eq!(attributes.put(b"b", &half), Err(PutError::Full));
        assert_eq!(attributes.put(b"a", b""), Ok(vec![]));
        assert_eq!(attributes.put(b"b", &half), Ok(vec![1]));
    }

    #[test]
    fn there_is_an_end_to_waiters_and_room_again_when_some_have_gone() {
        let mut attributes = NodeAttributes::new();
        for waiter in 0..MAX_NODE_WAITERS {
            attributes.wait(if waiter == 7 { b"b" } else { b"a" }, waiter).unwrap();
        }
        assert_eq!(attributes.wait(b"c", 0), Err(PutError::Full));
        assert_eq!(attributes.put(b"b", b""), Ok(vec![7]));
        attributes.wait(b"c", 0).unwrap();
    }
}
