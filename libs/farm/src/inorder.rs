//! Results in the order of their tasks.

use std::collections::BTreeMap;

use crate::TaskId;

/// Holds results until all earlier ones are there. The owner names the numbers that will have no result.
#[derive(Debug)]
pub struct InOrder<T> {
    next: u64,
    /// `None`: it will have no result.
    held: BTreeMap<u64, Option<T>>,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self { next: 1, held: BTreeMap::new() }
    }
}

impl<T> InOrder<T> {
    pub fn add(&mut self, id: TaskId, result: T) {
        self.held.insert(id.0, Some(result));
    }

    /// This number will have no result.
    pub fn skip(&mut self, id: TaskId) {
        self.held.insert(id.0, None);
    }

    /// The next result in order, if it is there.
    pub fn next_ready(&mut self) -> Option<T> {
        loop {
            let result = self.held.remove(&self.next)?;
            self.next += 1;
            if let Some(result) = result {
                return Some(result);
            }
        }
    }

    /// The next result, even if earlier ones are missing: none of them will come.
    pub fn next_of_rest(&mut self) -> Option<T> {
        while let Some((_, result)) = self.held.pop_first() {
            if let Some(result) = result {
                return Some(result);
            }
        }
        None
    }
}
