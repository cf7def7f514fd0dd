//! What is told of ranks that crashed and were caught: where they were, those that were in one place together.

use std::collections::BTreeMap;

use mpd_debug::stacks::Stacks;
use mpd_wire::job::Crash;
use mpd_wire::{Rank, RankSet};

/// Crashes that were not told yet, by signal.
#[derive(Debug, Default)]
pub struct Crashes {
    stacks: BTreeMap<u8, Stacks>,
    problems: BTreeMap<String, RankSet>,
}

impl Crashes {
    /// A process of the rank crashed.
    pub fn add(&mut self, rank: Rank, crash: &Crash) {
        let ranks = RankSet::from_ranges(vec![(rank.0, rank.0)]);
        for stack in &crash.stacks {
            self.stacks.entry(crash.signal).or_default().add(&ranks, stack);
        }
        if let (true, Some(problem)) = (crash.stacks.is_empty(), &crash.problem) {
            self.problems.entry(problem.clone()).or_insert_with(RankSet::none).join(&ranks);
        }
    }

    /// The lines to tell, once.
    pub fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let mut lines = Vec::new();
        for (signal, stacks) in std::mem::take(&mut self.stacks) {
            let name = signal_name(signal);
            lines.push(format!("where ranks were when {name} came:"));
            lines.extend(stacks.text().lines().map(|line| format!("  {line}")));
        }
        for (problem, ranks) in std::mem::take(&mut self.problems) {
            lines.push(format!("ranks {ranks} crashed, and where is not known: {problem}"));
        }
        lines.into_iter()
    }
}

pub(crate) fn signal_name(number: u8) -> String {
    let signal = nix::sys::signal::Signal::try_from(i32::from(number));
    signal.map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_in_one_place_are_told_together_and_once() {
        let mut crashes = Crashes::default();
        let crash = |stack: &str| Crash {
            signal: 11,
            stacks: vec![format!("main at a.c:9\t{stack}")],
            problem: None,
            held: false,
        };
        for rank in [3, 1, 2] {
            crashes.add(Rank(rank), &crash("work at a.c:3"));
        }
        let unknown =
            Crash { signal: 6, stacks: Vec::new(), problem: Some("no gdb".into()), held: false };
        crashes.add(Rank(0), &unknown);
        let lines: Vec<String> = crashes.lines().collect();
        assert_eq!(
            lines,
            [
                "where ranks were when SIGSEGV came:",
                "  1-3: main at a.c:9",
                "    1-3: work at a.c:3",
                "ranks 0 crashed, and where is not known: no gdb",
            ]
        );
        assert_eq!(crashes.lines().count(), 0);
    }
}
