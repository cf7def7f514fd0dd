//! The sinks of a manager by number, and which of them may need attention.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use super::sink::Sink;

/// Sinks by number. The number of a removed sink is used again.
///
/// A sink that is lent for changes is *busy* until it is found quiet. With a file for each rank there are thousands, and
/// only busy ones are served in a turn.
#[derive(Debug, Default)]
pub(super) struct Sinks {
    sinks: Vec<Option<Sink>>,
    /// Unused numbers.
    free: Vec<usize>,
    busy: BTreeSet<usize>,
    /// Bytes that the outputs of quiet and removed sinks have accepted.
    taken: u64,
}

impl Sinks {
    /// The numbers of all sinks that are not known to be quiet.
    pub(super) fn busy(&self) -> Vec<usize> {
        self.busy.iter().copied().collect()
    }

    /// Those sinks.
    pub(super) fn busy_ones(&self) -> impl Iterator<Item = &Sink> {
        self.busy.iter().filter_map(|number| self.sinks.get(*number)?.as_ref())
    }

    /// Notes whether a sink is quiet: it needs no attention until it is lent for changes.
    pub(super) fn review(&mut self, number: usize) {
        let Some(Some(sink)) = self.sinks.get_mut(number) else { return };
        if sink.is_quiet() {
            self.taken += std::mem::take(&mut sink.taken);
            self.busy.remove(&number);
        }
    }

    /// Bytes that all outputs have accepted.
    pub(super) fn taken(&self) -> u64 {
        self.taken + self.busy_ones().map(|sink| sink.taken).sum::<u64>()
    }

    /// All sinks, for changes.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Sink> {
        // The number of a removed sink has no sink.
        let used = self.sinks.iter().enumerate().filter(|(_, sink)| sink.is_some());
        self.busy.extend(used.map(|(number, _)| number));
        self.sinks.iter_mut().flatten()
    }

    /// Adds a sink and returns its number.
    pub(super) fn add(&mut self, sink: Sink) -> usize {
        let number = self.free.pop().unwrap_or(self.sinks.len());
        match self.sinks.get_mut(number) {
            Some(slot) => *slot = Some(sink),
            None => self.sinks.push(Some(sink)),
        }
        self.busy.insert(number);
        number
    }

    /// Removes a sink.
    pub(super) fn remove(&mut self, number: usize) {
        if let Some(sink) = self.sinks.get_mut(number).and_then(Option::take) {
            self.taken += sink.taken;
            self.busy.remove(&number);
            self.free.push(number);
        }
    }
}

impl FromIterator<Sink> for Sinks {
    fn from_iter<T: IntoIterator<Item = Sink>>(sinks: T) -> Self {
        let mut all = Self::default();
        sinks.into_iter().for_each(|sink| {
            all.add(sink);
        });
        all
    }
}

impl Index<usize> for Sinks {
    type Output = Sink;

    fn index(&self, number: usize) -> &Sink {
        self.sinks[number].as_ref().expect("a sink exists as long as its number is in use")
    }
}

impl IndexMut<usize> for Sinks {
    fn index_mut(&mut self, number: usize) -> &mut Sink {
        self.busy.insert(number);
        self.sinks[number].as_mut().expect("a sink exists as long as its number is in use")
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::Stream;
    use mpd_wire::job::OutputSpec;

    use super::*;

    #[test]
    fn a_sink_is_busy_from_its_last_change_until_it_is_found_quiet() {
        let sink = |_| Sink::parent(1000, Stream::Out, &OutputSpec::default());
        let mut sinks: Sinks = (0..3).map(sink).collect();
        assert_eq!(sinks.busy(), [0, 1, 2]);
        (0..3).for_each(|number| sinks.review(number));
        assert!(sinks.busy().is_empty());
        sinks[1].taken += 5;
        sinks[2].blocked.push((mpd_wire::Rank(7), Stream::Out));
        assert_eq!((sinks.busy(), sinks.taken()), (vec![1, 2], 5));
        (0..3).for_each(|number| sinks.review(number));
        assert_eq!((sinks.busy(), sinks.taken()), (vec![2], 5), "a source waits for it");
        sinks.remove(2);
        assert!(sinks.busy().is_empty());
        assert_eq!(sinks.add(sink(2)), 2, "its number is used again");
        sinks.iter_mut().for_each(|sink| sink.taken += 1);
        assert_eq!((sinks.busy().len(), sinks.taken()), (3, 8));
        sinks.remove(1);
        sinks.iter_mut().for_each(drop);
        assert_eq!(sinks.busy(), [0, 2], "a removed sink is not looked at");
    }
}
