//! Each output of the node goes to the owner that performs it: one match for each owner. Also the reaping of children.

use mpd_ending::Input as Ending;
use mpd_io::process::tree::{self, Dead};
use mpd_manager::Output;
use mpd_ranks::Input as Ranks;
use mpd_stdio::machine::Input as Stdio;
use mpd_wire::Rank;
use nix::unistd::Pid;

use super::event::{Descriptors, Event, ForLinks};
use super::lent::Lent;
use super::pmi::level_of;
use super::process::Process;
use super::ranks::end_of;
use mpd_io::process::identity::{number_of, process_of};

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
            Output::Stdio(input) => self.stdio.give(turn, input),
            Output::RankEnded(rank) => self.stdio.rank_ended(turn, rank),
            Output::OpenFiles(world, parts) => self.stdio.open_files_of(turn, &world, &parts),
            Output::DiscardOutput => turn.lending.stdio.discard(),
            Output::Ranks(action) => self.ranks.perform(turn, action),
            Output::AskRanks(question) => {
                let answer = self.ranks.answer(turn, question);
                self.tell_ranks(Ranks::Answer(answer));
            }
            Output::Send(rank, way, signal) => drop(self.ranks.send(rank, &way, signal)),
            Output::ReadMarks(rank) => {
                self.read_shim(rank);
                self.common.turn().report(Stdio::MarksRead(rank));
            }
            Output::Clients(action) => {
                self.pmi.perform(turn, action);
                self.pmi.settle(turn);
            }
            Output::Listen => {
                let port = self.pmi.go(turn);
                turn.report(Event::Listening(port));
            }
            Output::Ending(action) => {
                let node = &self.common.node;
                let lent = (&node.job().order, node.ending().known());
                self.ending.perform(lent, &self.ranks, action);
            }
            Output::AskEnding(question) => {
                let answer = self.ending.answer(&self.common, &mut self.ranks, question);
                let now = self.common.clock.now();
                self.common.node.give_ending(now, Ending::Answer(answer));
            }
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

    // ----- inputs from outside of the events -----

    /// Tells the machine of the ranks what has happened.
    fn tell_ranks(&mut self, input: Ranks) {
        let lent = Lent { upstream: &self.upstream, links: &self.links, ending: &self.ending };
        self.common.node.give_ranks(self.common.clock.now(), &lent, input);
    }

    /// The same, and performs what follows before anything else.
    fn give_ranks(&mut self, input: Ranks) {
        self.tell_ranks(input);
        self.settle_machines();
    }

    fn give_ending(&mut self, input: Ending) {
        self.common.node.give_ending(self.common.clock.now(), input);
        self.settle_machines();
    }

    fn settle_machines(&mut self) {
        loop {
            let lent = Lent { upstream: &self.upstream, links: &self.links, ending: &self.ending };
            let now = self.common.clock.now();
            let Some(output) = self.common.node.next_of_machines(now, &lent) else { return };
            self.perform(output);
        }
    }

    /// Reads the reports of shims that wait.
    pub(super) fn serve_shims(&mut self) {
        for rank in self.ranks.take_ready_shims() {
            self.read_shim(rank);
        }
    }

    fn read_shim(&mut self, rank: Rank) {
        let input = self.ranks.read_shim(&self.common.turn(), rank);
        input.into_iter().for_each(|input| self.give_ranks(input));
    }

    /// Takes the finding of the helper that looks for MPI libraries.
    pub(super) fn receive_search(&mut self) {
        let input = self.ranks.receive_search();
        input.into_iter().for_each(|input| self.give_ranks(input));
    }

    /// Reads the findings of the helper.
    pub(super) fn receive_helper(&mut self) {
        while let Some(inputs) = self.ending.read_helper() {
            inputs.into_iter().for_each(|input| self.give_ending(input));
        }
    }

    // ----- children -----

    /// Reaps children that have ended: ranks, and orphans of the job.
    pub(super) fn reap(&mut self) {
        for pid in self.common.node.ranks_mut().take_dying() {
            let pid = process_of(pid);
            if tree::is_dead(pid) {
                self.reap_one(pid);
            }
        }
        if !self.common.node.ranks_mut().asks_for_dead(self.common.clock.now()) {
            return;
        }
        loop {
            match tree::next_dead() {
                Dead::Child(pid) => self.reap_one(pid),
                dead @ (Dead::None | Dead::NoChildren) => {
                    if !self.common.node.ranks().has_adopted() {
                        let input = match dead {
                            Dead::NoChildren => Ending::NoChild,
                            Dead::None | Dead::Child(_) => Ending::NoDeadChild,
                        };
                        self.give_ending(input);
                    }
                    return;
                }
            }
        }
    }

    fn reap_one(&mut self, pid: Pid) {
        let number = number_of(pid);
        self.give_ending(Ending::Ended(number));
        let rank = self.common.node.ranks().of_pid(number);
        if let Some(rank) = rank {
            // The last requests count: the rank may have finalized just before its end.
            self.pmi.read_to_the_end(&mut self.common.turn(), rank);
            self.read_shim(rank);
        }
        let fate = tree::reap(pid);
        if rank.is_some() {
            let is_kill = self.common.node.ending().is_kill();
            self.give_ranks(Ranks::Reaped(number, end_of(fate), is_kill));
        }
    }

    /// Checks whether the adopted process has ended, after an event of it.
    pub(super) fn check_adopted(&mut self) {
        if self.ranks.take_adopted_end() {
            // The last requests count: the rank may have finalized just before its end.
            self.pmi.read_to_the_end(&mut self.common.turn(), Rank(0));
            self.give_ranks(Ranks::AdoptedLeft);
        }
    }
}
