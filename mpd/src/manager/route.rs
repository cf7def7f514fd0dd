//! One match that routes each output of the job's machine to the owner that performs it.

use mpd_clients::{self as clients, FromJob};
use mpd_ending::{Input as Ending, SignalTarget};
use mpd_job::manager::Output;
use mpd_job::manager::spawns::SpawnOutput;
use mpd_wire::Rank;
use mpd_wire::job::{Failure, exit};
use mpd_wire::message::{Down, JobNews, ManagerReport, TreeKind, Up};

use super::event::Event;
use super::process::Process;

impl Process {
    /// Has one output performed. Its consequences are reported as events.
    pub(super) fn route(&mut self, output: Output) {
        let machine = self.pump.machine();
        let (report_ends, size) = (self.common.job.spec.report_ends, self.common.job.spec.size());
        let turn = &mut self.common.turn();
        match output {
            // To the console.
            Output::ReportStarted => self.upstream.report_started(turn),
            Output::ReportFailed { host, failure } => {
                self.upstream.report_failed(turn, host, failure)
            }
            Output::ReportCrashed(rank, crash) => self.upstream.report_crashed(rank, crash),
            Output::ReportRestarted => self.upstream.send_to_console(&JobNews::Restarted),
            Output::ReportSuspended => self.upstream.send_to_console(&JobNews::Suspended),
            Output::ReportNotice(text) => self.upstream.report_notice(text),
            Output::Events(events) => self.upstream.report_events(events),
            Output::Pids(pids) => self.upstream.learn_pids(turn, pids),
            Output::WorldEnded(ended) => self.upstream.world_ended(turn, &ended),
            Output::Finish(code) => {
                let first = (0..if report_ends { size } else { 0 }).map(Rank);
                let ends = first.map(|rank| machine.end_of(rank)).collect();
                self.upstream.finish(turn, code, ends);
            }

            // To other managers.
            Output::ToSome(
                tree_indices,
                release @ (Down::Release { first } | Down::ReleaseGroup { first, .. }),
            ) => {
                self.pmi.tell(turn, FromJob::ReleaseChildren(tree_indices, first, release));
            }
            Output::ToSome(tree_indices, command) => {
                self.links.send_down_now(&tree_indices, &command)
            }
            Output::ToChildren(command) => self.links.send_down_all(turn, &command),
            Output::ToParent(entered @ (Up::Entered { .. } | Up::EnteredGroup { .. })) => {
                self.pmi.tell(turn, FromJob::Entered(entered));
            }
            Output::ToParent(message) => self.links.send_up(message),
            Output::GiveUp(tree_index) => self.links.give_up_children(turn, tree_index),
            Output::Leave => self.links.leave(turn),

            // Ranks that start.
            Output::Go => self.ranks.go(turn),
            Output::Prepare(announced) => self.prepare_world(*announced),
            Output::StartWorld(first) => self.ranks.start_world(first),
            Output::EndWorld(first) => self.end_world(first),
            Output::Spawn(output) => self.perform_spawn(output),

            // Ranks that run.
            Output::Resize(columns, lines) => self.ranks.resize(turn, (columns, lines)),
            Output::Interrupt(rank, signal) => self.ranks.signal_one(rank, signal.into()),
            Output::ReleaseCrashed => self.ranks.release_crashed(),
            Output::ReadPmi => self.pmi.tell(turn, FromJob::Read),
            Output::ReleaseFence(first) => self.end(Ending::FenceOver(first)),
            Output::ReleaseGroup(first, group) => {
                self.pmi.tell(turn, FromJob::ReleaseGroup(first, group));
            }
            Output::Assembled(first, group) => {
                self.pmi.tell(turn, FromJob::Assembled(first, group));
            }
            Output::Dead(rank) => self.pmi.tell(turn, FromJob::Dead(rank)),
            Output::Debug(ranks, line) => self.ranks.command(turn, &ranks, &line),

            // Ranks that stop or end.
            Output::SignalRanks(signal) => self.signal(signal.into(), SignalTarget::Group),
            Output::Retire(ranks) => self.signal(libc::SIGTERM, SignalTarget::Groups(ranks)),
            Output::SignalProcesses(signal) => self.signal(signal.into(), SignalTarget::Process),
            Output::StopTree => self.end(Ending::Stop),
            Output::ContinueTree => self.end(Ending::Continue),
            Output::KillTree => self.end(Ending::Kill),

            // The end of the job.
            Output::Drain => self.drain(),
            Output::DiscardOutput => self.stdio.discard(),
            Output::CleanUp => self.end(Ending::CleanUp),

            // For the loop itself.
            Output::Withdraw => turn.report(Event::Over(exit::SUITE)),
            Output::Grow(from, host_slices) => turn.report(Event::Grow(from, host_slices)),
            Output::ForgetWorld(first) => turn.report(Event::WorldOver(first)),
            Output::Restart => turn.report(Event::Restart),
        }
    }

    /// Performs an output about spawns.
    fn perform_spawn(&mut self, output: SpawnOutput) {
        let turn = &mut self.common.turn();
        match output {
            SpawnOutput::Piece(to, piece) => self.links.send_bytes(to, TreeKind::World, &piece),
            SpawnOutput::Answer(caller, outcome) => {
                self.pmi.tell(turn, FromJob::Spawned(caller, outcome));
            }
            SpawnOutput::Place(request, placement) => {
                self.upstream
                    .send_to_daemon(&ManagerReport::Place { request, placement: *placement });
            }
            SpawnOutput::Report(state) => {
                self.upstream.send_to_daemon(&ManagerReport::Spawns { state });
            }
        }
    }

    /// Kills the ranks of a spawned world that run here. What they use is noted before.
    fn end_world(&mut self, first: Rank) {
        let started = self.ranks.end_world(&mut self.common.turn(), first);
        if !started.is_empty() {
            self.signal(libc::SIGKILL, SignalTarget::Groups(started));
        }
    }

    fn signal(&mut self, signal: i32, target: SignalTarget) {
        self.end(Ending::Signal(signal, target));
    }

    fn end(&mut self, input: Ending) {
        self.ending.give(&mut self.common.turn(), &mut self.ranks, input);
    }

    /// No process is left. Jobs that met the ranks do not wait for the reader of the output.
    fn drain(&mut self) {
        let failure = self.pump.machine().failure().map(cause_of);
        let turn = &mut self.common.turn();
        turn.report(clients::Input::Meeting(mpd_meeting::Input::End(failure)));
        self.stdio.start_draining(turn);
    }
}

/// A failure, for the jobs that met the ranks of this one.
fn cause_of(failure: &Failure) -> mpd_meeting::Cause {
    mpd_meeting::Cause { code: failure.exit_code(), text: failure.to_string() }
}
