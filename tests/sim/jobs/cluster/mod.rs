//! All managers of a job, with simulated links, processes and ranks. Messages of a link arrive in order; a seed
//! determines the order of everything else.

mod dialect;
mod perform;
mod programs;
mod spawns;
mod worlds;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_job::manager::spawns::{Caller, SpawnInput, SpawnSettings};
use mpd_job::manager::{Config, Input, LinkEnd, Manager};
use mpd_machine::{Pump, Time};
use mpd_wire::job::{
    AbortScope, Bytes, Failure, HostSlices, ManagerEnd, OnFailure, RankEnd, SpawnPlacement, World,
};
use mpd_wire::message::{Down, TreeKind, Up};
use mpd_wire::{DaemonName, Rank, RankSet};

use mpd_tests::random::Random;

pub(crate) use self::dialect::Dialect;
use self::programs::{Program, Speakers};
use super::{SIGKILL, host_slices, name};
use crate::recordings::{Memory, recorded};

/// How long a rank computes if nothing else happens.
const COMPUTING: Duration = Duration::from_secs(2);

/// A task of a process that is not done yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Check,
    Spawn,
    Stop,
    Kill,
    Drain,
    CleanUp,
    Prepare(Rank),
    Begin(Rank),
}

/// A fault, or an action of the user.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The check before the start finds a problem.
    CheckFails(usize),
    /// Spawning the second rank fails.
    SpawnFails(usize),
    /// A manager dies, and its ranks with it.
    Crash(usize),
    /// The link of a manager to its parent breaks; both live.
    Cut(usize),
    /// A host never receives the job.
    Missing(usize),
    /// A rank ends like this, on any host.
    Ends(Rank, RankEnd),
    Console(Input),
    Here(usize, Input),
    /// The reader of the output stops reading.
    ReaderStops,
    /// A rank spawns so many processes.
    Spawn(Rank, u32),
    /// A user requests so many processes.
    Grow(u32),
}

/// The moment at which the start of a world fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorldFault {
    Preparing,
    Beginning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pmi {
    Unused,
    Initialized,
    Finalized,
}

/// A message on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message<T> {
    Control(T),
    /// A piece of a request or of an order of a spawn.
    Piece(Bytes),
    /// Keys and values of ranks, or data of PMIx clients.
    OfClients(TreeKind, Bytes),
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pmi: Pmi,
    pub(crate) inside: bool,
    /// The number of fences that it will still enter.
    pub(crate) fences: u32,
    /// The number of spawns whose answers it awaits.
    pub(crate) spawns: u32,
    /// It computes until time passes.
    pub(crate) computes: bool,
    /// The signal that will kill it.
    doomed: Option<u8>,
    /// What it does, if ranks speak.
    program: Program,
    pub(crate) end: Option<RankEnd>,
}

pub(crate) struct Host {
    pub(crate) manager: Pump<Manager>,
    pub(crate) alive: bool,
    /// Whether it was lost; otherwise it ended.
    pub(crate) lost: bool,
    linked: bool,
    from_parent: VecDeque<Message<Down>>,
    to_parent: VecDeque<Message<Up>>,
    owed: BTreeSet<Task>,
    pub(crate) ready: bool,
    pub(crate) went: bool,
    pub(crate) cleaned_up: bool,
    /// The parent has confirmed the arrival of all its output.
    pub(crate) reported: bool,
    stopped: bool,
    loses_parent: bool,
    loses_children: BTreeSet<usize>,
    fails: Option<Task>,
    /// By rank, as they are spawned.
    pub(crate) processes: BTreeMap<u32, Process>,
    ranks: Vec<u32>,
    /// Ranks of spawned worlds that will run here.
    pub(crate) parts: BTreeMap<Rank, RankSet>,
    /// The clients, if ranks speak.
    speakers: Option<Speakers>,
}

pub(crate) struct Cluster {
    pub(crate) host_slices: HostSlices,
    pub(crate) hosts: Vec<Host>,
    pub(crate) dice: Random,
    pub(crate) reported_failures: Vec<(Option<DaemonName>, Failure)>,
    pub(crate) finish: Option<u8>,
    /// The console knows that ranks may run; it knows that it must submit the job again.
    pub(crate) started: bool,
    pub(crate) withdrawn: bool,
    /// Messages about fences that were sent to parents.
    pub(crate) entries: usize,
    pub(crate) releases: usize,
    pub(crate) check_failed: bool,
    pub(crate) console_lost: bool,
    /// The user requested the end.
    pub(crate) interrupted: bool,
    /// Spawned worlds by their first ranks.
    pub(crate) worlds: BTreeMap<Rank, World>,
    /// The spawns of ranks, and how often each was answered.
    pub(crate) spawns: BTreeMap<Caller, u32>,
    /// Questions to the daemon of the root.
    questions: Vec<(u32, SpawnPlacement)>,
    /// Questions to a daemon that was believed dead, and whether one was never answered.
    late: Vec<(u32, SpawnPlacement)>,
    unanswered: bool,
    /// Worlds whose start failed.
    pub(crate) failed: BTreeSet<Rank>,
    fails: BTreeMap<(usize, Rank), WorldFault>,
    pub(crate) size: u32,
    /// What ranks have put, by the rank and the number of its put.
    puts: BTreeMap<(u32, u32), String>,
    on_failure: OnFailure,
    /// Checks the whole state at each release of a fence, and at the end.
    pub(crate) at_release: fn(&Self),
    pub(crate) at_finish: fn(&Self),
    now: Time,
    fences: u32,
    suspended: bool,
    reader_stopped: bool,
    /// Inputs and outputs, if requested.
    pub(crate) lines: Option<Vec<String>>,
    /// The recordings of the managers, if requested.
    recordings: Option<Vec<Memory>>,
}

impl Host {
    fn of(manager: Pump<Manager>, tree_index: usize, ranks: Vec<u32>) -> Self {
        Self {
            manager,
            alive: true,
            lost: false,
            linked: tree_index > 0,
            from_parent: VecDeque::new(),
            to_parent: VecDeque::new(),
            owed: BTreeSet::new(),
            ready: true,
            went: false,
            cleaned_up: false,
            reported: false,
            stopped: false,
            loses_parent: false,
            loses_children: BTreeSet::new(),
            fails: None,
            processes: BTreeMap::new(),
            ranks,
            parts: BTreeMap::new(),
            speakers: None,
        }
    }

    /// The ranks of a world that run here or will.
    fn ranks_of(&self, first: Rank) -> Vec<Rank> {
        match self.parts.get(&first) {
            Some(ranks) => ranks.ranks().collect(),
            None => self.ranks.iter().copied().map(Rank).collect(),
        }
    }
}

impl Cluster {
    pub(crate) fn new(hosts: usize, each: u32, dice: Random, on_failure: OnFailure) -> Self {
        let host_slices = host_slices(hosts, each);
        let size = u32::try_from(hosts).unwrap() * each;
        let host = |tree_index: usize| {
            let config = Config {
                host_slices: host_slices.clone(),
                tree_index,
                size,
                on_failure,
                abort_scope: AbortScope::Job,
                limit: None,
                debugged: false,
                elastic: false,
                spawns: SpawnSettings::default(),
            };
            let ranks =
                host_slices.get(tree_index).unwrap().ranks.ranks().map(|rank| rank.0).collect();
            let manager = Pump::new(Manager::new(&config));
            Host {
                owed: BTreeSet::from([Task::Check]),
                ready: false,
                ..Host::of(manager, tree_index, ranks)
            }
        };
        let hosts = (0..hosts).map(host).collect();
        Self {
            host_slices,
            hosts,
            dice,
            reported_failures: Vec::new(),
            finish: None,
            started: false,
            withdrawn: false,
            entries: 0,
            releases: 0,
            check_failed: false,
            console_lost: false,
            interrupted: false,
            worlds: BTreeMap::new(),
            spawns: BTreeMap::new(),
            questions: Vec::new(),
            late: Vec::new(),
            unanswered: false,
            failed: BTreeSet::new(),
            fails: BTreeMap::new(),
            size,
            puts: BTreeMap::new(),
            on_failure,
            at_release: |_| {},
            at_finish: |_| {},
            now: Time::ZERO,
            fences: 0,
            suspended: false,
            reader_stopped: false,
            lines: None,
            recordings: None,
        }
    }

    /// Records the inputs of all managers. No manager has had an input yet.
    pub(crate) fn record(&mut self) {
        self.recordings = Some(Vec::new());
        for place in 0..self.hosts.len() {
            self.hosts[place].manager = self.manager(place);
        }
    }

    /// The recordings of all managers so far.
    pub(crate) fn recordings(&self) -> Vec<Vec<u8>> {
        self.recordings.iter().flatten().map(Memory::bytes).collect()
    }

    /// A new manager of the job as it is now.
    fn manager(&mut self, tree_index: usize) -> Pump<Manager> {
        let config = Config {
            host_slices: self.host_slices.clone(),
            tree_index,
            size: self.size,
            on_failure: self.on_failure,
            abort_scope: AbortScope::Job,
            limit: None,
            debugged: false,
            elastic: false,
            spawns: SpawnSettings::default(),
        };
        let Some(recordings) = &mut self.recordings else {
            return Pump::new(Manager::new(&config));
        };
        let memory = Memory::default();
        let manager = recorded(self.now, config, &memory);
        recordings.push(memory);
        manager
    }

    /// The number of fences that each rank enters before it ends.
    pub(crate) fn with_fences(mut self, fences: u32) -> Self {
        self.fences = fences;
        self
    }

    pub(crate) fn is_over(&self) -> bool {
        self.hosts.iter().all(|host| !host.alive)
    }

    /// Whether the root cannot reach the tree index, because its host or a parent's host was lost.
    pub(crate) fn is_out_of_reach(&self, tree_index: usize) -> bool {
        let mut at = Some(tree_index);
        while let Some(tree_index) = at {
            if self.hosts[tree_index].lost {
                return true;
            }
            at = HostSlices::parent(tree_index);
        }
        false
    }

    /// Keeps a line for an input of a manager (`>`) or an output (`<`).
    fn note(&mut self, tree_index: usize, sign: char, what: &dyn std::fmt::Debug) {
        if let Some(lines) = &mut self.lines {
            let seconds = (self.now - Time::ZERO).as_secs_f64();
            lines.push(format!("{seconds:>8.3} h{tree_index}: {sign} {what:?}"));
        }
    }

    pub(crate) fn apply_fault(&mut self, fault: Fault) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("fault: {fault:?}"));
        }
        match fault {
            Fault::CheckFails(tree_index) => self.hosts[tree_index].fails = Some(Task::Check),
            Fault::SpawnFails(tree_index) => self.hosts[tree_index].fails = Some(Task::Spawn),
            Fault::Crash(tree_index) => self.crash(tree_index),
            Fault::Cut(tree_index) => self.lose(tree_index),
            Fault::Missing(tree_index) => {
                if !self.hosts[tree_index].ready {
                    self.crash(tree_index);
                    let members = vec![(name(tree_index), "no answer".to_owned())];
                    self.turn(0, Input::Missing(members));
                }
            }
            Fault::Ends(rank, end) => {
                let tree_index = self.host_slices.tree_index_of_rank(rank).unwrap();
                self.end(tree_index, rank, end);
                self.end_turn(tree_index);
            }
            Fault::Console(input) => {
                self.console_lost |= input == Input::ConsoleLost;
                self.interrupted |= matches!(input, Input::Interrupt | Input::Signal(_));
                self.suspended = match input {
                    Input::Suspend => true,
                    Input::Resume => false,
                    _ => self.suspended,
                };
                self.turn(0, input);
            }
            Fault::Here(tree_index, input) => self.turn(tree_index, input),
            Fault::ReaderStops => self.reader_stopped = true,
            Fault::Spawn(spawner, size) => self.spawn(spawner, size),
            Fault::Grow(size) => {
                let order = self.order(size);
                self.turn(0, Input::Spawn(SpawnInput::Grow(order)));
            }
        }
    }

    /// Performs one possible event somewhere. False if only time or the user can cause the next event.
    pub(crate) fn step(&mut self) -> bool {
        let first = self.dice.below(self.hosts.len());
        let tree_indices = (first..self.hosts.len()).chain(0..first);
        for tree_index in tree_indices {
            if self.step_at(tree_index) {
                return true;
            }
        }
        false
    }

    /// Runs until every rank runs and no event is possible.
    pub(crate) fn start_all(&mut self) {
        let mut doing = true;
        while doing {
            doing = (0..self.hosts.len()).fold(false, |doing, tree_index| {
                let did = self.do_task(tree_index);
                self.end_turn(tree_index);
                doing | did | self.receive_parent(tree_index) | self.send_up(tree_index)
            });
        }
    }

    /// Until every message has arrived.
    pub(crate) fn deliver_all(&mut self) {
        let mut moving = true;
        while moving {
            moving = (0..self.hosts.len()).fold(false, |moving, tree_index| {
                let received = self.receive_parent(tree_index);
                self.end_turn(tree_index);
                moving | received | self.send_up(tree_index)
            });
        }
    }

    /// Advances the time to the next deadline, or as long as ranks compute. False if there is neither.
    pub(crate) fn pass_time(&mut self) -> bool {
        let alive = self.hosts.iter().filter(|host| host.alive);
        let deadlines = alive.flat_map(|host| {
            let of_clients = host.speakers.as_ref().and_then(Speakers::poll_timeout);
            [host.manager.machine().poll_timeout(), of_clients]
        });
        let next = deadlines.flatten().min();
        let computes = self.wake();
        let Some(next) = next.or_else(|| computes.then(|| self.now + COMPUTING)) else {
            return false;
        };
        self.now = self.now.max(next);
        self.unanswered |= !self.questions.is_empty();
        for tree_index in 0..self.hosts.len() {
            if self.hosts[tree_index].alive {
                self.expire_clients(tree_index);
                self.perform_outputs(tree_index);
                self.hosts[tree_index].manager.handle_timeout(self.now);
                self.end_turn(tree_index);
                // A loop would wait no time for a deadline that stays in the past.
                let next = self.hosts[tree_index].manager.machine().poll_timeout();
                assert!(next.is_none_or(|at| at > self.now), "h{tree_index}: {next:?}");
            }
        }
        true
    }

    /// Ranks that compute continue. Whether there were some.
    fn wake(&mut self) -> bool {
        let living = self.hosts.iter_mut().filter(|host| host.alive);
        let processes = living.flat_map(|host| host.processes.values_mut());
        processes.fold(false, |any, process| any | std::mem::take(&mut process.computes))
    }

    /// Performs a user action that lets the job continue. False if no action is possible.
    pub(crate) fn help(&mut self) -> bool {
        if self.suspended {
            self.apply_fault(Fault::Console(Input::Resume));
            true
        } else if self.reader_stopped && self.hosts[0].owed.contains(&Task::Drain) {
            self.apply_fault(Fault::Console(Input::Interrupt));
            true
        } else {
            false
        }
    }

    /// All ranks of the job enter the fence in one step, host by host.
    pub(crate) fn enter_all(&mut self) {
        for tree_index in 0..self.hosts.len() {
            for rank in self.hosts[tree_index].ranks.clone() {
                self.enter(tree_index, rank);
            }
            self.end_turn(tree_index);
        }
    }

    pub(crate) fn enter(&mut self, tree_index: usize, rank: u32) {
        self.hosts[tree_index].processes.get_mut(&rank).unwrap().inside = true;
        self.post(tree_index, Input::EnteredFence(Rank(rank)));
    }

    /// Queues an input of a manager; it is handled at the end of the turn, or earlier.
    pub(crate) fn post(&mut self, tree_index: usize, input: Input) {
        if self.hosts[tree_index].alive {
            self.note(tree_index, '>', &input);
            self.hosts[tree_index].manager.post(input);
        }
    }

    pub(crate) fn turn(&mut self, tree_index: usize, input: Input) {
        self.post(tree_index, input);
        self.end_turn(tree_index);
    }

    pub(crate) fn end_turn(&mut self, tree_index: usize) {
        self.perform_outputs(tree_index);
        if self.hosts[tree_index].alive {
            let now = self.now;
            self.hosts[tree_index].manager.end_turn(now);
            self.perform_outputs(tree_index);
        }
        if self.hosts[tree_index].alive {
            self.write_answers(tree_index);
            self.perform_outputs(tree_index);
        }
    }

    fn step_at(&mut self, tree_index: usize) -> bool {
        const WAYS: usize = 5;
        let mut happened = false;
        let first = self.dice.below(WAYS);
        for way in (first..WAYS).chain(0..first) {
            happened |= match way {
                0 => self.receive_parent(tree_index),
                1 => self.send_up(tree_index),
                2 => self.do_task(tree_index),
                3 => tree_index == 0 && self.answer_question(),
                _ => self.let_rank_run(tree_index),
            };
            if happened && !self.dice.one_in(4) {
                break;
            }
            // A turn handles its inputs one by one or at its end.
            if self.dice.one_in(2) {
                self.perform_outputs(tree_index);
            }
        }
        self.end_turn(tree_index);
        happened
    }

    fn receive_parent(&mut self, tree_index: usize) -> bool {
        let host = &mut self.hosts[tree_index];
        if !host.alive {
            return false;
        }
        if let Some(message) = host.from_parent.pop_front() {
            let input = match message {
                Message::Control(down) => Input::FromParent(down),
                Message::Piece(piece) => Input::Spawn(SpawnInput::Piece(LinkEnd::Parent, piece)),
                Message::OfClients(kind, bytes) => {
                    self.give_bytes(tree_index, LinkEnd::Parent, (kind, bytes));
                    return true;
                }
            };
            self.post(tree_index, input);
            true
        } else if std::mem::take(&mut host.loses_parent) {
            self.post(tree_index, Input::ParentLost("closed".to_owned()));
            true
        } else {
            false
        }
    }

    /// The parent receives one report of this manager, or at last its loss.
    fn send_up(&mut self, tree_index: usize) -> bool {
        let Some(parent) = HostSlices::parent(tree_index) else { return false };
        if let Some(message) = self.hosts[tree_index].to_parent.pop_front() {
            let input = match message {
                Message::Control(up) => {
                    self.hosts[tree_index].reported |= up == Up::Drained;
                    Input::FromChild(tree_index, up)
                }
                Message::Piece(piece) => {
                    Input::Spawn(SpawnInput::Piece(LinkEnd::Child(tree_index), piece))
                }
                Message::OfClients(kind, bytes) => {
                    self.give_bytes(parent, LinkEnd::Child(tree_index), (kind, bytes));
                    self.end_turn(parent);
                    return true;
                }
            };
            self.turn(parent, input);
            true
        } else if self.hosts[parent].loses_children.remove(&tree_index) {
            self.turn(parent, Input::ChildClosed(tree_index, "closed".to_owned()));
            // Not every daemon knows how its manager ended.
            if !self.hosts[tree_index].alive && tree_index % 2 == 1 && self.hosts[0].alive {
                self.turn(0, Input::ManagerEnded(name(tree_index), ManagerEnd::OutOfMemory));
            }
            true
        } else {
            false
        }
    }

    fn do_task(&mut self, tree_index: usize) -> bool {
        let host = &mut self.hosts[tree_index];
        if !host.alive || host.owed.is_empty() {
            return false;
        }
        let at = self.dice.below(host.owed.len());
        let task = *host.owed.iter().nth(at).unwrap();
        self.perform_task(tree_index, task)
    }

    /// The process of a manager gets a task. It performs the task later, or at once.
    fn give_task(&mut self, tree_index: usize, task: Task) {
        self.hosts[tree_index].owed.insert(task);
        if self.dice.one_in(3) {
            self.perform_task(tree_index, task);
        }
    }

    fn perform_task(&mut self, tree_index: usize, task: Task) -> bool {
        let host = &mut self.hosts[tree_index];
        if task == Task::Drain && tree_index == 0 && self.reader_stopped {
            return false;
        }
        let fails = host.fails == Some(task);
        match task {
            Task::Check if fails => {
                self.check_failed = true;
                let problem = "no such program".to_owned();
                self.done(tree_index, task, Input::StartFailed(Failure::Suite { problem }));
            }
            Task::Check => {
                host.ready = true;
                self.done(tree_index, task, Input::Ready);
            }
            Task::Spawn => self.spawn_one(tree_index, fails),
            Task::Stop => self.done(tree_index, task, Input::TreeStopped),
            Task::Kill => self.kill_one(tree_index),
            Task::Drain => self.done(tree_index, task, Input::Drained),
            Task::CleanUp => {
                host.cleaned_up = true;
                self.done(tree_index, task, Input::CleanedUp);
            }
            Task::Prepare(first) => self.prepare(tree_index, first),
            Task::Begin(first) if !host.stopped => self.begin(tree_index, first),
            Task::Begin(_) => return false,
        }
        true
    }

    fn done(&mut self, tree_index: usize, task: Task, input: Input) {
        self.hosts[tree_index].owed.remove(&task);
        self.post(tree_index, input);
    }

    fn spawn_one(&mut self, tree_index: usize, fails: bool) {
        let fences = self.fences;
        let host = &mut self.hosts[tree_index];
        let spawned = host.processes.len();
        if fails && spawned == 1 {
            let problem = "no process".to_owned();
            self.done(tree_index, Task::Spawn, Input::StartFailed(Failure::Suite { problem }));
        } else if let Some(&rank) = host.ranks.get(spawned) {
            host.processes.insert(rank, Process::new(fences));
            self.begin_program(tree_index, Rank(rank));
        } else {
            let pids = host.ranks.iter().map(|&rank| (Rank(rank), 100 + rank)).collect();
            self.post(tree_index, Input::Pids(pids));
            self.done(tree_index, Task::Spawn, Input::Started);
        }
    }

    fn kill_one(&mut self, tree_index: usize) {
        let mut living = self.hosts[tree_index].processes.iter().filter(|(_, p)| p.end.is_none());
        match living.next().map(|(&rank, _)| rank) {
            Some(rank) => {
                let end = RankEnd::Signaled { signal: SIGKILL, core: false };
                self.end(tree_index, Rank(rank), end);
            }
            None => self.done(tree_index, Task::Kill, Input::TreeGone),
        }
    }

    /// A rank performs the next of: init, its fences, finalize, exit.
    fn let_rank_run(&mut self, tree_index: usize) -> bool {
        let host = &mut self.hosts[tree_index];
        if !host.alive || host.stopped || host.processes.is_empty() {
            return false;
        }
        let first = self.dice.below(host.processes.len());
        let mut order =
            host.processes.range(..).skip(first).chain(host.processes.iter().take(first));
        let Some((&rank, _)) = order.find(|(_, process)| process.can_step()) else {
            return false;
        };
        let process = host.processes.get_mut(&rank).unwrap();
        let rank = Rank(rank);
        if process.doomed.is_none() && self.dice.one_in(12) {
            process.computes = true;
        } else if let Some(signal) = process.doomed {
            self.end(tree_index, rank, RankEnd::Signaled { signal, core: false });
        } else if host.speakers.is_some() {
            self.run_program(tree_index, rank);
        } else if process.pmi == Pmi::Unused {
            process.pmi = Pmi::Initialized;
            self.post(tree_index, Input::Initialized(rank));
        } else if process.fences > 0 {
            process.fences -= 1;
            self.enter(tree_index, rank.0);
        } else if process.pmi == Pmi::Initialized {
            process.pmi = Pmi::Finalized;
            self.post(tree_index, Input::Finalized(rank));
        } else {
            self.end(tree_index, rank, RankEnd::Exited(0));
        }
        true
    }

    pub(crate) fn end(&mut self, tree_index: usize, rank: Rank, end: RankEnd) {
        let process = self.hosts[tree_index].processes.get_mut(&rank.0);
        let Some(process) = process.filter(|process| process.end.is_none()) else { return };
        process.end = Some(end);
        process.inside = false;
        self.forget_spawns(rank);
        self.end_program(tree_index, rank);
        self.post(tree_index, Input::Exited(rank, end));
    }

    fn crash(&mut self, tree_index: usize) {
        let host = &mut self.hosts[tree_index];
        if !std::mem::take(&mut host.alive) {
            return;
        }
        for process in host.processes.values_mut().filter(|process| process.end.is_none()) {
            process.end = Some(RankEnd::Lost);
            process.inside = false;
        }
        self.lose(tree_index);
        self.close_children(tree_index);
    }

    /// The link to the parent breaks. Some messages that are on the way may still arrive.
    fn lose(&mut self, tree_index: usize) {
        let arriving = self.dice.below(4);
        let host = &mut self.hosts[tree_index];
        if std::mem::take(&mut host.linked) {
            host.lost = true;
            host.to_parent.truncate(arriving);
            host.from_parent.truncate(arriving);
            host.loses_parent = true;
            let parent = HostSlices::parent(tree_index).unwrap();
            self.hosts[parent].loses_children.insert(tree_index);
        }
    }

    /// The neighbours of an ended manager detect its end.
    fn leave(&mut self, tree_index: usize) {
        let host = &mut self.hosts[tree_index];
        host.alive = false;
        if std::mem::take(&mut host.linked) {
            let parent = HostSlices::parent(tree_index).unwrap();
            self.hosts[parent].loses_children.insert(tree_index);
        }
        self.close_children(tree_index);
    }

    fn close_children(&mut self, tree_index: usize) {
        for child in self.host_slices.children(tree_index) {
            let child = &mut self.hosts[child];
            child.loses_parent |= std::mem::take(&mut child.linked);
        }
    }
}

impl Process {
    /// A process that uses PMI if it will enter fences.
    fn new(fences: u32) -> Self {
        let pmi = if fences > 0 { Pmi::Unused } else { Pmi::Finalized };
        Self {
            pmi,
            inside: false,
            fences,
            spawns: 0,
            computes: false,
            doomed: None,
            program: Program::default(),
            end: None,
        }
    }

    /// Whether it speaks PMI and has no answer to its last request.
    pub(crate) const fn waits(&self) -> bool {
        self.program.waits()
    }

    /// Whether it can perform a step, unless it is stopped.
    fn can_step(&self) -> bool {
        self.end.is_none()
            && (self.doomed.is_some()
                || !(self.inside || self.computes || self.spawns > 0 || self.waits()))
    }
}
