//! The launcher shims before ranks: their reports, and orders for them.

use mpd_clients::Job;
use mpd_ending::SignalTarget;
use mpd_job::manager::Input as JobInput;
use mpd_wire::message::{MAX_DEBUG_LINE, ShimOrder, ShimReport};
use mpd_wire::{Rank, RankSet};

use crate::errand::{Errand, Waiting};
use crate::input::Sent;
use crate::output::{Action, Line, Output, Question};
use crate::ranks::Ranks;
use crate::shim::{News, Shim};

/// Most crashes of all ranks of a host that are reported, besides held ones.
const MAX_CRASHES: u32 = 64;

const SIGWINCH: i32 = 28;

impl Ranks {
    /// Removes the shim of a rank.
    pub(crate) fn take_shim(&mut self, rank: Rank) -> Option<Shim> {
        let shim = self.table.get_mut(rank)?.shim.take()?;
        self.report(Output::Act(Action::DropShim(rank)));
        Some(shim)
    }

    /// Reports what the machine decides for the shim of each rank.
    fn tell_all(&mut self, order: impl Fn(&mut Shim) -> Option<ShimOrder>) {
        let orders = self.table.shims_mut().filter_map(|(rank, shim)| Some((rank, order(shim)?)));
        for (rank, order) in orders.collect::<Vec<_>>() {
            self.report(Output::Act(Action::Tell(rank, order)));
        }
    }

    /// Sets the size of the terminals of ranks.
    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        self.size = Some(size);
        self.tell_all(|shim| shim.resize(size));
        self.report(Output::Signal(SIGWINCH, SignalTarget::Group));
    }

    pub(crate) fn take_reports(&mut self, rank: Rank, reports: Vec<ShimReport>) {
        let Some(shim) = self.table.shim_mut(rank) else { return };
        let news: Vec<News> = reports.into_iter().filter_map(|report| shim.take(report)).collect();
        for news in news {
            match news {
                News::Crashed(mut crash) => {
                    if crash.held || self.crashes < MAX_CRASHES {
                        self.crashes += u32::from(!crash.held);
                        crash.shorten();
                        self.post(JobInput::Crashed(rank, crash));
                    }
                }
                News::Mark(after, text) => self.report(Output::Mark(rank, after, text)),
                News::Started(pid) => self.report(Output::Act(Action::Log(Line::ShimStarted(pid)))),
            }
        }
        self.agenda.follow([Errand::SendCommands(rank)]);
    }

    pub(crate) fn grant_mark(&mut self, rank: Rank) {
        if self.table.shim_mut(rank).is_some() {
            self.report(Output::Act(Action::Tell(rank, ShimOrder::Marks { more: 1 })));
        }
    }

    /// Lets the held crashed processes die.
    pub(crate) fn release_crashed(&mut self) {
        self.tell_all(Shim::continue_held);
    }

    /// Sends a command of the console to the debuggers of those ranks that run here.
    pub(crate) fn command(&mut self, ranks: RankSet, line: &str) {
        if line.len() > MAX_DEBUG_LINE || line.contains('\n') {
            return self.report(Output::Act(Action::Log(Line::MalformedCommand(line.len()))));
        }
        let debuggers = self.table.shims_mut().filter(|(rank, _)| ranks.contains(*rank));
        let debuggers = debuggers.filter(|(_, shim)| shim.is_debugger());
        let queued: Vec<_> = debuggers.map(|(rank, shim)| (rank, shim.queue(line))).collect();
        if !matches!(line.split(' ').nth(1), Some("input" | "eof")) {
            // `input` and `eof` have no answer.
            self.report(Output::Asked(ranks));
        }
        for (rank, is_queued) in queued {
            if is_queued {
                self.agenda.add(Errand::SendCommands(rank));
            } else {
                self.notice(format!("rank {rank}: its debugger takes no commands"));
            }
        }
    }

    pub(crate) fn send_commands(&mut self, rank: Rank) {
        if let Some(piece) = self.table.shim_mut(rank).and_then(|shim| shim.next_command()) {
            self.ask(Question::Send(rank, piece), Waiting::Command(rank));
        }
    }

    pub(crate) fn note_sent(&mut self, rank: Rank, sent: Sent) {
        let Some(shim) = self.table.shim_mut(rank) else { return };
        match sent {
            Sent::Yes => {
                shim.note_sent();
                self.agenda.follow([Errand::SendCommands(rank)]);
            }
            Sent::Later => {}
            // Without a shim no process executes the commands.
            Sent::Gone => shim.forget_commands(),
        }
    }

    /// Gives each debugged rank a new PMI connection, since all programs start again under their debuggers.
    pub(crate) fn restart(&mut self, job: &Job) {
        // Spawned ranks end with the run that has spawned them.
        let debugged = self.table.shims_mut().filter(|(_, shim)| shim.is_debugger());
        let first = debugged.map(|(rank, _)| rank).filter(|&rank| job.is_first(rank));
        for rank in first.collect::<Vec<_>>() {
            if let Some(slot) = self.table.slot_of(rank) {
                self.report(Output::Act(Action::Reconnect(rank, slot)));
            }
        }
        self.post(JobInput::Restarted);
    }
}
