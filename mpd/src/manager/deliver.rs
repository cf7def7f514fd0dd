//! One match that routes each event to its owners, or to the machine.

use mpd_clients::{self as clients, FromJob, World};
use mpd_ending::{Input as Ending, SignalTarget};
use mpd_io::process::tree::{self, Dead};
use mpd_job::manager::Input;
use mpd_job::manager::spawns::Announced;
use mpd_job::manager::spawns::order::SpawnOrder;
use mpd_machine::state;
use mpd_stdio::input::Stdin;
use mpd_wire::Rank;
use mpd_wire::job::HostSlice;
use mpd_wire::message::{JobOrder, ManagerReport};
use nix::unistd::Pid;

use super::event::{Event, ForLinks, ForStdio};
use super::process::Process;
use super::spawning;

impl Process {
    pub(super) fn deliver(&mut self, event: Event) {
        let turn = &mut self.common.turn();
        match event {
            Event::Input(input) => self.pump.post(input),
            Event::State(request) => self.report_state(request),

            Event::ToConsole(news) => self.upstream.send_to_console(&news),
            Event::ToDaemon(report) => self.upstream.send_to_daemon(&report),
            Event::Span(mark, at, phase, rank) => self.upstream.mark(mark, at, phase, rank),
            Event::GoPassedOn(at) => self.upstream.go_passed_on(at),
            Event::Spans { child, tree_index, times, spans } => {
                self.upstream.take_spans(turn, (child, tree_index), times, spans);
            }
            Event::TraceEnds => self.upstream.end_trace(turn),

            Event::Links(event) => self.deliver_to_links(event),
            Event::Stdio(event) => self.deliver_to_stdio(event),

            Event::Pmi(rank, client, pmi) => self.pmi.connect(turn, (rank, client), pmi),
            Event::Clients(input) => self.pmi.give(turn, input),

            Event::Spawn(caller, spawn) => spawning::ask(turn, caller, &spawn),

            Event::SignalAll(signal) => {
                self.ending.signal(turn, &mut self.ranks, (signal, SignalTarget::Group));
            }
            Event::ToRemove(registered) => {
                self.ending.register(turn, &mut self.ranks, registered);
            }
            Event::Started(pid, begin) => {
                self.ending.remember(turn, &mut self.ranks, (pid, begin));
            }

            Event::Signal(rank, signal) => self.ranks.signal_one(rank, signal),
            Event::Speaks => self.ranks.note_pmi_use(),
            Event::Aborts(rank) => self.ranks.note_abort(rank),
            Event::Leaves => self.ranks.release_adopted(turn),
            Event::OutputEnded(rank) => self.ranks.end_output(turn, rank),
            Event::Unkillable(pid) => self.ranks.lose(turn, pid),
            Event::ReadMarks(rank) => self.read_marks(rank),
            Event::MarkTaken(rank) => self.ranks.grant_mark(rank),
            Event::Staged(problem) => self.ranks.get_ready(turn, problem, self.links.staging()),

            Event::Bound(first, bindings) => self.common.job.worlds.bind(first, bindings),
            Event::Going => self.go(),
            Event::Registered => {
                turn.post(Input::Registered);
                self.ranks.report_all(turn);
                self.pmi.give(turn, clients::Input::DaemonReplaced);
            }
            Event::Ended(rank) => self.rank_ended(rank),
            Event::Retired(rank) => {
                self.pmi.tell(turn, FromJob::Removed(rank));
                self.stdio.remove(rank);
            }
            Event::Killing => {
                self.links.stop_staging();
                self.ranks.stop_starting();
                self.stdio.prepare_end(turn);
            }
            Event::WorldOver(first) => self.forget_world(first),
            Event::Grow(from, host_slices) => self.grow(from, host_slices),
            Event::Restart => self.restart(),
            Event::Order(order) => self.carry_out(order),

            Event::Reap => self.reap(),
            Event::Over(code) => self.over = Some(code),
        }
    }

    fn deliver_to_links(&mut self, event: ForLinks) {
        let turn = &mut self.common.turn();
        match event {
            ForLinks::Up(message) => self.links.send_up(message),
            ForLinks::UpIfRoom(message) => self.links.send_up_if_room(&message),
            ForLinks::Down(tree_index, message) => self.links.send_down(tree_index, &message),
            ForLinks::DownNow(tree_indices, command) => {
                self.links.send_down_now(&tree_indices, &command)
            }
            ForLinks::Bytes(to, kind, bytes) => self.links.send_bytes(to, kind, &bytes),
            ForLinks::Connected(connection, hello) => self.links.adopt(turn, connection, &hello),
            ForLinks::Broken(end, problem) => self.links.break_off(turn, end, problem),
            ForLinks::DaemonGone => {
                self.pmi.give(turn, clients::Input::Meeting(mpd_meeting::Input::DaemonLost));
                self.links.daemon_gone(turn);
            }
        }
    }

    fn deliver_to_stdio(&mut self, event: ForStdio) {
        let turn = &mut self.common.turn();
        match event {
            ForStdio::Pipes(rank, pipes) => self.stdio.add(rank, *pipes),
            ForStdio::Stdin(bytes) => self.stdio.take_bytes(turn, &bytes),
            ForStdio::StdinPiece(bytes) => self.stdio.take_encoded(turn, &bytes),
            ForStdio::StdinCredit(tree_index, bytes) => {
                self.stdio.grant_input(turn, tree_index, bytes)
            }
            ForStdio::StdinUnwanted(tree_index, switches) => {
                self.stdio.end_child_input(turn, tree_index, switches);
            }
            ForStdio::Output(tree_index, stream, bytes) => {
                self.stdio.take_flow(turn, (tree_index, stream), &bytes);
            }
            ForStdio::OutputCredit(stream, bytes) => self.stdio.grant(stream, bytes),
            ForStdio::LookAt(stream, ranks) => self.stdio.take_question(turn, stream, &ranks),
            ForStdio::Looked(answer) => self.stdio.take_answer(turn.job, answer),
            ForStdio::FlowDrained(tree_index) => self.stdio.child_drained(tree_index),
            ForStdio::ChildJoined(tree_index) => self.stdio.add_child(turn, tree_index),
            ForStdio::ChildrenGone(tree_index) => self.stdio.lose_child(turn, tree_index),
            ForStdio::Begun(ranks) => self.stdio.expect(turn, ranks),
            ForStdio::Running(pids) => self.stdio.note_running(turn, &pids),
            ForStdio::CountOutput => self.stdio.report_written(turn),
            ForStdio::Asked(ranks) => self.stdio.expect_answers(turn, &ranks),
            ForStdio::Mark(rank, after, text) => self.stdio.add_mark(rank, (after, text)),
            ForStdio::MarksRead(rank) => self.stdio.marks_read(turn, rank),
            ForStdio::Unreported(ranks) => self.stdio.end_unreported(ranks),
        }
    }

    /// Carries out a user's order to the job.
    fn carry_out(&mut self, order: JobOrder) {
        let turn = &mut self.common.turn();
        match order {
            JobOrder::Kill => self.pump.post(Input::Kill),
            JobOrder::Signal { signal, single: false } => self.pump.post(Input::Signal(signal)),
            JobOrder::Signal { signal, single: true } => {
                self.pump.post(Input::SignalProcesses(signal));
            }
            JobOrder::Grow { count } => spawning::grow(turn, count),
            JobOrder::Retire { count } => self.pump.post(Input::Retire(count)),
            JobOrder::Label { format } => self.stdio.relabel(turn, format),
            JobOrder::SwitchStdin { ranks } => self.stdio.take_input(turn, &Stdin::Switch(ranks)),
        }
    }

    /// The ranks of this host are about to be started.
    fn go(&mut self) {
        let turn = &mut self.common.turn();
        self.upstream.go(turn);
        self.stdio.go(turn);
        self.ending.give(turn, &mut self.ranks, Ending::Going);
        self.common.job.pmix_port = self.pmi.go(turn);
    }

    /// Sends the state of the machine to the daemon, for a user.
    fn report_state(&mut self, request: u32) {
        for (text, more) in state::pieces(&self.pump) {
            self.upstream.send_to_daemon(&ManagerReport::State { request, text, more });
        }
    }

    /// Output of a debugged rank was read, and marks that belong into it may have come.
    fn read_marks(&mut self, rank: Rank) {
        let turn = &mut self.common.turn();
        self.ranks.read_shim(turn, rank);
        turn.report(ForStdio::MarksRead(rank));
    }

    // ----- what changes the job -----

    /// Adds a spawned world that is to be started here or in the subtree.
    pub(super) fn prepare_world(&mut self, announced: Announced) {
        let preput = announced.order.as_ref().map(SpawnOrder::preput).unwrap_or_default();
        let is_known = announced.order.is_some();
        let world = World::announced(announced, (&self.common.job.spec, &self.common.job.order));
        let (first, numbers, parts) = (world.numbers.first, world.numbers, world.parts.clone());
        self.ending.add_world(self.common.clock.now(), &world.kvsname);
        self.common.job.worlds.insert(world);
        let turn = &mut self.common.turn();
        self.pmi.tell(turn, FromJob::Prepare(first, preput));
        self.stdio.prepare_world(turn, &numbers, &parts);
        self.ranks.prepare_world(turn, first, is_known);
    }

    fn rank_ended(&mut self, rank: Rank) {
        let turn = &mut self.common.turn();
        self.pmi.tell(turn, FromJob::Ended(rank));
        self.stdio.rank_ended(turn, rank);
    }

    /// Removes a spawned world whose ranks have ended.
    fn forget_world(&mut self, first: Rank) {
        let turn = &mut self.common.turn();
        if let Some(world) = turn.job.worlds.of(first) {
            self.stdio.forget_world(turn, world.numbers);
            if !world.here.is_empty() {
                self.upstream.send_to_daemon(&ManagerReport::Forgotten { first });
            }
        }
        self.ranks.forget_world(first);
        self.pmi.tell(&mut self.common.turn(), FromJob::Forget(first));
        self.common.job.worlds.remove(first);
    }

    /// Adds hosts that join the job. A host that has joined last knows some of them already.
    fn grow(&mut self, from: u32, host_slices: Vec<HostSlice>) {
        let hosts = &mut self.common.job.order.host_slices;
        let known = hosts.len();
        if let Err(e) = hosts.join(from, host_slices) {
            return log::error!("hosts cannot join: {e}");
        }
        let turn = &mut self.common.turn();
        self.links.grow(turn, known);
        if turn.job.is_root() {
            spawning::announce_growth(turn, known);
        }
    }

    /// Prepares another start of all programs, none of which runs. Their shared state is made again.
    fn restart(&mut self) {
        let kvsname = &self.common.job.order.kvsname;
        if let Some(kvsname) = self.common.job.worlds.restart(kvsname) {
            self.ending.add_world(self.common.clock.now(), kvsname);
        }
        let turn = &mut self.common.turn();
        self.pmi.tell(turn, FromJob::Restart);
        self.ranks.reconnect(turn);
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
                        let turn = &mut self.common.turn();
                        self.ending.all_are_reaped(turn, &mut self.ranks, dead);
                    }
                    return;
                }
            }
        }
    }

    fn reap_one(&mut self, pid: Pid) {
        let turn = &mut self.common.turn();
        self.ending.forget(turn, &mut self.ranks, pid);
        if let Some(rank) = self.ranks.of_pid(pid) {
            // The last requests count: the rank may have finalized just before its end.
            self.pmi.read_to_the_end(turn, rank);
        }
        self.ranks.reap(turn, pid, self.ending.is_kill());
    }

    /// Checks whether the adopted process has ended, after an event of it.
    pub(super) fn check_adopted(&mut self) {
        let turn = &mut self.common.turn();
        if let Some(rank) = self.ranks.take_ended_adopted() {
            // The last requests count: the rank may have finalized just before its end.
            self.pmi.read_to_the_end(turn, rank);
            self.ranks.release_adopted(turn);
        }
    }
}
