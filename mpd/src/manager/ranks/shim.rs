//! The manager's side of a rank's launcher shim: orders and reports. Nothing here blocks.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;

use mpd_debug::shim::Abilities;
use mpd_io::network::control::{Control, Received};
use mpd_wire::job::{Crash, RankEnd};
use mpd_wire::message::{
    COMMAND_CREDIT, MAX_DEBUG_LINE, ProgramEnd, ShimOrder, ShimReport, pieces_of_command,
};

/// Most crashes of one rank that are reported, besides held ones. Each is some kilobytes.
const MAX_CRASHES: usize = 4;

/// Most bytes of commands that wait for credit.
const MAX_WAITING: usize = 8 * MAX_DEBUG_LINE;

/// Most reports that are read before other ranks have their turn.
const AT_ONCE: usize = 128;

/// Signals that reach the processes of a rank without their shim, since a shim cannot handle them or is stopped
/// itself.
const DIRECT: [i32; 3] = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCONT];

/// The reports of a shim.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reports {
    pub(super) crashes: Vec<Crash>,
    /// Marks, each with the number of bytes of output before it.
    pub(super) marks: Vec<(u64, String)>,
    /// Whether more reports may wait.
    pub(super) are_more: bool,
}

/// The control socket of a shim, and the state of its orders and reports.
#[derive(Debug)]
pub(super) struct Shim {
    control: Control,
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
    /// The shim at the other end of `control`.
    pub(super) const fn new(control: Control, abilities: Abilities) -> Self {
        Self {
            control,
            abilities,
            commands: VecDeque::new(),
            credit: COMMAND_CREDIT,
            reported: 0,
            held: 0,
            continued: 0,
            end: None,
        }
    }

    /// The descriptor of the shim's reports.
    pub(super) fn descriptor(&self) -> RawFd {
        self.control.as_raw_fd()
    }

    /// Whether the program runs under gdb.
    pub(super) const fn is_debugger(&self) -> bool {
        self.abilities.gdb
    }

    /// Passes the program's end of a new PMI connection to the shim. Returns the manager's end.
    ///
    /// # Errors
    /// There is no descriptor, or no shim.
    pub(super) fn connect(&mut self) -> io::Result<UnixStream> {
        let (pmi, program) = UnixStream::pair()?;
        self.control.send(&ShimOrder::Connect, Some(program.into()))?;
        Ok(pmi)
    }

    /// Sets the size of the program's terminal.
    pub(super) fn resize(&mut self, (columns, lines): (u16, u16)) {
        if self.abilities.terminal {
            let _ = self.control.send(&ShimOrder::Resize { columns, lines }, None);
        }
    }

    /// Sends a signal through the shim to the program's group. Returns `false` if the program is in the group of
    /// the shim, or if the shim accepts no more orders.
    pub(super) fn signal(&mut self, signal: i32) -> bool {
        let separate = self.abilities.terminal || self.abilities.gdb;
        let order = match signal {
            libc::SIGTERM if self.abilities.gdb => ShimOrder::Quit,
            signal => ShimOrder::Signal { signal },
        };
        separate && !DIRECT.contains(&signal) && self.control.send(&order, None).is_ok()
    }

    /// Queues a command for gdb. Whether there was room.
    pub(super) fn command(&mut self, line: &str) -> bool {
        let waiting: usize = self.commands.iter().map(length).sum();
        if waiting + line.len() > MAX_WAITING {
            return false;
        }
        self.commands.extend(pieces_of_command(line));
        self.send_commands();
        true
    }

    fn send_commands(&mut self) {
        while let Some(piece) = self.commands.front()
            && length(piece) <= self.credit
        {
            match self.control.send(piece, None) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // Without a shim no process executes the commands.
                Err(_) => return self.commands.clear(),
                Ok(()) => {
                    self.credit -= length(piece);
                    self.commands.pop_front();
                }
            }
        }
    }

    /// Continues the held processes that were reported, so that they die of their signals.
    pub(super) fn continue_held(&mut self) {
        if self.continued < self.held {
            self.continued = self.held;
            let _ = self.control.send(&ShimOrder::Continue { crashes: self.held }, None);
        }
    }

    /// Gives credit for another mark, since one was passed on.
    pub(super) fn grant_mark(&mut self) {
        let _ = self.control.send(&ShimOrder::Marks { more: 1 }, None);
    }

    /// Sends queued orders and reads reports.
    ///
    /// # Errors
    /// The other end breaks the protocol.
    pub(super) fn exchange(&mut self) -> io::Result<Reports> {
        // If the other end is closed, its last reports can still be read.
        let _ = self.control.flush();
        let mut reports = Reports { are_more: true, ..Reports::default() };
        for _ in 0..AT_ONCE {
            match self.control.receive()? {
                Received::Message(report, _) => self.take(report, &mut reports),
                Received::Nothing | Received::Closed => {
                    reports.are_more = false;
                    break;
                }
            }
        }
        self.send_commands();
        Ok(reports)
    }

    fn take(&mut self, report: ShimReport, reports: &mut Reports) {
        match report {
            ShimReport::Started { pid } => log::debug!("the shim has started process {pid}"),
            ShimReport::Crashed(crash) if crash.held => {
                self.held += 1;
                reports.crashes.push(crash);
            }
            ShimReport::Crashed(crash) => {
                self.reported += 1;
                if self.reported <= MAX_CRASHES {
                    reports.crashes.push(crash);
                }
            }
            ShimReport::Mark { after, text } => reports.marks.push((after, text)),
            ShimReport::Commands { more } => {
                self.credit = self.credit.saturating_add(more as usize).min(COMMAND_CREDIT);
            }
            ShimReport::Ended(end) => self.end = Some(end),
        }
    }

    /// The end of the program, if the shim has reported it.
    pub(super) fn end(&self) -> Option<RankEnd> {
        match self.end.as_ref()? {
            ProgramEnd::Exited(code) => Some(RankEnd::Exited(*code)),
            ProgramEnd::Killed { signal, core } => {
                Some(RankEnd::Signaled { signal: *signal, core: *core })
            }
            ProgramEnd::NotStarted { .. } => None,
        }
    }

    /// Why the program did not start: the step and the error number.
    pub(super) fn failure(&self) -> Option<(&str, i32)> {
        match self.end.as_ref()? {
            ProgramEnd::NotStarted { step, errno } => Some((step, *errno)),
            ProgramEnd::Exited(_) | ProgramEnd::Killed { .. } => None,
        }
    }
}

fn length(order: &ShimOrder) -> usize {
    match order {
        ShimOrder::Command { piece, .. } => piece.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(abilities: Abilities) -> (Shim, Control) {
        let (ours, theirs) = Control::pair().unwrap();
        (Shim::new(ours, abilities), Control::adopt(theirs))
    }

    fn order(theirs: &Control) -> Option<ShimOrder> {
        match theirs.receive().unwrap() {
            Received::Message(order, _) => Some(order),
            Received::Nothing | Received::Closed => None,
        }
    }

    #[test]
    fn every_held_process_is_reported_and_only_reported_processes_continue() {
        let (mut shim, mut theirs) = pair(Abilities::default());
        shim.continue_held();
        assert_eq!(order(&theirs), None, "nothing is held");
        let report = |held| ShimReport::Crashed(Crash { held, ..Crash::held(11) });
        (0..9).for_each(|_| theirs.send(&report(true), None).unwrap());
        assert_eq!(shim.exchange().unwrap().crashes.len(), 9);
        theirs.send(&report(true), None).unwrap();
        (0..2).for_each(|_| shim.continue_held());
        assert_eq!(order(&theirs), Some(ShimOrder::Continue { crashes: 9 }));
        assert_eq!(order(&theirs), None);
        (0..9).for_each(|_| theirs.send(&report(false), None).unwrap());
        assert_eq!(shim.exchange().unwrap().crashes.len(), 1 + MAX_CRASHES);
    }

    #[test]
    fn commands_for_a_shim_that_does_not_read_are_bounded() {
        let (mut shim, theirs) = pair(Abilities { gdb: true, ..Abilities::default() });
        let line = "x".repeat(MAX_DEBUG_LINE);
        let taken = (0..100).take_while(|_| shim.command(&line)).count();
        assert!((8..18).contains(&taken), "{taken}");
        while order(&theirs).is_some() {}
        assert!(!shim.command(&line), "the credit is used up");
    }

    #[test]
    fn a_long_command_arrives_whole_once_the_shim_grants_credit() {
        let (mut shim, mut theirs) = pair(Abilities { gdb: true, ..Abilities::default() });
        let line = "0123456789".repeat(12_000);
        let mut got = String::new();
        for _ in 0..2 {
            assert!(shim.command(&line));
            while let Some(ShimOrder::Command { piece, .. }) = order(&theirs) {
                got += &piece;
                let more = u32::try_from(piece.len()).unwrap();
                theirs.send(&ShimReport::Commands { more }, None).unwrap();
                shim.exchange().unwrap();
            }
        }
        assert_eq!(got, line.repeat(2));
    }

    #[test]
    fn signals_to_a_separate_group_go_through_the_shim_and_to_the_shim_s_own_group_directly() {
        let (mut traced, theirs) = pair(Abilities::default());
        assert!(!traced.signal(libc::SIGTERM) && order(&theirs).is_none());
        let (mut shim, theirs) = pair(Abilities { terminal: true, ..Abilities::default() });
        assert!(shim.signal(libc::SIGTERM) && !shim.signal(libc::SIGKILL));
        assert_eq!(order(&theirs), Some(ShimOrder::Signal { signal: libc::SIGTERM }));
        drop(theirs);
        assert!(!shim.signal(libc::SIGTERM), "without a shim, the group gets it");
    }

    #[test]
    fn the_end_that_a_shim_reports_is_that_of_the_rank() {
        let (mut shim, mut theirs) = pair(Abilities::default());
        let end = ProgramEnd::Killed { signal: 11, core: true };
        theirs.send(&ShimReport::Ended(end), None).unwrap();
        drop(theirs);
        shim.exchange().unwrap();
        assert_eq!(shim.end(), Some(RankEnd::Signaled { signal: 11, core: true }));
        assert_eq!(shim.failure(), None);
    }
}
