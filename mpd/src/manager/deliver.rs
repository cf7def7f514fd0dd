//! Each output of the node goes to the owner that performs it: one match for each owner. Also the reaping of children.

use mpd_ending::Input as Ending;
use mpd_io::process::tree::{self, Dead};
use mpd_manager::Output;
use mpd_ranks::Input as Ranks;
use mpd_stdio::machine::{Answer, Input as Stdio};
use mpd_wire::Rank;
use nix::unistd::Pid;

use super::event::{Descriptors, Event, ForLinks, ForRanks, ForStdio};
use super::pmi::level_of;
use super::process::Process;
use mpd_io::process::identity::number_of;

impl Process {
    /// Has one output performed. Its consequences are reported as events.
    pub(super) fn perform(&mut self, output: Output) {
        let turn = &mut self.common.turn();
        match output {
            Output::Console(news) => self.upstream.console.report(&news),
            Output::FlushConsole => self.upstream.console.flush(),
            Output::Daemon(report) => self.upstream.daemon.report(&report),
            Output::FlushDaemon => self.upstream.daemon.flush(),
            Output::Register => self.upstream.register(turn),

            Output::Links(output) => self.perform_of_links(output),
            Output::Stdio(output) => self.perform_of_stdio(output),
            Output::Ranks(output) => self.perform_of_ranks(output),
            Output::Clients(input) => self.pmi.give(turn, input),
            Output::Listen => {
                let port = self.pmi.go(turn);
                turn.report(Event::Listening(port));
            }
            Output::Ending(input) => self.ending.give(turn, &mut self.ranks, input),
            Output::Reap => self.reap(),
            Output::PassOn => self.pass_on(),
            Output::Log(level, text) => log::log!(level_of(level), "{text}"),
        }
    }

    fn pass_on(&mut self) {
        let descriptors = self.common.handed_over.pop_front();
        let turn = &mut self.common.turn();
        match descriptors {
            Some(Descriptors::Pipes(rank, pipes)) => self.stdio.add(turn, rank, *pipes),
            Some(Descriptors::Pmi(rank, client, pmi)) => {
                self.pmi.connect(turn, (rank, client), pmi);
            }
            Some(Descriptors::Link(connection, hello)) => {
                self.links.adopt(turn, connection, &hello);
            }
            None => {}
        }
    }

    fn perform_of_links(&mut self, output: ForLinks) {
        let turn = &mut self.common.turn();
        match output {
            ForLinks::Up(message) => self.links.send_up(message),
            ForLinks::Down(tree_index, message) => self.links.send_down(tree_index, &message),
            ForLinks::DownNow(tree_indices, command) => {
                self.links.send_down_now(&tree_indices, &command);
            }
            ForLinks::DownAll(command) => self.links.send_down_all(&command),
            ForLinks::Bytes(to, kind, bytes) => self.links.send_bytes(to, kind, &bytes),
            ForLinks::Close(end) => self.links.close(end),
            ForLinks::Join(tree_indices) => self.links.join(turn, &tree_indices),
            ForLinks::Listed(files, more) => self.links.take_list(turn, files, more),
            ForLinks::Lacks(tree_index, files) => self.links.take_lacks(tree_index, files),
            ForLinks::File(bytes) => self.links.take_piece(turn, &bytes),
            ForLinks::StopSending(tree_index) => self.links.stop_sending(tree_index),
            ForLinks::StopStaging => self.links.stop_staging(),
        }
    }

    fn perform_of_stdio(&mut self, output: ForStdio) {
        let turn = &mut self.common.turn();
        let input = match output {
            ForStdio::Go => return self.stdio.go(turn),
            ForStdio::PrepareWorld(world, parts) => {
                return self.stdio.prepare_world(turn, &world, &parts);
            }
            ForStdio::Ended(rank) => return self.stdio.rank_ended(turn, rank),
            ForStdio::Remove(rank) => return self.stdio.remove(turn, rank),
            ForStdio::Drain => return self.stdio.start_draining(turn),
            ForStdio::Discard => return self.stdio.discard(),

            ForStdio::Stdin(bytes) => Stdio::Stdin(bytes),
            ForStdio::StdinPiece(bytes) => Stdio::StdinPiece(bytes),
            ForStdio::SwitchStdin(ranks) => Stdio::SwitchStdin(ranks),
            ForStdio::StdinCredit(child, bytes) => Stdio::StdinCredit(child, bytes),
            ForStdio::StdinUnwanted(child, switches) => Stdio::StdinUnwanted(child, switches),
            ForStdio::Output(child, stream, bytes) => Stdio::Output(child, stream, bytes),
            ForStdio::OutputCredit(stream, bytes) => Stdio::OutputCredit(stream, bytes),
            ForStdio::FlowDrained(child) => Stdio::FlowDrained(child),
            ForStdio::ChildJoined(child) => Stdio::ChildJoined(child),
            ForStdio::ChildrenGone(child) => Stdio::ChildrenGone(child),
            ForStdio::LookAt(stream, ranks) => Stdio::LookAt(stream, ranks),
            ForStdio::Looked { child, stream, behind, others } => {
                Stdio::Looked(Answer { child: Some(child), stream, behind, others })
            }
            ForStdio::CountOutput => Stdio::CountOutput,
            ForStdio::Label(format) => Stdio::Label(format),
            ForStdio::Begun(ranks) => Stdio::Begun(ranks),
            ForStdio::Running(pids) => Stdio::Running(pids),
            ForStdio::Unreported(ranks) => Stdio::Unreported(ranks),
            ForStdio::ForgetWorld(world) => Stdio::WorldOver(world),
            ForStdio::Asked(ranks) => Stdio::Asked(ranks),
            ForStdio::Mark(rank, after, text) => Stdio::Mark(rank, after, text),
            ForStdio::MarksRead(rank) => Stdio::MarksRead(rank),
            ForStdio::PrepareEnd => Stdio::Killing,
        };
        self.stdio.give(turn, input);
    }

    fn perform_of_ranks(&mut self, output: ForRanks) {
        let turn = &mut self.common.turn();
        let input = match output {
            ForRanks::Staged(problem) => {
                return self.ranks.check(turn, problem, self.links.staging());
            }
            ForRanks::Signal(rank, signal) => return self.ranks.signal_one(rank, signal),
            ForRanks::ReadMarks(rank) => {
                self.ranks.read_shim(turn, rank);
                return turn.report(ForStdio::MarksRead(rank));
            }
            ForRanks::Go => Ranks::Go,
            ForRanks::Prepare(first, is_known) => Ranks::Prepare(first, is_known),
            ForRanks::StartWorld(first) => Ranks::StartWorld(first),
            ForRanks::EndWorld(first) => Ranks::EndWorld(first),
            ForRanks::ForgetWorld(first) => Ranks::ForgetWorld(first),
            ForRanks::StopStarting => Ranks::Killing,
            ForRanks::Resize(columns, lines) => Ranks::Resize(columns, lines),
            ForRanks::Debug(ranks, line) => Ranks::Command(ranks, line),
            ForRanks::ReleaseCrashed => Ranks::ReleaseCrashed,
            ForRanks::MarkTaken(rank) => Ranks::MarkTaken(rank),
            ForRanks::Reconnect => Ranks::Restart,
            ForRanks::Speaks => Ranks::UsesPmi,
            ForRanks::Aborts(rank) => Ranks::Aborts(rank),
            ForRanks::Leaves => Ranks::AdoptedLeft,
            ForRanks::OutputEnded(rank) => Ranks::OutputEnded(rank),
            ForRanks::Unkillable(pid) => Ranks::Unkillable(pid),
            ForRanks::ReportAll => Ranks::Registered,
        };
        self.ranks.give(turn, input);
    }

    // ----- children -----

    /// Reaps children that have ended: ranks, and orphans of the job.
    pub(super) fn reap(&mut self) {
        for pid in self.ranks.take_dying() {
            if tree::is_dead(pid) {
                self.reap_one(pid);
            }
        }
        if !self.ranks.asks_for_dead(self.common.clock.now()) {
            return;
        }
        loop {
            match tree::next_dead() {
                Dead::Child(pid) => self.reap_one(pid),
                dead @ (Dead::None | Dead::NoChildren) => {
                    if !self.ranks.has_adopted() {
                        let input = match dead {
                            Dead::NoChildren => Ending::NoChild,
                            Dead::None | Dead::Child(_) => Ending::NoDeadChild,
                        };
                        self.ending.give(&mut self.common.turn(), &mut self.ranks, input);
                    }
                    return;
                }
            }
        }
    }

    fn reap_one(&mut self, pid: Pid) {
        let turn = &mut self.common.turn();
        self.ending.give(turn, &mut self.ranks, Ending::Ended(number_of(pid)));
        if let Some(rank) = self.ranks.of_pid(pid) {
            // The last requests count: the rank may have finalized just before its end.
            self.pmi.read_to_the_end(turn, rank);
        }
        self.ranks.reap(turn, pid, self.ending.is_kill());
    }

    /// Checks whether the adopted process has ended, after an event of it.
    pub(super) fn check_adopted(&mut self) {
        let turn = &mut self.common.turn();
        if self.ranks.take_adopted_end() {
            // The last requests count: the rank may have finalized just before its end.
            self.pmi.read_to_the_end(turn, Rank(0));
            self.ranks.give(turn, Ranks::AdoptedLeft);
        }
    }
}
