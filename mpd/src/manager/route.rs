//! One match: each output of the job's machine goes to the owner that performs it.

use mpd_job::manager::Output;
use mpd_wire::Rank;
use mpd_wire::job::exit;
use mpd_wire::message::{Down, JobNews, Up};

use super::Process;
use super::event::Event;
use super::ranks::Whom;

impl Process {
    /// Has one output performed. What follows from it is reported as events.
    pub(super) fn route(&mut self, output: Output) {
        let machine = self.pump.machine();
        let report_ends = self.common.job.spec.report_ends;
        let size = self.common.job.spec.size();
        let turn = &mut self.common.turn();
        match output {
            // To the console.
            Output::TellStarted => self.upstream.tell_started(turn),
            Output::TellFailed { host, failure } => self.upstream.tell_failed(turn, host, failure),
            Output::TellCrashed(rank, crash) => self.upstream.tell_crashed(rank, crash),
            Output::TellRestarted => self.upstream.tell_console(&JobNews::Restarted),
            Output::TellSuspended => self.upstream.tell_console(&JobNews::Suspended),
            Output::TellNotice(text) => self.upstream.tell_notice(text),
            Output::Pids(pids) => self.upstream.learn_pids(turn, pids),
            Output::WorldEnded(ended) => self.upstream.world_ended(turn, &ended),
            Output::Finish(code) => {
                let first = (0..if report_ends { size } else { 0 }).map(Rank);
                let ends = first.map(|rank| machine.end_of(rank)).collect();
                self.upstream.finish(turn, code, ends);
            }

            // To other managers.
            Output::ToSome(
                places,
                release @ (Down::Release { first } | Down::ReleaseGroup { first, .. }),
            ) => self.pmi.release_below(turn, (places, first), release),
            Output::ToSome(places, Down::World { world, parts }) => {
                self.spawns.announce(turn, places, (world, parts));
            }
            Output::ToSome(places, command) => self.links.send_down_now(&places, &command),
            Output::ToChildren(command) => self.links.send_down_all(turn, &command),
            Output::ToParent(entered @ (Up::Entered { .. } | Up::EnteredGroup { .. })) => {
                self.pmi.enter_above(turn, entered);
            }
            Output::ToParent(message) => self.links.send_up(message),
            Output::GiveUp(place) => self.links.give_up_below(turn, place),
            Output::Leave => self.links.leave(turn),

            // Ranks that start.
            Output::Go => self.ranks.go(turn),
            Output::Prepare(world, parts) => self.spawns.prepare(turn, world, parts),
            Output::StartWorld(first) => self.ranks.start_world(first),
            Output::EndWorld(first) => self.ranks.end_world(turn, first),
            Output::Spawned(rank, outcome) => {
                self.spawns.answered(turn, machine, (rank, outcome));
            }

            // Ranks that run.
            Output::Resize(columns, lines) => self.ranks.resize(turn, (columns, lines)),
            Output::Interrupt(rank, signal) => self.ranks.signal_one(rank, signal.into()),
            Output::ReleaseCrashed => self.ranks.release_crashed(),
            Output::ReadPmi => self.pmi.resume(),
            Output::ReleaseFence(first) => self.pmi.release_fence(turn, first),
            Output::ReleaseGroup(first, group) => self.pmi.release_group(turn, first, &group),
            Output::Dead(rank) => self.pmi.note_dead(turn, rank),
            Output::Debug(ranks, line) => self.stdio.tell_debuggers(turn, &ranks, &line),

            // Ranks that stop or end.
            Output::SignalRanks(signal) => {
                self.ending.signal(turn, &mut self.ranks, (signal.into(), Whom::Group));
            }
            Output::SignalProcesses(signal) => {
                self.ending.signal(turn, &mut self.ranks, (signal.into(), Whom::Process));
            }
            Output::StopTree => self.ending.stop(turn),
            Output::ContinueTree => self.ending.continue_all(turn, &mut self.ranks),
            Output::KillTree => self.ending.kill(turn, &mut self.ranks),

            // The end of the job.
            Output::Drain => self.stdio.start_draining(turn),
            Output::DiscardOutput => self.stdio.discard(),
            Output::Tidy => self.ending.clean_up(turn),

            // What the loop itself knows.
            Output::Withdraw => turn.report(Event::Over(exit::SUITE)),
            Output::Grow(from, shares) => turn.report(Event::Grow(from, shares)),
            Output::ForgetWorld(first) => turn.report(Event::WorldOver(first)),
            Output::Restart => turn.report(Event::Restart),
        }
    }
}
