//! The machines of a simulated manager, and the glue between them: what the node of `libs/manager/` does for the real
//! one. There is no output of ranks, so a drain ends at once.

use std::collections::BTreeMap;

use mpd_clients::{
    Accepted, Caller, ClientSpawn, Clients, ConnectionId, FromClient, FromJob,
    Input as ClientsInput, Job, LinkOutput, Output as ClientsOutput, World,
};
use mpd_ending::{
    Beginning, Completeness, Ending, Input as EndingInput, Output as EndingOutput, Pid, Question,
    SignalTarget,
};
use mpd_job::manager::spawns::order::{Parent, SpawnOrder};
use mpd_job::manager::spawns::{Announced, SpawnInput, SpawnOutput, SpawnSettings};
use mpd_job::manager::{Config, Input, LinkEnd, Manager, Output};
use mpd_joblink::{Frame, JobLinkMessage};
use mpd_placement::hints::{Surroundings, Wanted, program_of};
use mpd_sansio::{Pump, Time};
use mpd_wire::Rank;
use mpd_wire::job::{Failure, HostSlice, RankEnd, exit};
use mpd_wire::message::{
    Down, JobInput, JobNews, JobOrder, Launch, ManagerOrder, ManagerReport, TreeKind, Up,
};

use super::links::News;
use super::manager::{Effect, ForManager, Turn};
use crate::kernel::{BEGAN, Process, State, clocks};

const SIGKILL: u8 = 9;
const SIGTERM: i32 = 15;

#[derive(Debug)]
pub(super) struct Machines {
    pub(super) pump: Pump<Manager>,
    clients: Clients,
    job: Job,
    ending: Ending,
    helper: Option<i32>,
    /// Worlds whose ranks here are to be started.
    starting: Vec<Rank>,
    /// The processes of ranks.
    ranks: BTreeMap<Rank, i32>,
    speaks_pmix: BTreeMap<Rank, bool>,
    /// Children are to be reaped.
    reaps: bool,
}

impl Machines {
    /// The machines of a job whose checks before the start succeed.
    pub(super) fn new(turn: &mut Turn<'_>, job: Job) -> Self {
        let beginning = Beginning { began: BEGAN, changed: Some(BEGAN), ..Beginning::default() };
        let mut ending = Ending::new(beginning, clocks(turn.now));
        while ending.poll_output().is_some() {}
        let spec = &job.spec;
        let config = Config {
            host_slices: job.order.host_slices.clone(),
            tree_index: job.tree_index(),
            size: spec.size(),
            on_failure: spec.on_failure,
            abort_scope: spec.abort_scope,
            limit: spec.timeout,
            debugged: false,
            elastic: spec.elastic,
            spawns: SpawnSettings {
                kvsname: job.order.kvsname.clone(),
                ..SpawnSettings::default()
            },
        };
        let mut pump = Pump::new(Manager::new(&config));
        pump.post(Input::Ready);
        Self {
            pump,
            clients: Clients::new(&job),
            job,
            ending,
            helper: None,
            starting: Vec::new(),
            ranks: BTreeMap::new(),
            speaks_pmix: BTreeMap::new(),
            reaps: false,
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let machine = self.pump.machine().poll_timeout();
        [machine, self.clients.poll_timeout(), self.ending.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    // ----- what arrives -----

    pub(super) fn take(&mut self, turn: &mut Turn<'_>, input: ForManager) {
        match input {
            ForManager::Order(order) => self.take_order(turn, order),
            ForManager::Registered => {
                self.pump.post(Input::Registered);
                self.give_clients(turn, ClientsInput::DaemonReplaced);
            }
            ForManager::DaemonGone => {
                let lost = mpd_connect::Input::DaemonLost;
                self.give_clients(turn, ClientsInput::Meeting(lost));
                if self.awaits_a_child(turn) {
                    self.pump.post(Input::CutOff);
                }
            }
            ForManager::FromConsole(input) => self.take_from_console(turn, input),
            ForManager::ConsoleLost => self.pump.post(Input::ConsoleLost),
            ForManager::Said(rank, bytes) => self.take_words(turn, rank, &bytes),
            ForManager::Child => self.reaps = true,
            ForManager::Helper(pid) => self.end_helper(turn, pid),
            ForManager::Time
            | ForManager::Linked(..)
            | ForManager::Missed(_)
            | ForManager::Packet(..) => {}
        }
    }

    fn awaits_a_child(&self, turn: &Turn<'_>) -> bool {
        let mut children = self.job.order.host_slices.children(self.job.tree_index());
        children.any(|child| turn.common.links.awaits(LinkEnd::Child(child)))
    }

    fn take_order(&mut self, turn: &mut Turn<'_>, order: ManagerOrder) {
        let input = match order {
            ManagerOrder::Kill | ManagerOrder::Job(JobOrder::Kill) => Input::Kill,
            ManagerOrder::Job(JobOrder::Signal { signal, single: false }) => Input::Signal(signal),
            ManagerOrder::Job(JobOrder::Signal { signal, single: true }) => {
                Input::SignalProcesses(signal)
            }
            ManagerOrder::Job(JobOrder::Retire { count }) => Input::Retire(count),
            ManagerOrder::Job(JobOrder::Grow { count }) => return self.grow_by(count),
            ManagerOrder::Missing { members } => Input::Missing(members),
            ManagerOrder::HostsChanged { changes, found } => Input::HostsChanged { changes, found },
            ManagerOrder::ManagerEnded { member, end } => Input::ManagerEnded(member, end),
            ManagerOrder::ReportEvents => Input::ReportEvents,
            ManagerOrder::Placed { request, outcome } => {
                Input::Spawn(SpawnInput::Placed(request, outcome))
            }
            ManagerOrder::Named { request, answer } => {
                return self.give_clients(turn, ClientsInput::Named(request, answer));
            }
            ManagerOrder::NameLost { name, to } => {
                return self.give_clients(turn, ClientsInput::NameLost(name, to));
            }
            ManagerOrder::NameRefused(refusal) => {
                return self.give_clients(turn, ClientsInput::NameRefused(refusal));
            }
            other => panic!("not simulated: {other:?}"),
        };
        self.pump.post(input);
    }

    fn grow_by(&mut self, count: u32) {
        let order = SpawnOrder::of_user(&self.job.spec, &self.job.order.kvsname, count);
        let order = order.expect("a sound order").encode_bounded().expect("a short order");
        self.pump.post(Input::Spawn(SpawnInput::Grow(order)));
    }

    fn take_from_console(&mut self, turn: &mut Turn<'_>, input: JobInput) {
        self.pump.post(match input {
            JobInput::Signal { signal } => Input::Signal(signal),
            JobInput::Interrupt => Input::Interrupt,
            JobInput::HangUp => Input::HangUp,
            JobInput::Suspend => Input::Suspend,
            JobInput::Resume => Input::Resume,
            JobInput::Echo => return turn.tell_console(JobNews::Echo),
            other => panic!("not simulated: {other:?}"),
        });
    }

    pub(super) fn take_news(&mut self, turn: &mut Turn<'_>, news: News) {
        match news {
            News::Message(_, JobLinkMessage::Down(down)) => self.pump.post(Input::FromParent(down)),
            News::Message(LinkEnd::Child(child), JobLinkMessage::Up(up)) => {
                self.pump.post(Input::FromChild(child, up));
            }
            News::Message(from, JobLinkMessage::Keys(bytes)) => {
                self.give_clients(turn, ClientsInput::Keys(from, bytes));
            }
            News::Message(from, JobLinkMessage::Pmix(bytes)) => {
                self.give_clients(turn, ClientsInput::Piece(from, bytes));
            }
            News::Message(from, JobLinkMessage::World(bytes)) => {
                self.pump.post(Input::Spawn(SpawnInput::Piece(from, bytes)));
            }
            News::Lost { end: LinkEnd::Parent, problem, .. } => {
                self.pump.post(Input::ParentLost(problem));
            }
            News::Lost { end: LinkEnd::Child(child), problem, closed } => {
                self.pump.post(match closed {
                    true => Input::ChildClosed(child, problem),
                    false => Input::ChildLost(child, problem),
                });
            }
            News::Message(from, message) => panic!("not simulated, from {from:?}: {message:?}"),
        }
    }

    // ----- a turn -----

    /// The rest of a turn: deadlines, reports, answers.
    pub(super) fn end_turn(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now;
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        self.settle(turn);
        self.start_some(turn);
        self.settle(turn);
        if is_due(self.pump.machine().poll_timeout()) {
            self.pump.handle_timeout(now);
            self.settle(turn);
        }
        if is_due(self.ending.poll_timeout()) {
            self.ending.handle_timeout(now);
            self.perform_of_ending(turn);
            self.settle(turn);
        }
        if is_due(self.clients.poll_timeout()) {
            self.clients.handle_timeout(now, &self.job);
            self.perform_of_clients(turn);
            self.settle(turn);
        }
        loop {
            self.pump.end_turn(now);
            self.settle(turn);
            if !self.clients.has_answers() {
                break;
            }
            self.write_answers(turn);
            self.settle(turn);
        }
        self.start_some(turn);
        self.settle(turn);
    }

    fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            if std::mem::take(&mut self.reaps) {
                self.reap(turn);
            } else if let Some(output) = self.pump.next(turn.now) {
                self.route(turn, output);
            } else {
                return;
            }
        }
    }

    fn route(&mut self, turn: &mut Turn<'_>, output: Output) {
        match output {
            Output::ReportStarted => {
                let (job, host) = (self.job.order.job.clone(), self.job.order.host.clone());
                let manager = turn.common.pid.unsigned_abs();
                turn.tell_console(JobNews::Started { job, host, manager });
            }
            Output::ReportFailed { host, failure } => {
                let host = host.map_or_else(|| self.job.order.host.clone(), |it| it.to_string());
                turn.tell_console(JobNews::Failed { host, failure });
            }
            Output::ReportSuspended => turn.tell_console(JobNews::Suspended),
            Output::Finish(code) => {
                turn.tell_console(JobNews::Ended { code });
                turn.common.over = Some(code);
            }
            Output::Withdraw => turn.common.over = Some(exit::SUITE),
            Output::ToSome(children, release @ Down::Release { first }) => {
                self.tell_clients(turn, FromJob::ReleaseChildren(children, first, release));
            }
            Output::ToSome(children, command) => send_down(turn, &children, &command),
            Output::ToChildren(command) => {
                turn.common.links.send_to_children(&Frame::down(&command));
                if command == Down::Kill {
                    self.give_up_unlinked(turn);
                }
            }
            Output::ToParent(entered @ Up::Entered { .. }) => {
                self.tell_clients(turn, FromJob::Entered(entered));
            }
            Output::ToParent(message) => send_up(turn, message),
            Output::GiveUp(child) => turn.common.links.close(LinkEnd::Child(child)),
            Output::Leave => {
                turn.common.links.close(LinkEnd::Parent);
                turn.common.over = Some(0);
            }
            Output::Spawn(output) => self.perform_spawn(turn, output),
            Output::Drain => self.pump.post(Input::Drained),
            other => self.route_to_ranks(turn, other),
        }
    }

    fn route_to_ranks(&mut self, turn: &mut Turn<'_>, output: Output) {
        match output {
            Output::Go => {
                self.give_ending(turn, EndingInput::Going);
                self.job.pmix_port = Some(1);
                self.starting.push(Rank(0));
            }
            Output::Prepare(announced) => self.prepare_world(turn, *announced),
            Output::StartWorld(first) => self.starting.push(first),
            Output::EndWorld(first) => self.end_world(turn, first),
            Output::ForgetWorld(first) => {
                self.starting.retain(|it| *it != first);
                self.tell_clients(turn, FromJob::Forget(first));
                self.job.worlds.remove(first);
            }
            Output::Grow(from, host_slices) => self.grow(turn, from, host_slices),
            Output::ReadPmi => self.tell_clients(turn, FromJob::Read),
            Output::ReleaseFence(first) => self.give_ending(turn, EndingInput::FenceOver(first)),
            Output::Dead(rank) => self.tell_clients(turn, FromJob::Dead(rank)),
            Output::SignalRanks(signal) => self.signal(turn, signal.into(), SignalTarget::Group),
            Output::SignalProcesses(signal) => {
                self.signal(turn, signal.into(), SignalTarget::Process);
            }
            Output::Retire(ranks) => self.signal(turn, SIGTERM, SignalTarget::Groups(ranks)),
            Output::StopTree => self.give_ending(turn, EndingInput::Stop),
            Output::ContinueTree => self.give_ending(turn, EndingInput::Continue),
            Output::KillTree => self.give_ending(turn, EndingInput::Kill),
            Output::CleanUp => self.give_ending(turn, EndingInput::CleanUp),
            Output::ReportNotice(_)
            | Output::Events(_)
            | Output::Pids(_)
            | Output::WorldEnded(_)
            | Output::ReleaseCrashed
            | Output::DiscardOutput => {}
            other => panic!("not simulated: {other:?}"),
        }
    }

    /// Children that have not connected will not, as the job ends.
    fn give_up_unlinked(&mut self, turn: &mut Turn<'_>) {
        for child in self.job.order.host_slices.children(self.job.tree_index()) {
            if turn.common.links.awaits(LinkEnd::Child(child)) {
                turn.common.is_unlinked = true;
                turn.common.links.close(LinkEnd::Child(child));
                let problem = "its manager had not connected when the job was ended".to_owned();
                self.pump.post(Input::ChildLost(child, problem));
            }
        }
    }

    fn signal(&mut self, turn: &mut Turn<'_>, signal: i32, target: SignalTarget) {
        self.give_ending(turn, EndingInput::Signal(signal, target));
    }

    // ----- the clients -----

    fn tell_clients(&mut self, turn: &mut Turn<'_>, event: FromJob) {
        self.give_clients(turn, ClientsInput::Job(event));
    }

    fn give_clients(&mut self, turn: &mut Turn<'_>, input: ClientsInput<'_>) {
        self.clients.handle(turn.now, &self.job, input);
        self.perform_of_clients(turn);
    }

    fn perform_of_clients(&mut self, turn: &mut Turn<'_>) {
        while let Some(output) = self.clients.poll_output() {
            match output {
                ClientsOutput::Job(input) => self.pump.post(input),
                ClientsOutput::Daemon(report) => turn.report(report),
                ClientsOutput::Links(LinkOutput::Up(up)) => send_up(turn, up),
                ClientsOutput::Links(LinkOutput::DownNow(children, command)) => {
                    send_down(turn, &children, &command);
                }
                ClientsOutput::Links(LinkOutput::Bytes(to, kind, bytes)) => {
                    turn.common.links.send(to, Frame::raw(kind, &bytes));
                }
                ClientsOutput::Spawn(caller, wish) => self.ask_for_spawn(turn, caller, &wish),
                ClientsOutput::Speaks
                | ClientsOutput::Aborts(_)
                | ClientsOutput::Signal(..)
                | ClientsOutput::FenceBegins
                | ClientsOutput::FenceEnds
                | ClientsOutput::MakeDirectory(_)
                | ClientsOutput::Close(_)
                | ClientsOutput::Log(..) => {}
                other => panic!("not simulated: {other:?}"),
            }
        }
    }

    fn take_words(&mut self, turn: &mut Turn<'_>, rank: Rank, bytes: &[u8]) {
        // The first words of PMIx have a header in binary; those of PMI are a line.
        let is_pmix = *self.speaks_pmix.entry(rank).or_insert(bytes[0] != b'c');
        let id = self.id_of(rank);
        if let (ConnectionId::Pmix(number), true) = (id, bytes.starts_with(&[0xff; 8])) {
            let accepted = Accepted { own: vec![number], ..Accepted::default() };
            self.give_clients(turn, ClientsInput::Accepted(accepted));
        }
        self.give_clients(turn, ClientsInput::Client(id, FromClient::Received(bytes)));
        // The owner writes at once, because the kernel wakes a client of PMI when its request is read.
        if !is_pmix {
            self.write(turn, id);
        }
    }

    fn id_of(&self, rank: Rank) -> ConnectionId {
        match self.speaks_pmix.get(&rank) {
            Some(true) => ConnectionId::Pmix(rank.index()),
            Some(false) | None => ConnectionId::Pmi(rank),
        }
    }

    fn write_answers(&mut self, turn: &mut Turn<'_>) {
        while let Some(id) = self.clients.next_answering() {
            self.give_clients(turn, ClientsInput::Client(id, FromClient::Writing));
            self.write(turn, id);
        }
    }

    fn write(&mut self, turn: &mut Turn<'_>, id: ConnectionId) {
        let rank = match id {
            ConnectionId::Pmi(rank) => rank,
            ConnectionId::Pmix(number) => Rank(u32::try_from(number).expect("a rank")),
        };
        let bytes = self.clients.output(id).to_vec();
        self.clients.consume(id, bytes.len());
        if let Some(&pid) = self.ranks.get(&rank).filter(|_| !bytes.is_empty()) {
            turn.effects.push(Effect::Heard(pid, bytes));
        }
        self.give_clients(turn, ClientsInput::Client(id, FromClient::Written));
    }

    // ----- spawned worlds -----

    fn ask_for_spawn(&mut self, turn: &mut Turn<'_>, caller: Caller, wish: &ClientSpawn) {
        let sizes = wish.request.commands.iter().map(|command| command.size);
        let input = self.order_of(caller.0, wish).map(|order| SpawnInput::Asked {
            caller,
            errors: order.error_codes(sizes),
            order: order.encode_bounded().expect("a short order"),
        });
        match input {
            Ok(input) => self.pump.post(Input::Spawn(input)),
            Err(_) => self.tell_clients(turn, FromJob::Spawned(caller, Err("cannot_spawn"))),
        }
    }

    fn order_of(&self, rank: Rank, wish: &ClientSpawn) -> Result<SpawnOrder, String> {
        let world = self.job.worlds.of(rank).ok_or("it has ended")?;
        let argset = world.argset_of(rank);
        let parent = Parent {
            kvsname: world.kvsname.clone(),
            rank: world.numbers.own(rank),
            generation: world.generation,
            inherited: world.inherits.get(argset).copied().unwrap_or(0),
            niceness: None,
        };
        let read = |_: &[u8]| Err("no files are simulated".to_owned());
        let parent_argset = &world.spec.argsets[argset];
        let around = Surroundings { parent: parent_argset, architecture: "x", read: &read };
        let programs = wish.request.commands.iter().map(|command| {
            let wanted = Wanted {
                program: &command.program,
                args: &command.args,
                size: command.size,
                info: &command.info,
            };
            program_of(wanted, around)
        });
        let programs = programs.collect::<Result<_, _>>()?;
        SpawnOrder::of_rank(&self.job.spec, parent, programs, &wish.request.preput)
    }

    fn perform_spawn(&mut self, turn: &mut Turn<'_>, output: SpawnOutput) {
        match output {
            SpawnOutput::Piece(to, piece) => {
                turn.common.links.send(to, Frame::raw(TreeKind::World, &piece));
            }
            SpawnOutput::Answer(caller, outcome) => {
                self.tell_clients(turn, FromJob::Spawned(caller, outcome));
            }
            SpawnOutput::Place(request, placement) => {
                turn.report(ManagerReport::Place { request, placement: *placement });
            }
            SpawnOutput::Report(_) => {}
        }
    }

    fn prepare_world(&mut self, turn: &mut Turn<'_>, announced: Announced) {
        let preput = announced.order.as_ref().map(SpawnOrder::preput).unwrap_or_default();
        let world = World::announced(announced, (&self.job.spec, &self.job.order));
        let (first, is_here) = (world.numbers.first, !world.here.is_empty());
        self.give_ending(turn, EndingInput::World(world.kvsname.clone()));
        self.job.worlds.insert(world);
        self.tell_clients(turn, FromJob::Prepare(first, preput));
        if is_here {
            self.pump.post(Input::Prepared(first));
        }
    }

    /// Hosts join the job. The root asks its daemon for their managers.
    fn grow(&mut self, turn: &mut Turn<'_>, from: u32, host_slices: Vec<HostSlice>) {
        let order = &mut self.job.order;
        let known = order.host_slices.len();
        order.host_slices.join(from, host_slices).expect("sound host slices");
        let encoded = self.job.spec.encode();
        let bytes = u32::try_from(encoded.len()).expect("a short specification");
        for child in order.host_slices.children(turn.common.tree_index).filter(|it| *it >= known) {
            let host_slice = order.host_slices.get(child).expect("a host slice");
            let links = &mut turn.common.links;
            links.add_child(turn.now, child, host_slice);
            links.send(LinkEnd::Child(child), Frame::down(&Down::Spec { bytes }));
            links.send(LinkEnd::Child(child), Frame::raw(TreeKind::Spec, &encoded));
        }
        if turn.common.tree_index == 0 {
            let launch = Launch {
                job: order.job.clone(),
                key: order.key.clone(),
                cookie: order.cookie.clone(),
                kvsname: order.kvsname.clone(),
                tmpdir: order.tmpdir.clone(),
                host_slices: order.host_slices.clone(),
                universe: order.universe,
                first: u32::try_from(known).expect("few hosts"),
            };
            turn.report(ManagerReport::Grow { launch: Box::new(launch) });
        }
    }

    fn end_world(&mut self, turn: &mut Turn<'_>, first: Rank) {
        let Some(world) = self.job.worlds.of(first) else { return };
        self.starting.retain(|it| *it != first);
        for &rank in &world.here {
            if !self.ranks.contains_key(&rank) {
                self.pump.post(Input::Exited(rank, RankEnd::NotStarted));
                continue;
            }
            for pid in turn.kernel.descendants_of(turn.common.pid) {
                if turn.kernel.processes[&pid].rank == Some(rank) {
                    turn.kernel.send(pid, SIGKILL);
                }
            }
        }
    }

    // ----- processes -----

    /// Starts the ranks of worlds that wait for that, unless everything is stopped.
    fn start_some(&mut self, turn: &mut Turn<'_>) {
        while !self.ending.is_busy() && !self.starting.is_empty() {
            let first = self.starting.remove(0);
            self.start_world(turn, first);
        }
    }

    fn start_world(&mut self, turn: &mut Turn<'_>, first: Rank) {
        let Some(world) = self.job.worlds.of(first) else { return };
        let (here, numbers) = (world.here.clone(), world.numbers);
        let space =
            [world.kvsname.clone(), format!("mpd-{}-{}", self.job.pmix_secret, numbers.number)];
        for &rank in &here {
            if turn.refuses_forks {
                let failure = Failure::Suite { problem: "cannot start a process".to_owned() };
                if first == Rank(0) {
                    return self.pump.post(Input::StartFailed(failure));
                }
                self.pump.post(Input::WorldFailed(first, failure));
                return self.pump.post(Input::WorldStarted(first));
            }
            let process = Process {
                rank: Some(rank),
                dies_with_parent: true,
                ..Process::child_of(turn.common.pid)
            };
            let pid = turn.kernel.start(process);
            let (own, space) = (numbers.own(rank), space.clone());
            turn.effects.push(Effect::Started { pid, rank, first, own, space });
            self.ranks.insert(rank, pid);
            self.give_ending(turn, EndingInput::Started(Pid(pid), Some(0)));
            self.give_clients(turn, ClientsInput::Connected(rank, mpd_clients::Client::Program));
        }
        let pids = here.iter().map(|rank| (*rank, self.ranks[rank].unsigned_abs())).collect();
        self.pump.post(Input::Pids(pids));
        self.pump.post(match first {
            Rank(0) => Input::Started,
            _ => Input::WorldStarted(first),
        });
    }

    fn give_ending(&mut self, turn: &mut Turn<'_>, input: EndingInput) {
        self.ending.handle(turn.now, input);
        self.perform_of_ending(turn);
    }

    fn perform_of_ending(&mut self, turn: &mut Turn<'_>) {
        while let Some(output) = self.ending.poll_output() {
            match output {
                EndingOutput::Ask(question) => self.answer(turn, question),
                EndingOutput::Continue(pids) => {
                    pids.iter().for_each(|pid| turn.kernel.resume(pid.0));
                }
                EndingOutput::ContinueDescendants => {
                    let all = turn.kernel.descendants_of(turn.common.pid);
                    all.into_iter().for_each(|pid| turn.kernel.resume(pid));
                }
                EndingOutput::Reap => self.reaps = true,
                EndingOutput::StopHelper => {
                    let helper = self.helper.take();
                    helper.into_iter().for_each(|pid| _ = turn.kernel.send(pid, SIGKILL));
                }
                EndingOutput::RemoveFile(id, _) => drop(turn.kernel.remove(id.inode)),
                EndingOutput::Killing => self.starting.clear(),
                EndingOutput::TreeStopped => self.pump.post(Input::TreeStopped),
                EndingOutput::TreeGone => self.pump.post(Input::TreeGone),
                EndingOutput::CleanedUp => self.pump.post(Input::CleanedUp),
                EndingOutput::ReleaseFence(first) => {
                    self.tell_clients(turn, FromJob::ReleaseFence(first));
                }
                EndingOutput::LeftRunning(_)
                | EndingOutput::Unkillable(_)
                | EndingOutput::SignalRefused(..) => panic!("all processes are the user's"),
                _ => {}
            }
        }
    }

    fn answer(&mut self, turn: &mut Turn<'_>, question: Question) {
        if let Question::Stop(pid) = question {
            turn.effects.push(Effect::Stops(pid.0));
        }
        let starts_helper = matches!(question, Question::StartHelper(..));
        let answer = turn.kernel.answer(turn.common.pid, turn.now, question);
        if starts_helper {
            self.helper = turn.kernel.processes.keys().next_back().copied();
            turn.effects.extend(self.helper.map(Effect::Helper));
        }
        self.ending.handle(turn.now, EndingInput::Answer(answer));
    }

    /// The helper has looked at all processes, unless it was ended before.
    fn end_helper(&mut self, turn: &mut Turn<'_>, pid: i32) {
        if self.helper != Some(pid) {
            return;
        }
        let process = turn.kernel.processes.get(&pid).filter(|process| process.lives());
        if process.is_some_and(|process| process.state == State::Stopped) {
            return turn.effects.push(Effect::Helper(pid));
        }
        self.helper = None;
        let wanted = process.and_then(|process| process.helper.clone());
        let Some(wanted) = wanted else {
            return self.give_ending(turn, EndingInput::HelperEnded(Completeness::Cut));
        };
        let found = turn.kernel.users(&wanted);
        turn.kernel.die(pid, RankEnd::Exited(0));
        self.give_ending(turn, EndingInput::Found(found));
        self.give_ending(turn, EndingInput::HelperEnded(Completeness::Complete));
    }

    /// Reaps all dead children.
    fn reap(&mut self, turn: &mut Turn<'_>) {
        let manager = turn.common.pid;
        let dead = |turn: &Turn<'_>| {
            let mut children = turn.kernel.children_of(manager).into_iter();
            children.find(|pid| !turn.kernel.lives(*pid))
        };
        while let Some(pid) = dead(turn) {
            self.give_ending(turn, EndingInput::Ended(Pid(pid)));
            let end = turn.kernel.processes[&pid].end.expect("it is dead");
            turn.kernel.reap(pid);
            let rank = self.ranks.iter().find(|(_, of)| **of == pid).map(|(rank, _)| *rank);
            if let Some(rank) = rank {
                let closed = ClientsInput::Client(self.id_of(rank), FromClient::Closed);
                self.give_clients(turn, closed);
                self.tell_clients(turn, FromJob::Ended(rank));
                self.pump.post(Input::Exited(rank, end));
            }
        }
        let is_alone = turn.kernel.children_of(manager).is_empty();
        self.give_ending(
            turn,
            if is_alone { EndingInput::NoChild } else { EndingInput::NoDeadChild },
        );
    }
}

fn send_up(turn: &mut Turn<'_>, message: Up) {
    turn.common.links.send(LinkEnd::Parent, Frame::up(&message));
}

fn send_down(turn: &mut Turn<'_>, children: &[usize], command: &Down) {
    for &child in children {
        turn.common.links.send(LinkEnd::Child(child), Frame::down(command));
    }
}
