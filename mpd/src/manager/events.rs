//! One turn of the manager's loop: who is served, in which order, and how much.

use mio::event::Event;
use mpd_io::cpus::CpuMask;
use mpd_io::logging::plain;
use mpd_io::spawn::{Extra, SpawnError, Step};
use mpd_io::tree::{self, Dead};
use mpd_job::manager::Input;
use mpd_stdio::feed::Receiver;
use mpd_stdio::input::Stdin;
use mpd_wire::job::{Failure, RankEnd};
use mpd_wire::message::Phase;
use mpd_wire::{Rank, Stream};
use nix::unistd::Pid;

use super::clients::{Client, End, Front, Given, MAX_RANKS_ENLARGED, StartError, end_of};
use super::daemon::Told;
use super::window::Window;
use super::{ADOPTED, CONSOLE, DAEMON, Process, SIGNALS, STARTS_PER_TURN, Timer, start};

impl Process {
    /// Remembers what an event says; nothing is done before all were seen.
    pub(super) fn note_event(&mut self, token: usize, event: &Event) {
        match token {
            DAEMON => self.daemon.ready = true,
            CONSOLE => self.console.ready = true,
            SIGNALS => self.signalled = true,
            ADOPTED => self.adoption.ended = true,
            _ => {
                let hung_up = event.is_read_closed() || event.is_error();
                if !self.branches.mark_ready(token, hung_up)
                    && let Some((rank, end)) = self.clients.of_token(token)
                {
                    self.note_client_event(rank, end, event);
                }
            }
        }
    }

    fn note_client_event(&mut self, rank: Rank, end: End, event: &Event) {
        let Some(client) = self.clients.get_mut(rank) else { return };
        match end {
            End::Watcher => self.clients.note_reporting(rank),
            End::Stdin => self.clients.note_hungry(rank),
            End::Output(stream) => {
                let source = &mut client.sources[stream.index()];
                source.ready = true;
                source.ending |= event.is_read_closed();
                self.run_source(rank, stream);
            }
            End::Pmi => {
                client.pmi.ending |= event.is_read_closed();
                if event.is_readable() || event.is_read_closed() {
                    self.talking.push_back(rank);
                } else {
                    self.answering.push(rank);
                }
            }
        }
    }

    /// Control first, then PMI, then output; then what is due. Each stage posts inputs, and the machine
    /// has handled them before the next stage begins.
    pub(super) fn turn(&mut self) {
        const STAGES: [fn(&mut Process); 14] = [
            Process::serve_console,
            Process::serve_daemon,
            Process::serve_branches,
            Process::stage,
            Process::look_after_adopted,
            Process::hear_watchers,
            Process::hear_shm_helper,
            Process::hear_of_loners,
            Process::take_signals,
            Process::start_some,
            Process::feed_ready,
            Process::serve_clients,
            Process::place_next,
            Process::serve_sources,
        ];
        self.pump();
        for stage in STAGES {
            stage(self);
            self.pump();
        }
        self.expire();
        self.serve_flows();
        self.pump();
        self.say_upwards();
        self.move_output();
        // Behind all that was read, expired or sent: it may have opened a gate.
        self.flush_outputs();
        self.branches.flush();
        self.review_drain();
        self.say_upwards();
        self.move_output();
        self.branches.flush();
        self.console.flush();
        self.daemon.flush();
    }

    /// Reads what ranks ask by PMI, and answers what can be answered at once.
    fn serve_clients(&mut self) {
        for _ in 0..self.talking.len() {
            if let Some(rank) = self.talking.pop_front() {
                self.serve_pmi(rank);
            }
        }
        self.pump();
        self.flush_pmi();
    }

    /// Lets the machine say what ranks did, and writes the answers that ranks get for it. A rank may have
    /// its next request in the buffer already.
    fn say_upwards(&mut self) {
        loop {
            self.pump();
            let now = self.now();
            self.pump.advance(|machine| machine.flush(now));
            self.pump();
            if self.answering.is_empty() {
                return;
            }
            self.flush_pmi();
        }
    }

    fn hear_watchers(&mut self) {
        for rank in self.clients.take_reporting() {
            self.hear_watcher(rank);
        }
    }

    /// Passes input to ranks whose pipes take more.
    fn feed_ready(&mut self) {
        for rank in self.clients.take_hungry() {
            match self.clients.get_mut(rank) {
                Some(client) if client.driver.is_some() => client.flush_commands(),
                Some(_) => self.feed_one(Receiver::Rank(rank)),
                None => {}
            }
        }
    }

    /// While what is left is being written, here or on its way from below: whether it moves, and whether it
    /// is done.
    fn review_drain(&mut self) {
        if !self.ending {
            return;
        }
        let taken = self.outputs.sinks.iter().map(|sink| sink.taken).sum();
        if std::mem::replace(&mut self.taken, taken) != taken {
            self.post(Input::DrainGoesOn);
        }
        if self.draining && self.is_drained() {
            self.draining = false;
            self.post(Input::Drained);
        }
    }

    fn serve_daemon(&mut self) {
        if !self.daemon.has_work() {
            return;
        }
        let (told, there) = self.daemon.hear();
        let now = self.now();
        for word in told {
            match word {
                Told::Kill => self.post(Input::Kill),
                Told::Signal { signal, single: false } => self.post(Input::Signal(signal)),
                Told::Signal { signal, single: true } => {
                    self.post(Input::SignalProcesses(signal));
                }
                Told::SwitchStdin(ranks) => self.take_input(&Stdin::Switch(ranks)),
                Told::Missing(members) => self.miss(members),
                Told::CountOutput => self.report_written(),
                Told::Launched(scatter, depth) => self.launched(scatter, depth),
                Told::Placed(request, outcome) => self.placed(request, outcome),
                Told::Named(request, answer) => self.named(request, answer),
                Told::NameLost(name, to) => self.name_lost(&name, &to),
                Told::Link(fd, hello) => {
                    self.branches.adopt(self.poll.registry(), now, fd, &hello);
                }
            }
        }
        if there {
            return;
        }
        if self.daemon.refused {
            log::warn!("the new daemon does not know this job; it goes on without");
        } else {
            log::info!("the daemon is gone");
            self.timers.set(Timer::Daemon, now + super::REGISTER_INTERVAL);
            if self.awaits_below() {
                self.post(Input::CutOff);
            }
        }
    }

    fn take_signals(&mut self) {
        let signalled = std::mem::take(&mut self.signalled);
        let signals = if signalled { self.signals.pending() } else { Vec::new() };
        if signals.contains(&libc::SIGCHLD) || self.deadly.is_kill() {
            self.reap();
        }
        // A manager that is told to end takes its job along.
        if signals.iter().any(|&s| s != libc::SIGCHLD) {
            self.post(Input::Kill);
        }
    }

    /// Reaps every child that ended: ranks, and orphans that came to us.
    pub(super) fn reap(&mut self) {
        loop {
            match tree::next_dead() {
                Dead::Child(pid) => self.reap_one(pid),
                dead @ (Dead::None | Dead::NoChildren) => {
                    if !self.has_adopted() && self.deadly.all_are_gone(dead) {
                        self.timers.stop(Timer::Deadly);
                        self.end_span(Phase::Kill, None);
                        self.post(Input::TreeGone);
                    }
                    return;
                }
            }
        }
    }

    fn reap_one(&mut self, pid: Pid) {
        self.tidy.bury(pid);
        self.deadly.forget(pid);
        let rank = self.by_pid.get(&pid).copied();
        let Some(rank) = rank else {
            tree::reap(pid);
            return;
        };
        // What it said last counts: it may have finalized just before.
        self.serve_pmi_to_the_end(rank);
        self.end_watcher(rank);
        let status = tree::reap(pid);
        self.by_pid.remove(&pid);
        self.bury(rank, status.and_then(end_of));
    }

    /// A rank is no process of ours any more.
    pub(super) fn bury(&mut self, rank: Rank, end: Option<RankEnd>) {
        self.end_span(Phase::Run, Some(rank));
        self.clients[rank].process = None;
        self.timers.stop(Timer::PmiLost(rank));
        self.end_feeding(Receiver::Rank(rank));
        self.spawning.forget(rank);
        self.retire(rank);
        if let Some(end) = end {
            self.explain(rank, end);
            self.post(Input::Exited(rank, end));
        }
    }

    /// Starts the next few ranks of each world that has some to start.
    fn start_some(&mut self) {
        if !self.stopping {
            self.worlds.starting().into_iter().for_each(|first| self.start_some_of(first));
        }
    }

    fn start_some_of(&mut self, first: Rank) {
        let Some(world) = self.worlds.of(first) else { return };
        let Some(begin) = world.starting else { return };
        let behind = world.here.len().min(begin + STARTS_PER_TURN);
        let some = world.here[begin..behind].to_vec();
        let goes_on = behind < world.here.len();
        for &rank in &some {
            if let Err(failure) = self.start_one(rank) {
                self.set_starting(first, None);
                return self.start_failed(first, failure);
            }
        }
        self.set_starting(first, goes_on.then_some(behind));
        let pids: Vec<(Rank, u32)> =
            some.iter().map(|rank| (*rank, self.clients[*rank].number)).collect();
        if !self.spec.adopted {
            self.expect(&pids);
        }
        self.post(Input::Pids(pids));
        if goes_on {
            return;
        }
        if first == Rank(0) {
            self.end_span(Phase::Go, None);
            self.report_ranks();
            self.post(Input::Started);
        } else {
            self.report_world(first);
            self.post(Input::Begun(first));
        }
    }

    fn set_starting(&mut self, first: Rank, next: Option<usize>) {
        if let Some(world) = self.worlds.of_mut(first) {
            world.starting = next;
        }
    }

    fn start_failed(&mut self, first: Rank, failure: Failure) {
        if first == Rank(0) {
            self.post(Input::StartFailed(failure));
        } else {
            self.post(Input::WorldFailed(first, failure));
            self.post(Input::Begun(first));
        }
    }

    fn start_one(&mut self, rank: Rank) -> Result<(), Failure> {
        if let Some(arrived) = self.adoption.arrived.take() {
            return self.adopt(arrived);
        }
        let is_first = rank.0 < self.spec.size();
        if is_first {
            self.begin_span(Phase::Spawn, Some(rank));
        }
        let Some(world) = self.worlds.of(rank) else { return Ok(()) };
        let local = world.local(rank);
        let mut client = Client::new(world.facts(rank, self.spec.universe_size));
        let spawn = &world.spawns[&world.argset_of(rank)];
        let variables =
            start::variables_of((&world.spec, self.tidy.groups()), world.numbers.own(rank), local);
        let cpus = CpuMask::of(world.bindings.cpus(local));
        let argset = &world.spec.argsets[world.argset_of(rank)];
        let has_terminal = argset.pty.is_some();
        let window = self.window.as_ref().filter(|_| has_terminal).map(Window::as_fd);
        let arguments = start::arguments_of((&world.spec, &self.order), world.numbers.own(rank));
        let front = Front::of(&self.spec, is_first);
        let debugged = front == Front::Debugger;
        let fed = is_first && (self.spec.stdin_switch || self.spec.stdin.contains(rank));
        let extra = Extra {
            variables: &variables,
            arguments: arguments.as_deref().unwrap_or_default(),
            cpus: cpus.as_ref(),
            closed: self.spec.closed_in(argset, fed),
            further: window,
        };
        let cgroup = self.cgroup.as_ref().map(std::os::fd::AsFd::as_fd);
        let result = client.start(
            self.poll.registry(),
            (extra, self.clients.next_token()),
            self.clients.len() + world.here.len() <= MAX_RANKS_ENLARGED,
            spawn,
            Given { fed: fed || debugged, front, null: &self.null, cgroup },
        );
        self.end_span(Phase::Spawn, Some(rank));
        if let Some(pid) = client.child() {
            self.memory.put_first(pid);
            if is_first {
                self.begin_span(Phase::Run, Some(rank));
            }
            self.tidy.remember(pid);
            self.by_pid.insert(pid, rank);
            self.clients.insert(rank, client);
        }
        result.map(drop).map_err(|error| self.start_failure(rank, &error))
    }

    fn start_failure(&self, rank: Rank, error: &StartError) -> Failure {
        let Some(world) = self.worlds.of(rank) else {
            return Failure::Suite { problem: format!("rank {rank} has no world") };
        };
        let argset = &world.spec.argsets[world.argset_of(rank)];
        let local = world.local(rank);
        let rank = world.numbers.own(rank);
        let program = String::from_utf8_lossy(&argset.program).into_owned();
        let problem = match error {
            StartError::Spawn(SpawnError::Child { step: Step::Exec, error }) => {
                let missing = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR));
                return Failure::CannotExecute { rank, program, problem: plain(error), missing };
            }
            StartError::Spawn(SpawnError::Child { step: Step::Directory, error }) => {
                start::cannot_enter(&argset.directory, error)
            }
            StartError::Spawn(SpawnError::Child { step: Step::Binding, error }) => {
                let cpus: Vec<String> =
                    world.bindings.cpus(local).iter().map(u32::to_string).collect();
                let cpus = cpus.join(",");
                format!("cannot bind rank {rank} to the CPUs {cpus}: {}", plain(error))
            }
            StartError::Spawn(SpawnError::Child { step, error }) => {
                format!("cannot prepare rank {rank} ({step:?}): {}", plain(error))
            }
            StartError::Spawn(SpawnError::Fork(error)) => {
                let advice = match error.raw_os_error() {
                    Some(libc::EAGAIN) => " (the limit of processes is reached: ulimit -u)",
                    _ => "",
                };
                format!("cannot start a process for rank {rank}: {}{advice}", plain(error))
            }
            StartError::Spawn(SpawnError::Descriptor(error)) | StartError::Descriptors(error) => {
                format!("cannot make the pipes of rank {rank}: {}", plain(error))
            }
        };
        Failure::Suite { problem }
    }

    /// What is due by now.
    fn expire(&mut self) {
        let now = self.now();
        self.pump.handle_timeout(now);
        self.pump();
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Line(source) => {
                    let stream = Stream::BOTH[(source & 1) as usize];
                    self.line_is_due(Rank(source >> 1), stream);
                }
                Timer::PmiLost(rank) => {
                    let problem = "closed its PMI connection before MPI_Finalize".to_owned();
                    self.post(Input::BrokeProtocol(rank, problem));
                }
                Timer::Deadly => self.go_on_ending(),
                Timer::Shm(looks) => self.look_at_shm(looks),
                Timer::Alone(looks) => self.look_for_loners(looks),
                Timer::ShmUsers => self.shm_users_are_due(),
                Timer::Stopping(looks) => {
                    if looks >= super::MAX_STOP_LOOKS || tree::descendants_are_stopped() {
                        self.post(Input::TreeStopped);
                    } else {
                        let next = Timer::Stopping(looks + 1);
                        self.timers.set(next, now + super::STOP_INTERVAL);
                    }
                }
                Timer::Daemon => self.look_for_daemon(),
                Timer::Names => self.names_are_due(),
                Timer::Spawn => self.placing_is_due(),
                Timer::Launched => self.finish_late(),
            }
            self.pump();
        }
        self.expire_outputs(now);
    }

    /// Registers with the daemon of this ring, now or a second later.
    fn look_for_daemon(&mut self) {
        let Some(rundir) = self.order.rundir.clone() else { return };
        if self.daemon.register(self.poll.registry(), &rundir, &self.order) {
            log::info!("registered with the new daemon");
            self.report_ranks();
            self.say_names_again();
            self.ask_for_place();
        } else {
            self.timers.set(Timer::Daemon, self.now() + super::REGISTER_INTERVAL);
        }
    }
}
