//! The state of a rank's launcher shim, and the orders for it.

use std::collections::VecDeque;

use mpd_debug::shim::Abilities;
use mpd_wire::job::{Crash, RankEnd};
use mpd_wire::message::{
    COMMAND_CREDIT, MAX_DEBUG_LINE, ProgramEnd, ShimOrder, ShimReport, pieces_of_command,
};

/// Most crashes of one rank that are reported, besides held ones. Each is some kilobytes.
const MAX_CRASHES: usize = 4;

/// Most bytes of commands that wait for credit.
const MAX_WAITING: usize = 8 * MAX_DEBUG_LINE;

const SIGTERM: i32 = 15;

/// SIGKILL, SIGCONT and SIGSTOP reach the processes of a rank without their shim, since a shim cannot handle them or is
/// stopped itself.
const DIRECT: [i32; 3] = [9, 18, 19];

/// A report that concerns others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Crashed(Crash),
    /// A mark, with the number of bytes of output before it.
    Mark(u64, String),
    /// The shim has started this process.
    Started(u32),
}

/// The state of a shim's orders and reports.
#[derive(Debug)]
pub(crate) struct Shim {
    abilities: Abilities,
    /// Pieces of commands that wait for credit.
    commands: VecDeque<ShimOrder>,
    credit: usize,
    /// Reported crashes, besides held ones.
    reported: usize,
    /// The number of reports of held processes, and how many of these processes were continued.
    held: u32,
    continued: u32,
    end: Option<ProgramEnd>,
}

impl Shim {
    pub(crate) const fn new(abilities: Abilities) -> Self {
        Self {
            abilities,
            commands: VecDeque::new(),
            credit: COMMAND_CREDIT,
            reported: 0,
            held: 0,
            continued: 0,
            end: None,
        }
    }

    /// Whether the program runs under gdb.
    pub(crate) const fn is_debugger(&self) -> bool {
        self.abilities.gdb
    }

    /// The order that sets the size of the program's terminal, if it has one.
    pub(crate) fn resize(&self, size: (u16, u16)) -> Option<ShimOrder> {
        resize(self.abilities, size)
    }

    /// The order by which a signal reaches the program's group. `None` if the program is in the group of the shim, or
    /// gets the signal directly.
    pub(crate) fn order_of(&self, signal: i32) -> Option<ShimOrder> {
        let is_separate = self.abilities.terminal || self.abilities.gdb;
        let order = match signal {
            SIGTERM if self.abilities.gdb => ShimOrder::Quit,
            signal => ShimOrder::Signal { signal },
        };
        (is_separate && !DIRECT.contains(&signal)).then_some(order)
    }

    // ----- commands -----

    /// Queues a command for gdb. Whether there was room.
    pub(crate) fn queue(&mut self, line: &str) -> bool {
        let waiting: usize = self.commands.iter().map(length).sum();
        if waiting + line.len() > MAX_WAITING {
            return false;
        }
        self.commands.extend(pieces_of_command(line));
        true
    }

    /// The next piece of a command, if the shim takes it.
    pub(crate) fn next_command(&self) -> Option<ShimOrder> {
        self.commands.front().filter(|piece| length(piece) <= self.credit).cloned()
    }

    /// The next piece was sent.
    pub(crate) fn note_sent(&mut self) {
        if let Some(piece) = self.commands.pop_front() {
            self.credit -= length(&piece);
        }
    }

    pub(crate) fn forget_commands(&mut self) {
        self.commands.clear();
    }

    /// Continues the held processes that were reported, so that they die of their signals.
    pub(crate) fn continue_held(&mut self) -> Option<ShimOrder> {
        if self.continued == self.held {
            return None;
        }
        self.continued = self.held;
        Some(ShimOrder::Continue { crashes: self.held })
    }

    // ----- reports -----

    /// Takes a report.
    pub(crate) fn take(&mut self, report: ShimReport) -> Option<News> {
        match report {
            ShimReport::Started { pid } => return Some(News::Started(pid)),
            ShimReport::Crashed(crash) if crash.held => {
                self.held += 1;
                return Some(News::Crashed(crash));
            }
            ShimReport::Crashed(crash) => {
                self.reported += 1;
                return (self.reported <= MAX_CRASHES).then_some(News::Crashed(crash));
            }
            ShimReport::Mark { after, text } => return Some(News::Mark(after, text)),
            ShimReport::Commands { more } => {
                self.credit = self.credit.saturating_add(more as usize).min(COMMAND_CREDIT);
            }
            ShimReport::Ended(end) => self.end = Some(end),
        }
        None
    }

    /// The end of the program, if the shim has reported it.
    pub(crate) fn end(&self) -> Option<RankEnd> {
        match self.end.as_ref()? {
            ProgramEnd::Exited(code) => Some(RankEnd::Exited(*code)),
            ProgramEnd::Killed { signal, core } => {
                Some(RankEnd::Signaled { signal: *signal, core: *core })
            }
            ProgramEnd::NotStarted { .. } => None,
        }
    }

    /// Why the program did not start: the step and the error number.
    pub(crate) fn failure(&self) -> Option<(&str, i32)> {
        match self.end.as_ref()? {
            ProgramEnd::NotStarted { step, errno } => Some((step, *errno)),
            ProgramEnd::Exited(_) | ProgramEnd::Killed { .. } => None,
        }
    }
}

/// The order that sets the size of the terminal of a program, if its shim has that ability. Columns and lines.
pub fn resize(abilities: Abilities, (columns, lines): (u16, u16)) -> Option<ShimOrder> {
    abilities.terminal.then_some(ShimOrder::Resize { columns, lines })
}

fn length(order: &ShimOrder) -> usize {
    match order {
        ShimOrder::Command { piece, .. } => piece.len(),
        ShimOrder::Connect
        | ShimOrder::Resize { .. }
        | ShimOrder::Signal { .. }
        | ShimOrder::Continue { .. }
        | ShimOrder::Marks { .. }
        | ShimOrder::Quit => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_held_process_is_reported_and_only_reported_processes_continue() {
        let mut shim = Shim::new(Abilities::default());
        assert_eq!(shim.continue_held(), None, "nothing is held");
        let report = |held| ShimReport::Crashed(Crash { held, ..Crash::held(11) });
        let reported =
            |shim: &mut Shim, held| (0..9).filter_map(|_| shim.take(report(held))).count();
        assert_eq!(reported(&mut shim, true), 9);
        assert_eq!(shim.continue_held(), Some(ShimOrder::Continue { crashes: 9 }));
        assert_eq!(shim.continue_held(), None);
        assert_eq!(reported(&mut shim, false), MAX_CRASHES);
    }

    #[test]
    fn commands_for_a_shim_that_does_not_read_are_bounded() {
        let mut shim = Shim::new(Abilities { gdb: true, ..Abilities::default() });
        let line = "x".repeat(MAX_DEBUG_LINE);
        let taken = (0..100).take_while(|_| shim.queue(&line)).count();
        assert_eq!(taken, 8);
        assert!(!shim.queue(&line));
    }

    #[test]
    fn a_long_command_is_sent_whole_once_the_shim_grants_credit() {
        let mut shim = Shim::new(Abilities { gdb: true, ..Abilities::default() });
        let line = "0123456789".repeat(12_000);
        let mut got = String::new();
        for _ in 0..2 {
            assert!(shim.queue(&line));
            while let Some(ShimOrder::Command { piece, .. }) = shim.next_command() {
                shim.note_sent();
                got += &piece;
                let more = u32::try_from(piece.len()).unwrap();
                assert_eq!(shim.take(ShimReport::Commands { more }), None);
            }
        }
        assert_eq!(got, line.repeat(2));
    }

    #[test]
    fn without_credit_no_command_is_sent() {
        let mut shim = Shim::new(Abilities { gdb: true, ..Abilities::default() });
        let (line, mut sent) = ("x".repeat(MAX_DEBUG_LINE), 0);
        while shim.queue(&line) {
            while let Some(piece) = shim.next_command() {
                shim.note_sent();
                sent += length(&piece);
            }
        }
        assert!(sent <= COMMAND_CREDIT && !shim.commands.is_empty(), "{sent}");
    }

    #[test]
    fn signals_to_a_separate_group_go_through_the_shim_and_to_the_shim_s_own_group_directly() {
        assert_eq!(Shim::new(Abilities::default()).order_of(SIGTERM), None);
        let shim = Shim::new(Abilities { terminal: true, ..Abilities::default() });
        assert_eq!(shim.order_of(SIGTERM), Some(ShimOrder::Signal { signal: SIGTERM }));
        assert!(DIRECT.iter().all(|&signal| shim.order_of(signal).is_none()));
        let debugger = Shim::new(Abilities { gdb: true, ..Abilities::default() });
        assert_eq!(debugger.order_of(SIGTERM), Some(ShimOrder::Quit));
    }

    #[test]
    fn the_end_that_a_shim_reports_is_that_of_the_rank() {
        let mut shim = Shim::new(Abilities::default());
        shim.take(ShimReport::Ended(ProgramEnd::Killed { signal: 11, core: true }));
        assert_eq!(shim.end(), Some(RankEnd::Signaled { signal: 11, core: true }));
        assert_eq!(shim.failure(), None);
    }
}
