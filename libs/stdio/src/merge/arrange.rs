//! The order in which complete answers of several ranks are shown.
//!
//! The merger adds a line that no other rank wrote at the end of the queue, and the rank's later
//! lines after it. Equal lines of several ranks can then be in several entries. When no more lines
//! come, such entries are joined. An entry whose text another rank has yet to give waits for that
//! rank, as long as another entry can come first.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::{Entry, RankPositions};

/// The sort key of an entry among several that may come first: its position between the programs'
/// lines, its lowest rank, and its index, which is the order of arrival.
type Key = (usize, Option<u32>, usize);

struct Arrangement {
    entries: Vec<Option<Entry>>,
    keys: Vec<Key>,
    /// For each entry the entries that are the next ones of some of its ranks.
    followers: Vec<Vec<usize>>,
    /// For each entry the number of entries that it still follows.
    waits: Vec<usize>,
    /// For each entry the number of its text.
    texts: Vec<usize>,
    /// For each text the entries that still wait.
    deep: Vec<BTreeSet<usize>>,
    /// Entries that follow no other entry.
    heads: BTreeSet<Key>,
}

/// The same entries, or fewer with more ranks. The order of each rank's own entries is kept. The
/// order of the programs' lines is kept as well, unless the answers of different ranks contradict
/// it.
pub(super) fn arranged(entries: Vec<Entry>, positions: &RankPositions) -> Vec<Entry> {
    let mut arrangement = Arrangement::new(entries, positions);
    std::iter::from_fn(|| arrangement.next()).collect()
}

impl Arrangement {
    fn new(entries: Vec<Entry>, positions: &RankPositions) -> Self {
        let count = entries.len();
        let mut numbers: BTreeMap<Rc<[u8]>, usize> = BTreeMap::new();
        let mut last = vec![None; positions.len()];
        let mut new = Self {
            entries: Vec::with_capacity(count),
            keys: Vec::with_capacity(count),
            followers: vec![Vec::new(); count],
            waits: vec![0; count],
            texts: Vec::with_capacity(count),
            deep: Vec::new(),
            heads: BTreeSet::new(),
        };
        let mut part = 0;
        for (at, entry) in entries.into_iter().enumerate() {
            part += usize::from(entry.is_output());
            let lowest = entry.ranks.ranges().first().map(|range| range.0);
            new.keys.push((part, lowest, at));
            part += usize::from(entry.is_output());
            let number = numbers.len();
            let number = *numbers.entry(Rc::clone(&entry.text)).or_insert(number);
            new.texts.push(number);
            new.deep.resize_with(numbers.len(), BTreeSet::new);
            for position in entry.ranks.ranks().filter_map(|rank| positions.of(rank)) {
                let Some(before) = last[position].replace(at) else { continue };
                if new.followers[before].last() != Some(&at) {
                    new.followers[before].push(at);
                    new.waits[at] += 1;
                }
            }
            if new.waits[at] == 0 {
                new.heads.insert(new.keys[at]);
            } else {
                new.deep[number].insert(at);
            }
            new.entries.push(Some(entry));
        }
        new
    }

    fn next(&mut self) -> Option<Entry> {
        let free = self.heads.iter().find(|key| !self.is_to_wait(key.2));
        let key = *free.or(self.heads.first())?;
        self.heads.remove(&key);
        let mut entry = self.entries[key.2].take()?;
        let mut taken = vec![key.2];
        if !entry.is_output() {
            let text = self.texts[key.2];
            taken.extend(self.heads.iter().map(|key| key.2).filter(|at| self.texts[*at] == text));
        }
        for at in taken {
            self.heads.remove(&self.keys[at]);
            if let Some(same) = self.entries[at].take() {
                entry.ranks.join(&same.ranks);
            }
            for follower in std::mem::take(&mut self.followers[at]) {
                self.waits[follower] -= 1;
                if self.waits[follower] == 0 {
                    self.deep[self.texts[follower]].remove(&follower);
                    self.heads.insert(self.keys[follower]);
                }
            }
        }
        Some(entry)
    }

    /// Whether other ranks have yet to give the same answer.
    fn is_to_wait(&self, at: usize) -> bool {
        let Some(entry) = self.entries[at].as_ref().filter(|entry| !entry.is_output()) else {
            return false;
        };
        let others = self.deep[self.texts[at]].iter().filter_map(|at| self.entries[*at].as_ref());
        others.into_iter().any(|other| !other.ranks.meets(&entry.ranks))
    }
}
