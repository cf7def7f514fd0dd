//! The debugger that opens at crashed ranks: who waits for it, and whether it has the terminal. Pure.

use mpd_machine::Time;
use mpd_wire::{Rank, RankSet};

use crate::held::Held;
use crate::processes::Processes;

/// See the module.
#[derive(Debug)]
pub(super) struct Debugger {
    held: Held,
    state: State,
    /// Failures do not end the job.
    goes_on: bool,
}

#[derive(Debug)]
enum State {
    Closed,
    /// It opens at these ranks as soon as the terminal is ours.
    Wanted {
        ranks: RankSet,
        /// The user knows that it waits for the terminal.
        is_told: bool,
    },
    Open,
}

/// What follows from who has the terminal.
#[derive(Debug)]
pub(super) enum Turn {
    /// It opens at these ranks.
    Open(RankSet),
    /// The user is to read that it waits.
    Waits,
}

impl Debugger {
    pub(super) fn new(goes_on: bool) -> Self {
        Self { held: Held::default(), state: State::Closed, goes_on }
    }

    /// A process of the rank is held. Whether it is to be let go at once.
    #[must_use]
    pub(super) fn add(&mut self, now: Time, rank: Rank, signal: u8) -> bool {
        self.held.add(now, rank, signal)
    }

    /// Whether what is held is the debugger's now, or about to be.
    pub(super) fn is_any(&self) -> bool {
        self.held.is_any()
    }

    /// Whether it has the terminal.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whether it waits for the terminal.
    pub(super) const fn wants_terminal(&self) -> bool {
        matches!(self.state, State::Wanted { .. })
    }

    /// When [`Debugger::want`] has something to say.
    pub(super) const fn due(&self) -> Option<Time> {
        self.held.due()
    }

    /// If it is due, it waits for the terminal from now on; who crashed.
    pub(super) fn want(&mut self, now: Time, processes: &Processes) -> Option<String> {
        let opening = self.held.open(now, processes)?;
        self.state = State::Wanted { ranks: opening.ranks, is_told: false };
        Some(opening.who)
    }

    /// Who has the terminal.
    pub(super) fn terminal(&mut self, is_ours: bool) -> Option<Turn> {
        let State::Wanted { ranks, is_told } = &mut self.state else { return None };
        if is_ours {
            let ranks = std::mem::take(ranks);
            self.state = State::Open;
            return Some(Turn::Open(ranks));
        }
        (!std::mem::replace(is_told, true)).then_some(Turn::Waits)
    }

    /// It was left, or could not be opened. Whether all that is held is to be let go.
    #[must_use]
    pub(super) fn ended(&mut self, now: Time, was_session: bool) -> bool {
        self.state = State::Closed;
        self.held.close(now, was_session, self.goes_on)
    }

    /// The user ends the job: a debugger that waits for the terminal does not open. Whether all that is held is to
    /// be let go.
    #[must_use]
    pub(super) fn give_up(&mut self, now: Time) -> bool {
        self.wants_terminal() && self.ended(now, false)
    }

    /// The job is about to end. Whether all that is held is to be let go now; what the debugger is open at is let go
    /// when that is left.
    #[must_use]
    pub(super) fn forget(&mut self) -> bool {
        self.held.forget()
    }

    /// The job has ended: only a debugger that is open already goes on.
    pub(super) fn finish(&mut self) {
        let _ = self.held.forget();
        if self.wants_terminal() {
            self.state = State::Closed;
        }
    }
}
