//! One match: each event goes to the owners that it concerns, or to the machine.

use mpd_io::tree::{self, Dead};
use mpd_stdio::input::Stdin;
use mpd_wire::Rank;
use mpd_wire::job::Share;
use mpd_wire::message::ManagerReport;
use nix::unistd::Pid;

use super::Process;
use super::event::{Event, ForLinks, ForStdio};
use super::ranks::Whom;
use super::spawns::{Announced, announce_growth};

impl Process {
    pub(super) fn deliver(&mut self, event: Event) {
        let machine = self.pump.machine();
        let turn = &mut self.common.turn();
        match event {
            Event::Input(input) => self.pump.post(input),

            Event::ToConsole(news) => self.upstream.tell_console(&news),
            Event::ToDaemon(report) => self.upstream.tell_daemon(&report),
            Event::Span(mark, at, phase, rank) => self.upstream.mark(mark, at, phase, rank),
            Event::GoPassedOn(at) => self.upstream.go_passed_on(at),
            Event::Spans { child, place, times, spans } => {
                self.upstream.take_spans(turn, (child, place), times, spans);
            }
            Event::TraceEnds => self.upstream.end_trace(turn),

            Event::Links(event) => self.deliver_to_links(event),
            Event::Stdio(event) => self.deliver_to_stdio(event),

            Event::Pmi(rank, client, pmi) => self.pmi.connect(turn, (rank, client), pmi),
            Event::Keys(from, bytes) => self.pmi.take_keys(turn, from, &bytes),
            Event::SpawnAnswer(asker, outcome) => self.pmi.answer_spawn(asker, outcome),
            Event::Released(rank) => self.pmi.rank_ended(rank),
            Event::Named(request, answer) => self.pmi.named(turn, request, answer),
            Event::NameLost(name, to) => self.pmi.name_lost(turn, &name, &to),

            Event::Spawn(asker, request) => self.spawns.ask(turn, machine, (asker, request)),
            Event::WorldPiece(from, bytes) => self.spawns.take_piece(turn, machine, (from, bytes)),
            Event::Placed(number, outcome) => {
                self.spawns.placed(turn, machine, (number, outcome));
            }

            Event::SignalAll(signal) => {
                self.ending.signal(turn, &mut self.ranks, (signal, Whom::Group));
            }
            Event::Started(pid) => self.ending.remember(pid),

            Event::Signal(rank, signal) => self.ranks.signal_one(rank, signal),
            Event::Speaks => self.ranks.note_speaker(),
            Event::Aborts(rank) => self.ranks.note_abort(rank),
            Event::Parts => self.ranks.release_adopted(turn),
            Event::Silent(rank) => self.ranks.fall_silent(turn, rank),
            Event::Unkillable(pid) => self.ranks.lose(turn, pid),
            Event::Staged(problem) => self.ranks.get_ready(turn, problem, self.links.staging()),

            Event::Going => {
                self.upstream.go(turn);
                self.stdio.go(turn);
                self.ending.watch_shm(turn);
            }
            Event::Registered => {
                self.ranks.report_all(turn);
                self.pmi.say_names_again(turn);
                self.spawns.ask_for_place(turn, machine);
            }
            Event::Ended(rank) => {
                self.pmi.rank_ended(rank);
                self.stdio.rank_ended(turn, rank);
                self.spawns.forget(rank);
            }
            Event::Retired(rank) => {
                self.pmi.remove(rank);
                self.stdio.remove(rank);
            }
            Event::Killing => {
                self.links.stop_staging();
                self.ranks.stop_starting();
                self.stdio.prepare_end(turn);
            }
            Event::Announced(announced) => self.prepare_world(*announced),
            Event::WorldOver(first) => self.forget_world(first),
            Event::Grow(from, shares) => self.grow(from, shares),
            Event::Restart => self.restart(),

            Event::Reap => self.reap(),
            Event::Over(code) => self.over = Some(code),
        }
    }

    fn deliver_to_links(&mut self, event: ForLinks) {
        let turn = &mut self.common.turn();
        match event {
            ForLinks::Up(message) => self.links.send_up(message),
            ForLinks::UpIfRoom(message) => self.links.send_up_if_room(&message),
            ForLinks::Down(place, message) => self.links.send_down(place, &message),
            ForLinks::DownNow(places, command) => self.links.send_down_now(&places, &command),
            ForLinks::Bytes(to, kind, bytes) => self.links.send_bytes(to, kind, &bytes),
            ForLinks::Connected(connection, hello) => self.links.adopt(turn, connection, &hello),
            ForLinks::Broken(end, problem) => self.links.break_off(turn, end, problem),
            ForLinks::DaemonGone => self.links.daemon_gone(turn),
        }
    }

    fn deliver_to_stdio(&mut self, event: ForStdio) {
        let turn = &mut self.common.turn();
        match event {
            ForStdio::Pipes(rank, pipes) => self.stdio.add(rank, *pipes),
            ForStdio::Stdin(bytes) => self.stdio.take_bytes(turn, &bytes),
            ForStdio::StdinPiece(bytes) => self.stdio.take_encoded(turn, &bytes),
            ForStdio::SwitchStdin(ranks) => self.stdio.take_input(turn, &Stdin::Switch(ranks)),
            ForStdio::StdinCredit(place, bytes) => self.stdio.grant_input(turn, place, bytes),
            ForStdio::StdinUnwanted(place, switches) => {
                self.stdio.end_input_below(turn, place, switches);
            }
            ForStdio::Output(place, stream, bytes) => {
                self.stdio.take_flow(turn, (place, stream), &bytes);
            }
            ForStdio::OutputCredit(stream, bytes) => self.stdio.grant(stream, bytes),
            ForStdio::FlowDrained(place) => self.stdio.below_drained(place),
            ForStdio::BelowJoined(place) => self.stdio.add_below(turn, place),
            ForStdio::BelowGone(place) => self.stdio.lose_below(turn, place),
            ForStdio::Begun(ranks) => self.stdio.expect(turn, ranks),
            ForStdio::Running(pids) => self.stdio.note_running(turn, &pids),
            ForStdio::CountOutput => self.stdio.report_written(turn),
            ForStdio::Unheard(ranks) => self.stdio.end_unheard(ranks),
        }
    }

    // ----- what changes the job -----

    /// A spawned world is to be started here or below.
    fn prepare_world(&mut self, announced: Announced) {
        let Announced { world, preput, is_known } = announced;
        let (first, numbers, parts) = (world.numbers.first, world.numbers, world.parts.clone());
        self.common.job.worlds.insert(world);
        let turn = &mut self.common.turn();
        self.pmi.prepare_world(turn, first, &preput);
        self.stdio.prepare_world(turn, &numbers, &parts);
        self.ranks.prepare_world(turn, first, is_known);
    }

    /// All ranks of a spawned world have ended.
    fn forget_world(&mut self, first: Rank) {
        let turn = &mut self.common.turn();
        if let Some(world) = turn.job.worlds.of(first) {
            self.stdio.forget_world(turn, world.numbers);
            if !world.here.is_empty() {
                self.upstream.tell_daemon(&ManagerReport::Forgotten { first });
            }
        }
        self.ranks.forget_world(first);
        self.pmi.forget_world(first);
        self.common.job.worlds.remove(first);
    }

    /// Further hosts have joined the job. A host that has joined last knows some of them already.
    fn grow(&mut self, from: u32, shares: Vec<Share>) {
        let hosts = &mut self.common.job.order.shares;
        let known = hosts.len();
        if let Err(e) = hosts.join(from, shares) {
            return log::error!("hosts cannot join: {e}");
        }
        let turn = &mut self.common.turn();
        self.links.grow(turn, known);
        if turn.job.is_root() {
            announce_growth(turn, known);
        }
    }

    /// No program runs, and all of them are to be started once more: what they share begins anew.
    fn restart(&mut self) {
        let kvsname = &self.common.job.order.kvsname;
        self.common.job.worlds.restart(kvsname);
        let turn = &mut self.common.turn();
        self.spawns.restart();
        self.pmi.restart(turn);
        self.ranks.reconnect(turn);
    }

    // ----- children -----

    /// Reaps every child that ended: ranks, and orphans that came to us.
    pub(super) fn reap(&mut self) {
        loop {
            match tree::next_dead() {
                Dead::Child(pid) => self.reap_one(pid),
                dead @ (Dead::None | Dead::NoChildren) => {
                    if !self.ranks.has_adopted() {
                        self.ending.none_is_dead(&mut self.common.turn(), dead);
                    }
                    return;
                }
            }
        }
    }

    fn reap_one(&mut self, pid: Pid) {
        let turn = &mut self.common.turn();
        self.ending.forget(pid);
        if let Some(rank) = self.ranks.of_pid(pid) {
            // What it said last counts: it may have finalized just before.
            self.pmi.read_to_the_end(turn, rank);
        }
        self.ranks.reap(turn, pid, self.ending.is_kill());
    }

    /// Looks whether the adopted process has ended, after an event that says so.
    pub(super) fn look_after_adopted(&mut self) {
        let turn = &mut self.common.turn();
        if let Some(rank) = self.ranks.take_ended_adopted() {
            // What it said last counts: it may have finalized just before.
            self.pmi.read_to_the_end(turn, rank);
            self.ranks.release_adopted(turn);
        }
    }
}
