//! The messages about crashed ranks: the positions of the crashes, with equal positions joined.

use std::collections::BTreeMap;

use mpd_debug::stacks::Stacks;
use mpd_io::process::signals;
use mpd_wire::job::Crash;
use mpd_wire::{Rank, RankSet};

/// Crashes without a message yet, by signal.
#[derive(Debug, Default)]
pub struct Crashes {
    stacks: BTreeMap<u8, Stacks>,
    problems: BTreeMap<String, RankSet>,
}

impl Crashes {
    /// Adds the crash of a process of the rank.
    pub fn add(&mut self, rank: Rank, crash: &Crash) {
        let ranks = RankSet::from_ranges(vec![(rank.0, rank.0)]);
        for stack in &crash.stacks {
            self.stacks.entry(crash.signal).or_default().add(&ranks, stack);
        }
        if let (true, Some(problem)) = (crash.stacks.is_empty(), &crash.problem) {
            self.problems.entry(problem.clone()).or_insert_with(RankSet::none).join(&ranks);
        }
    }

    /// The lines of the messages; each crash is reported once.
    pub fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let mut lines = Vec::new();
        for (signal, stacks) in std::mem::take(&mut self.stacks) {
            let name = signals::name(signal.into());
            lines.push(format!("positions of ranks at {name}:"));
            lines.extend(stacks.text().lines().map(|line| format!("  {line}")));
        }
        for (problem, ranks) in std::mem::take(&mut self.problems) {
            lines.push(format!("ranks {ranks} crashed; their positions are not known: {problem}"));
        }
        lines.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_at_one_position_are_reported_together_and_once() {
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
                "positions of ranks at SIGSEGV:",
                "  1-3: main at a.c:9",
                "    1-3: work at a.c:3",
                "ranks 0 crashed; their positions are not known: no gdb",
            ]
        );
        assert_eq!(crashes.lines().count(), 0);
    }
}
