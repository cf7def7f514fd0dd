//! The debugger for crashed ranks: when it opens, and whether it has the terminal. Pure.

use mpd_sansio::Time;
use mpd_wire::{Rank, RankSet};

use crate::held::CrashedRanks;
use crate::processes::Processes;

/// The state of the debugger.
#[derive(Debug)]
pub(super) struct Debugger {
    held: CrashedRanks,
    state: State,
    /// Whether the job continues after failures.
    continues_on_failure: bool,
}

#[derive(Debug)]
enum State {
    Closed,
    /// The debugger opens for these ranks as soon as mpirun has the terminal.
    Wanted {
        ranks: RankSet,
        /// Whether the user was informed that the debugger waits for the terminal.
        is_reported: bool,
    },
    Open,
}

/// The consequence of a check of the terminal.
#[derive(Debug)]
pub(super) enum Turn {
    /// Open the debugger for these ranks.
    Open(RankSet),
    /// Inform the user that the debugger waits.
    Waits,
}

impl Debugger {
    pub(super) fn new(continues_on_failure: bool) -> Self {
        Self { held: CrashedRanks::default(), state: State::Closed, continues_on_failure }
    }

    /// Handles the crash of a rank whose process is held. Returns whether to release all held
    /// processes at once.
    #[must_use]
    pub(super) fn add(&mut self, now: Time, rank: Rank, signal: u8) -> bool {
        self.held.add(now, rank, signal)
    }

    /// Whether processes are held for the debugger.
    pub(super) fn is_any(&self) -> bool {
        self.held.is_any()
    }

    /// Whether the debugger has the terminal.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whether the debugger waits for the terminal.
    pub(super) const fn wants_terminal(&self) -> bool {
        matches!(self.state, State::Wanted { .. })
    }

    /// The time for [`Debugger::want`].
    pub(super) const fn due(&self) -> Option<Time> {
        self.held.due()
    }

    /// Begins to wait for the terminal, if a session is due. Returns the crashes as text.
    pub(super) fn want(&mut self, now: Time, processes: &Processes) -> Option<String> {
        let opening = self.held.open(now, processes)?;
        self.state = State::Wanted { ranks: opening.ranks, is_reported: false };
        Some(opening.text)
    }

    /// Handles a check of the terminal: `is_ours` means that mpirun has it.
    pub(super) fn terminal(&mut self, is_ours: bool) -> Option<Turn> {
        let State::Wanted { ranks, is_reported } = &mut self.state else { return None };
        if is_ours {
            let ranks = std::mem::take(ranks);
            self.state = State::Open;
            return Some(Turn::Open(ranks));
        }
        (!std::mem::replace(is_reported, true)).then_some(Turn::Waits)
    }

    /// Handles the end of the debugger, or a failure to open it. Returns whether to release all
    /// held processes.
    #[must_use]
    pub(super) fn ended(&mut self, now: Time, was_session: bool) -> bool {
        self.state = State::Closed;
        self.held.close(now, was_session, self.continues_on_failure)
    }

    /// Handles a request of the user to end the job: a waiting debugger does not open. Returns
    /// whether to release all held processes.
    #[must_use]
    pub(super) fn give_up(&mut self, now: Time) -> bool {
        self.wants_terminal() && self.ended(now, false)
    }

    /// Handles the coming end of the job. Returns whether to release all held processes now. Those
    /// of an open debugger are released at its end.
    #[must_use]
    pub(super) fn forget(&mut self) -> bool {
        self.held.forget()
    }

    /// Handles the end of the job: only an open debugger continues.
    pub(super) fn finish(&mut self) {
        let _ = self.held.forget();
        if self.wants_terminal() {
            self.state = State::Closed;
        }
    }
}
