//! The search for ranks that run alone: their MPI library does not speak PMI.

use std::time::Duration;

use mpd_job::manager::Input as JobInput;
use mpd_wire::Rank;

use crate::errand::Waiting;
use crate::output::{Action, Line, Output, Question};
use crate::ranks::{Context, Ranks, Search};

/// The time before the first search for ranks that run alone. A rank has hardly initialised its MPI library before, and
/// many jobs are over, which then need no helper.
pub(crate) const FIRST_SEARCH: Duration = Duration::from_millis(60);

/// The interval to the next search. Later intervals double, up to 10 s.
const NEXT_SEARCH: Duration = Duration::from_millis(80);

/// How often that interval is doubled.
const MOST_DOUBLINGS: u8 = 7;

/// Most ranks that one look examines. The next look examines further ones. The ranks of a world usually run the same
/// program, so the first look decides.
const RANKS_PER_LOOK: usize = 64;

impl Ranks {
    /// Begins to look, since all ranks here were started. In a world of one rank, a rank alone is normal. Of ranks under
    /// our debugger the user decides.
    pub(crate) fn watch_alone(&mut self, Context { now, job, .. }: Context<'_>) {
        let spec = &job.spec;
        if spec.size() > 1 && spec.debug.is_none() && !spec.allow_alone {
            self.looks.set(0, now + FIRST_SEARCH);
        }
    }

    pub(crate) fn look_for_alone(&mut self, Context { now, job, .. }: Context<'_>, is_idle: bool) {
        let Some(looks) = self.looks.pop_expired(now) else { return };
        if self.search == Search::Decided {
            return;
        }
        self.looks.set((looks + 1).min(MOST_DOUBLINGS), now + NEXT_SEARCH * (1 << looks));
        if !is_idle {
            return;
        }
        let some = self.table.next_children(&mut self.examined, RANKS_PER_LOOK);
        let first: Vec<_> = some.into_iter().filter(|(rank, _)| job.is_first(*rank)).collect();
        if self.search == Search::Idle && !first.is_empty() {
            self.ask(Question::Search(first), Waiting::Search);
        }
    }

    pub(crate) fn take_found(&mut self, found: Option<(Rank, String)>) {
        self.search = if found.is_some() { Search::Decided } else { Search::Idle };
        if let Some((rank, library)) = found {
            self.report(Output::Act(Action::Log(Line::Alone(rank, library.clone()))));
            self.post(JobInput::Alone(rank, library));
        }
    }

    pub(crate) fn pause_search(&mut self) {
        if self.search == Search::Running {
            self.end_search(Search::Idle);
        }
    }

    /// Ends a running helper.
    pub(crate) fn end_search(&mut self, next: Search) {
        if self.search == Search::Running {
            self.report(Output::Act(Action::EndSearch));
        }
        self.search = next;
    }
}
