//! The node of a simulated manager, and the owners around it. The owner of the output is in `output`.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_clients::{Accepted, ConnectionId, FromClient, Input as ClientsInput, Job};
use mpd_ending::{
    Action, Beginning as EndingBeginning, Completeness, Ending, Input as EndingInput, Pid, Question,
};
use mpd_job::manager::spawns::SpawnSettings;
use mpd_job::manager::{Config, Input, LinkEnd, Manager};
use mpd_joblink::Frame;
use mpd_manager::{Beginning, Event, ForLinks, Node, Output, Sign, Trace};
use mpd_ranks::{
    Action as RanksAction, Answer as RanksAnswer, Input as RanksInput, Question as RanksQuestion,
    Ranks, Sent, Start, StartProblem, Started,
};
use mpd_sansio::{Pump, Time};
use mpd_stdio::machine::Input as Stdio;
use mpd_wire::job::RankEnd;
use mpd_wire::message::{Down, TreeKind};
use mpd_wire::{Rank, Stream};

use super::manager::{Effect, ForManager, Turn};
use super::willing::{DAEMON, Willing};
use crate::kernel::{BEGAN, Process, State, clocks};

const SIGKILL: u8 = 9;

#[derive(Debug)]
pub(super) struct Machines {
    pub(super) node: Node,
    helper: Option<i32>,
    /// The processes of ranks.
    ranks: BTreeMap<Rank, i32>,
    speaks_pmix: BTreeMap<Rank, bool>,
    /// Children are to be reaped.
    reaps: bool,
}

impl Machines {
    /// The machines of a job whose checks before the start succeed.
    pub(super) fn new(turn: &mut Turn<'_>, job: Job) -> Self {
        let beginning =
            EndingBeginning { began: BEGAN, changed: Some(BEGAN), ..EndingBeginning::default() };
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
        let beginning = Beginning {
            manager: turn.common.pid.unsigned_abs(),
            trace: Trace::start(0, 0, turn.now),
            sign: Sign::new(turn.now),
            has_daemon: turn.common.is_registered,
        };
        let machine = Pump::new(Manager::new(&config));
        let is_shared = turn.common.is_shared;
        let stdio = mpd_stdio::machine::Stdio::new(&job.spec, &job.order, is_shared);
        let ranks = Ranks::new(mpd_ranks::Beginning {
            adopts: false,
            began: Duration::ZERO,
            kills: None,
            daemon: DAEMON,
        });
        let mut machines = Self {
            node: Node::new(turn.now, job, (machine, ranks, ending, stdio), beginning),
            helper: None,
            ranks: BTreeMap::new(),
            speaks_pmix: BTreeMap::new(),
            reaps: false,
        };
        machines.report(RanksInput::Check(None));
        machines
    }

    /// The time of its next turn, which is now while there is something to read.
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.node.stdio().has_work() { Some(Time::ZERO) } else { self.node.poll_timeout() }
    }

    // ----- what arrives -----

    pub(super) fn report(&mut self, event: impl Into<Event>) {
        self.node.lend().report(event);
    }

    fn post(&mut self, input: Input) {
        self.report(Event::Input(input));
    }

    pub(super) fn take(&mut self, turn: &mut Turn<'_>, input: ForManager) {
        match input {
            ForManager::Order(order) => self.report(Event::Daemon(order)),
            ForManager::Registered(is_adopted) => self.report(Event::Registered(is_adopted)),
            ForManager::DaemonGone => self.report(Event::DaemonGone),
            ForManager::FromConsole(input) => self.report(Event::Console(input)),
            ForManager::ConsoleLost => self.post(Input::ConsoleLost),
            ForManager::Readable(rank) => self.read(turn, rank),
            ForManager::Child => self.reaps = true,
            ForManager::Helper(pid) => self.end_helper(turn, pid),
            ForManager::Written(rank, stream) => self.mark_source(rank, stream, false),
            ForManager::HungUp(rank) => {
                Stream::BOTH.into_iter().for_each(|stream| self.mark_source(rank, stream, true));
            }
            ForManager::Room(sink, bytes) => turn.common.room[sink] += bytes,
            ForManager::Time
            | ForManager::Linked(..)
            | ForManager::Missed(_)
            | ForManager::Packet(..) => {}
        }
    }

    // ----- a turn -----

    /// The rest of a turn: deadlines, reports, answers.
    pub(super) fn end_turn(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now;
        self.settle(turn);
        self.start_some(turn);
        self.serve_sources(turn);
        self.settle(turn);
        self.node.handle_timeout(now, &Willing(&turn.common.links));
        self.settle(turn);
        self.node.expire_ending(now);
        self.settle(turn);
        self.node.expire_ranks(now, &Willing(&turn.common.links));
        self.settle(turn);
        self.node.expire_clients(now);
        self.settle(turn);
        self.expire_output(turn);
        self.settle(turn);
        self.flush_machine(turn);
        self.flush_output(turn);
        self.settle(turn);
        turn.flush();
        self.review_drain(turn);
        self.settle(turn);
        self.flush_machine(turn);
        self.start_some(turn);
    }

    /// Answers of the clients and output for the parent.
    fn flush_machine(&mut self, turn: &mut Turn<'_>) {
        loop {
            self.node.end_turn(turn.now);
            self.settle(turn);
            if !self.node.clients().has_answers() {
                break;
            }
            self.write_answers(turn);
            self.settle(turn);
        }
        self.pass_up(turn);
        self.settle(turn);
    }

    fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            if std::mem::take(&mut self.reaps) {
                self.reap(turn);
                continue;
            }
            let Some(output) = self.node.next(turn.now, &Willing(&turn.common.links)) else {
                return;
            };
            self.perform(turn, output);
        }
    }

    fn perform(&mut self, turn: &mut Turn<'_>, output: Output) {
        match output {
            Output::Console(news) => turn.effects.push(Effect::News(news)),
            Output::Daemon(report) => turn.effects.push(Effect::Report(report)),
            Output::Register => turn.effects.push(Effect::Register),
            Output::Links(output) => self.perform_of_links(turn, output),
            Output::Ranks(RanksAction::HandOver(rank)) => {
                let client = mpd_clients::Client::Program;
                self.report(ClientsInput::Connected(rank, client));
            }
            Output::AskRanks(question) => self.answer_ranks(turn, question),
            Output::Stdio(input) => self.give_stdio(turn, input),
            Output::RankEnded(rank) => self.give_stdio(turn, Stdio::RankEnded(rank, None)),
            Output::DiscardOutput => self.node.lend().stdio.discard(),
            Output::Listen => self.report(Event::Listening(Some(1))),
            Output::Ending(action) => self.perform_of_ending(turn, action),
            Output::AskEnding(question) => self.answer(turn, question),
            Output::Reap => self.reaps = true,
            Output::FlushConsole
            | Output::FlushDaemon
            | Output::OpenFiles(..)
            | Output::Ranks(_)
            | Output::Clients(_)
            | Output::Send(..)
            | Output::ReadMarks(_)
            | Output::PassOn
            | Output::Log(..) => {}
        }
    }

    fn perform_of_links(&mut self, turn: &mut Turn<'_>, output: ForLinks) {
        let links = &mut turn.common.links;
        match output {
            ForLinks::Up(message) => links.send(LinkEnd::Parent, Frame::up(&message)),
            ForLinks::Down(child, command) => {
                links.send(LinkEnd::Child(child), Frame::down(&command));
            }
            ForLinks::DownNow(children, command) => {
                for child in children {
                    links.send(LinkEnd::Child(child), Frame::down(&command));
                }
            }
            ForLinks::DownAll(command) => links.send_to_children(&Frame::down(&command)),
            ForLinks::Bytes(to, kind, bytes) => links.send(to, Frame::raw(kind, &bytes)),
            ForLinks::Close(end) => links.close(end),
            ForLinks::Join(children) => {
                let encoded = self.node.job().spec.encode();
                let bytes = u32::try_from(encoded.len()).expect("a short specification");
                for child in children {
                    self.node.lend().report(Stdio::ChildJoined(child));
                    let job = self.node.job();
                    let host_slice = job.order.host_slices.get(child).expect("a host slice");
                    links.add_child(turn.now, child, host_slice);
                    links.send(LinkEnd::Child(child), Frame::down(&Down::Spec { bytes }));
                    links.send(LinkEnd::Child(child), Frame::raw(TreeKind::Spec, &encoded));
                }
            }
            ForLinks::Listed(..)
            | ForLinks::Lacks(..)
            | ForLinks::File(_)
            | ForLinks::StopSending(_)
            | ForLinks::StopStaging => {}
        }
    }

    // ----- the clients -----

    fn give_clients(&mut self, turn: &mut Turn<'_>, input: ClientsInput<'_>) {
        self.node.lend().give_clients(turn.now, input);
        self.settle_machines(turn);
    }

    /// Reads what a rank has written.
    fn read(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(bytes) = turn.common.unread.remove(&rank) else { return };
        // The first words of PMIx have a header in binary; those of PMI are a line.
        let is_pmix = *self.speaks_pmix.entry(rank).or_insert(bytes[0] != b'c');
        let id = self.id_of(rank);
        if let (ConnectionId::Pmix(number), true) = (id, bytes.starts_with(&[0xff; 8])) {
            let accepted = Accepted { own: vec![number], ..Accepted::default() };
            self.give_clients(turn, ClientsInput::Accepted(accepted));
        }
        self.give_clients(turn, ClientsInput::Client(id, FromClient::Received(&bytes)));
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
        while let Some(id) = self.node.lend().clients.next_answering() {
            self.give_clients(turn, ClientsInput::Client(id, FromClient::Writing));
            self.write(turn, id);
        }
    }

    fn write(&mut self, turn: &mut Turn<'_>, id: ConnectionId) {
        let rank = match id {
            ConnectionId::Pmi(rank) => rank,
            ConnectionId::Pmix(number) => Rank(u32::try_from(number).expect("a rank")),
        };
        let clients = self.node.lend().clients;
        let bytes = clients.output(id).to_vec();
        clients.consume(id, bytes.len());
        if let Some(&pid) = self.ranks.get(&rank).filter(|_| !bytes.is_empty()) {
            turn.effects.push(Effect::Heard(pid, bytes));
        }
        self.give_clients(turn, ClientsInput::Client(id, FromClient::Written));
    }

    // ----- processes -----

    /// Starts the ranks of worlds that wait for that, unless everything is stopped.
    fn start_some(&mut self, turn: &mut Turn<'_>) {
        while self.node.is_to_start() {
            self.node.start_some(turn.now, &Willing(&turn.common.links));
            self.settle(turn);
        }
    }

    fn answer_ranks(&mut self, turn: &mut Turn<'_>, question: RanksQuestion) {
        let answer = match question {
            RanksQuestion::Start(start) => RanksAnswer::Started(self.start(turn, &start)),
            RanksQuestion::Limit(_) => RanksAnswer::Limited(Ok(())),
            RanksQuestion::Adopt(_) => panic!("no process is adopted"),
            RanksQuestion::Send(..) => RanksAnswer::Sent(Sent::Gone),
            RanksQuestion::Search(_) => RanksAnswer::Is(false),
            RanksQuestion::KillAdopted => RanksAnswer::Is(true),
        };
        let lent = Willing(&turn.common.links);
        self.node.give_ranks(turn.now, &lent, RanksInput::Answer(answer));
    }

    fn start(&mut self, turn: &mut Turn<'_>, start: &Start) -> Result<Started, StartProblem> {
        if turn.refusal.forks {
            let problem = "no process is permitted".to_owned();
            return Err(StartProblem::Process { problem, at_limit: false });
        }
        if turn.refusal.programs {
            let problem = "no such file".to_owned();
            return Err(StartProblem::Program { problem, missing: true });
        }
        let (job, rank, first) = (self.node.job(), start.rank, start.first);
        let world = job.worlds.of(first).expect("a world that starts");
        let numbers = world.numbers;
        let space = [world.kvsname.clone(), format!("mpd-{}-{}", job.pmix_secret, numbers.number)];
        let process = Process {
            rank: Some(rank),
            dies_with_parent: true,
            ..Process::child_of(turn.common.pid)
        };
        let pid = turn.kernel.start(process);
        let own = numbers.own(rank);
        turn.effects.push(Effect::Started { pid, rank, first, own, space });
        self.ranks.insert(rank, pid);
        self.open_pipes(turn, rank, pid);
        Ok(Started { pid: Pid(pid), begin: Some(0), shim: None, cpus: None, unwatched: None })
    }

    fn give_ranks(&mut self, turn: &mut Turn<'_>, input: RanksInput) {
        self.node.give_ranks(turn.now, &Willing(&turn.common.links), input);
        self.settle_machines(turn);
    }

    fn give_ending(&mut self, turn: &mut Turn<'_>, input: EndingInput) {
        self.node.give_ending(turn.now, input);
        self.settle_machines(turn);
    }

    fn settle_machines(&mut self, turn: &mut Turn<'_>) {
        while let Some(output) = self.node.next_of_machines(turn.now, &Willing(&turn.common.links))
        {
            self.perform(turn, output);
        }
    }

    fn perform_of_ending(&mut self, turn: &mut Turn<'_>, action: Action) {
        match action {
            Action::Continue(pids) => pids.iter().for_each(|pid| turn.kernel.resume(pid.0)),
            Action::ContinueDescendants => {
                let all = turn.kernel.descendants_of(turn.common.pid);
                all.into_iter().for_each(|pid| turn.kernel.resume(pid));
            }
            Action::StopHelper => {
                let helper = self.helper.take();
                helper.into_iter().for_each(|pid| _ = turn.kernel.send(pid, SIGKILL));
            }
            Action::RemoveFile(id, _) => drop(turn.kernel.remove(id.inode)),
            _ => {}
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
        self.node.give_ending(turn.now, EndingInput::Answer(answer));
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
            if let Some(rank) = self.node.ranks().of_pid(Pid(pid)) {
                // The last requests count: the rank may have finalized just before its end.
                self.read(turn, rank);
                let closed = ClientsInput::Client(self.id_of(rank), FromClient::Closed);
                self.give_clients(turn, closed);
                let is_kill = self.node.ending().is_kill();
                self.give_ranks(turn, RanksInput::Reaped(Pid(pid), end, is_kill));
            }
        }
        let is_alone = turn.kernel.children_of(manager).is_empty();
        let input = if is_alone { EndingInput::NoChild } else { EndingInput::NoDeadChild };
        self.give_ending(turn, input);
    }
}
