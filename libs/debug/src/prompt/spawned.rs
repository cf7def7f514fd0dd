//! Ranks that programs spawn. Each has a debugger from its start, which ends when its program ends.
//!
//! The prompt learns of such a rank by its first mark. The program that has spawned it usually waits
//! for it. Therefore the prompt starts its program at once, with the breakpoints that were set for
//! all ranks. If all ranks are addressed, the new rank is addressed too.

use super::debugger_line::{Mark, State};
use super::{Phase, Prompt, rank_or_ranks};
use mpd_wire::RankSet;

/// Most commands that are repeated for a spawned rank.
const MAX_BREAKPOINTS: usize = 64;

impl Prompt {
    pub(super) fn everybody(&self) -> RankSet {
        self.ranks.everybody()
    }

    /// Takes the first mark of spawned ranks. Returns the new ones.
    pub(super) fn admit_spawned(&mut self, ranks: &RankSet, mark: &Mark) -> RankSet {
        let is_first = mark.serial == 0 && mark.state == State::Idle;
        if !is_first || ranks.is_within(&self.everybody()) {
            return RankSet::none();
        }
        let are_addressed = !self.prompted && self.everybody().is_within(&self.addressed);
        let new = self.ranks.add(ranks);
        if are_addressed {
            self.addressed.join(&new);
        }
        new
    }

    /// Spawned ranks that have ended are not addressed. If no rank remains, all are addressed again.
    pub(super) fn address_living(&mut self) {
        let everybody = self.everybody();
        let mut gone = self.addressed.clone();
        gone.remove(&everybody);
        self.addressed.remove(&gone);
        if self.addressed.is_empty() {
            self.addressed = everybody;
        }
    }

    /// Starts the programs of new ranks.
    pub(super) fn start_spawned(&mut self, new: &RankSet) {
        if new.is_empty() || self.phase != Phase::Session {
            return;
        }
        let (was, has) = if new.count() == 1 { ("was", "has") } else { ("were", "have") };
        self.note(format!("{} {new} {was} spawned and {has} a debugger", rank_or_ranks(new)));
        if !self.breakpoints.is_empty() {
            self.report(new, "cli", "set breakpoint pending on");
        }
        for command in self.breakpoints.clone() {
            self.report(new, "cli", &command);
        }
        self.ranks.start(new);
        self.ask(new, "run", "run");
    }

    /// Notes a command for all ranks, if spawned ranks get it as well.
    pub(super) fn note_breakpoint(&mut self, line: &str) {
        let word = line.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        let is_breakpoint = matches!(
            word,
            "b" | "br" | "bre" | "brea" | "break" | "tb" | "tbreak" | "catch" | "handle"
        );
        if !self.everybody().is_within(&self.addressed) {
            return;
        }
        if line == "delete" {
            self.breakpoints.clear();
        } else if is_breakpoint && self.breakpoints.len() < MAX_BREAKPOINTS {
            self.breakpoints.push(line.to_owned());
        }
    }
}
