//! Node attributes: pairs that the ranks of a job share on one node, and the requests that wait for a pair.
//!
//! This module has no knowledge of other nodes, of the length limits of the wire, or of ranks that have ended.

use std::collections::BTreeMap;

use crate::error::PutError;
use crate::limits::{MAX_NODE_ATTRIBUTE_BYTES, MAX_NODE_WAITERS, NODE_ATTRIBUTE_COST};

/// Pairs, and the requests that wait for a missing key. `W` identifies a waiting request.
#[derive(Debug, Clone)]
pub struct NodeAttributes<W> {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    waiting: BTreeMap<Vec<u8>, Vec<W>>,
    waiters: usize,
}

impl<W> NodeAttributes<W> {
    /// An empty store without waiting requests.
    pub fn new() -> Self {
        Self { values: BTreeMap::new(), bytes: 0, waiting: BTreeMap::new(), waiters: 0 }
    }

    /// Stores a pair and replaces an earlier pair with this key. Returns the requests that waited for it, in the order
    /// of their arrival.
    ///
    /// # Errors
    ///
    /// [`PutError::Full`] if all pairs together would pass [`MAX_NODE_ATTRIBUTE_BYTES`]; nothing changes then.
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

    /// Adds a request that waits for a missing key.
    ///
    /// # Errors
    ///
    /// [`PutError::Full`] if [`MAX_NODE_WAITERS`] requests wait already.
    pub fn wait(&mut self, key: &[u8], waiter: W) -> Result<(), PutError> {
        debug_assert!(self.get(key).is_none(), "no request waits for an existing key");
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

/// The bytes that a pair counts towards [`MAX_NODE_ATTRIBUTE_BYTES`].
fn cost(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + NODE_ATTRIBUTE_COST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_waiting_request_is_returned_once_and_in_order() {
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
    fn a_full_store_refuses_a_pair_and_does_not_change() {
        let mut attributes = NodeAttributes::new();
        let half = vec![b'x'; MAX_NODE_ATTRIBUTE_BYTES / 2];
        assert_eq!(attributes.put(b"a", &half), Ok(vec![]));
        attributes.wait(b"b", 1).unwrap();
        assert_eq!(attributes.put(b"b", &half), Err(PutError::Full));
        assert_eq!(attributes.put(b"a", b""), Ok(vec![]));
        assert_eq!(attributes.put(b"b", &half), Ok(vec![1]));
    }

    #[test]
    fn waiting_requests_are_bounded_and_leave_room_when_they_are_answered() {
        let mut attributes = NodeAttributes::new();
        for waiter in 0..MAX_NODE_WAITERS {
            attributes.wait(if waiter == 7 { b"b" } else { b"a" }, waiter).unwrap();
        }
        assert_eq!(attributes.wait(b"c", 0), Err(PutError::Full));
        assert_eq!(attributes.put(b"b", b""), Ok(vec![7]));
        attributes.wait(b"c", 0).unwrap();
    }
}
