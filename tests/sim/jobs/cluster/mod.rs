//! All managers of a job, with links, processes and ranks that only pretend. Messages of a link arrive
//! in order; everything else happens in whatever order a seed says.

mod perform;
mod worlds;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mpd_job::manager::{Config, Input, Manager};
use mpd_machine::{Pump, Time};
use mpd_wire::job::{Failure, OnFailure, RankEnd, Shares, SpawnOutcome};
use mpd_wire::message::{Down, Up};
use mpd_wire::{DaemonName, Rank, RankSet};

use mpd_tests::random::Random;

use super::{SIGKILL, name, shares};

/// What a process was told to do and has not done yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Check,
    Spawn,
    Stop,
    Kill,
    Drain,
    Tidy,
    Prepare(Rank),
    Begin(Rank),
}

/// What goes wrong, or what the user does.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The check before the start finds something.
    CheckFails(usize),
    /// Spawning the second rank fails.
    SpawnFails(usize),
    /// A manager dies, and its ranks with it.
    Crash(usize),
    /// The link of a manager to the one above breaks; both live.
    Cut(usize),
    /// A host never learned of the job.
    Missing(usize),
    /// A rank ends like this, wherever it is.
    Ends(Rank, RankEnd),
    Console(Input),
    Here(usize, Input),
    /// The reader of the output stops to read.
    ReaderStops,
    /// A rank spawns a rank on each of these places, and on so many hosts that join; the start fails on
    /// the first of all these, or does not.
    Spawn {
        spawner: Rank,
        places: Vec<usize>,
        joining: usize,
        fails: Option<WorldFault>,
    },
}

/// When the start of a world fails.
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

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pmi: Pmi,
    pub(crate) inside: bool,
    /// Fences that it will still enter.
    pub(crate) fences: u32,
    /// It will die of this signal.
    doomed: Option<u8>,
    pub(crate) end: Option<RankEnd>,
}

pub(crate) struct Host {
    pub(crate) manager: Pump<Manager>,
    pub(crate) alive: bool,
    /// Whether it was lost, as opposed to: it ended.
    pub(crate) lost: bool,
    linked: bool,
    from_parent: VecDeque<Down>,
    to_parent: VecDeque<Up>,
    owed: BTreeSet<Task>,
    pub(crate) ready: bool,
    pub(crate) went: bool,
    pub(crate) tidied: bool,
    /// The one above has heard that all its output is there.
    pub(crate) reported: bool,
    stopped: bool,
    loses_parent: bool,
    loses_children: BTreeSet<usize>,
    fails: Option<Task>,
    /// By rank, as they are spawned.
    pub(crate) processes: BTreeMap<u32, Process>,
    ranks: Vec<u32>,
    /// Ranks of spawned worlds that are to run here.
    pub(crate) parts: BTreeMap<Rank, RankSet>,
}

pub(crate) struct Cluster {
    pub(crate) shares: Shares,
    pub(crate) hosts: Vec<Host>,
    pub(crate) dice: Random,
    pub(crate) told: Vec<(Option<DaemonName>, Failure)>,
    pub(crate) finish: Option<u8>,
    /// The console knows that ranks may run; it knows that it is to submit the job again.
    pub(crate) started: bool,
    pub(crate) withdrawn: bool,
    /// Messages about fences that went up.
    pub(crate) entries: usize,
    pub(crate) releases: usize,
    pub(crate) check_failed: bool,
    pub(crate) console_lost: bool,
    /// The user wanted the end.
    pub(crate) interrupted: bool,
    /// Spawned worlds that were announced, and answers that spawners got.
    pub(crate) announced: usize,
    pub(crate) answers: Vec<SpawnOutcome>,
    /// Worlds whose start failed.
    pub(crate) failed: BTreeSet<Rank>,
    fails: BTreeMap<(usize, Rank), WorldFault>,
    spawned: u32,
    pub(crate) size: u32,
    on_failure: OnFailure,
    /// Looks at the whole at each release of a fence, and at the end.
    pub(crate) at_release: fn(&Self),
    pub(crate) at_finish: fn(&Self),
    now: Time,
    fences: u32,
    suspended: bool,
    reader_stopped: bool,
    /// Inputs and outputs, where they are wanted.
    pub(crate) lines: Option<Vec<String>>,
}

impl Host {
    fn of(manager: Manager, place: usize, ranks: Vec<u32>) -> Self {
        Self {
            manager: Pump::new(manager),
            alive: true,
            lost: false,
            linked: place > 0,
            from_parent: VecDeque::new(),
            to_parent: VecDeque::new(),
            owed: BTreeSet::new(),
            ready: true,
            went: false,
            tidied: false,
            reported: false,
            stopped: false,
            loses_parent: false,
            loses_children: BTreeSet::new(),
            fails: None,
            processes: BTreeMap::new(),
            ranks,
            parts: BTreeMap::new(),
        }
    }
}

impl Cluster {
    pub(crate) fn new(hosts: usize, each: u32, dice: Random, on_failure: OnFailure) -> Self {
        let shares = shares(hosts, each);
        let size = u32::try_from(hosts).unwrap() * each;
        let host = |place: usize| {
            let config =
                Config { shares: &shares, place, size, on_failure, limit: None, debugged: false };
            let ranks = shares.get(place).unwrap().ranks.ranks().map(|rank| rank.0).collect();
            let manager = Manager::new(config);
            Host {
                owed: BTreeSet::from([Task::Check]),
                ready: false,
                ..Host::of(manager, place, ranks)
            }
        };
        let hosts = (0..hosts).map(host).collect();
        Self {
            shares,
            hosts,
            dice,
            told: Vec::new(),
            finish: None,
            started: false,
            withdrawn: false,
            entries: 0,
            releases: 0,
            check_failed: false,
            console_lost: false,
            interrupted: false,
            announced: 0,
            answers: Vec::new(),
            failed: BTreeSet::new(),
            fails: BTreeMap::new(),
            spawned: 0,
            size,
            on_failure,
            at_release: |_| {},
            at_finish: |_| {},
            now: Time::ZERO,
            fences: 0,
            suspended: false,
            reader_stopped: false,
            lines: None,
        }
    }

    /// How many fences each rank enters before it ends.
    pub(crate) fn with_fences(mut self, fences: u32) -> Self {
        self.fences = fences;
        self
    }

    pub(crate) fn is_over(&self) -> bool {
        self.hosts.iter().all(|host| !host.alive)
    }

    /// Whether the root cannot reach the place, because it or one above it was lost.
    pub(crate) fn is_out_of_reach(&self, place: usize) -> bool {
        let mut at = Some(place);
        while let Some(place) = at {
            if self.hosts[place].lost {
                return true;
            }
            at = Shares::parent(place);
        }
        false
    }

    /// Keeps a line of what a manager was given (`>`) or what it wants (`<`).
    fn note(&mut self, place: usize, sign: char, what: &dyn std::fmt::Debug) {
        if let Some(lines) = &mut self.lines {
            let seconds = (self.now - Time::ZERO).as_secs_f64();
            lines.push(format!("{seconds:>8.3} h{place}: {sign} {what:?}"));
        }
    }

    pub(crate) fn suffer(&mut self, fault: Fault) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("fault: {fault:?}"));
        }
        match fault {
            Fault::CheckFails(place) => self.hosts[place].fails = Some(Task::Check),
            Fault::SpawnFails(place) => self.hosts[place].fails = Some(Task::Spawn),
            Fault::Crash(place) => self.crash(place),
            Fault::Cut(place) => self.lose(place),
            Fault::Missing(place) => {
                if !self.hosts[place].ready {
                    self.crash(place);
                    let members = vec![(name(place), "no answer".to_owned())];
                    self.turn(0, Input::Missing(members));
                }
            }
            Fault::Ends(rank, end) => {
                let place = self.shares.place_of_rank(rank).unwrap();
                self.end(place, rank, end);
                self.end_turn(place);
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
            Fault::Here(place, input) => self.turn(place, input),
            Fault::ReaderStops => self.reader_stopped = true,
            Fault::Spawn { spawner, places, joining, fails } => {
                self.spawn(spawner, &places, joining, fails);
            }
        }
    }

    /// One thing that can happen happens, somewhere. False if nothing can but by time or the user.
    pub(crate) fn step(&mut self) -> bool {
        let first = self.dice.below(self.hosts.len());
        let places = (first..self.hosts.len()).chain(0..first);
        for place in places {
            if self.step_at(place) {
                return true;
            }
        }
        false
    }

    /// Until every rank runs and has nothing to do by itself.
    pub(crate) fn start_all(&mut self) {
        let mut doing = true;
        while doing {
            doing = (0..self.hosts.len()).fold(false, |doing, place| {
                let did = self.do_task(place);
                self.end_turn(place);
                doing | did | self.hear_parent(place) | self.send_up(place)
            });
        }
    }

    /// Until every message has arrived.
    pub(crate) fn deliver_all(&mut self) {
        let mut moving = true;
        while moving {
            moving = (0..self.hosts.len()).fold(false, |moving, place| {
                let heard = self.hear_parent(place);
                self.end_turn(place);
                moving | heard | self.send_up(place)
            });
        }
    }

    /// Time goes to the next deadline. False if there is none.
    pub(crate) fn pass_time(&mut self) -> bool {
        let alive = self.hosts.iter().filter(|host| host.alive);
        let Some(next) = alive.filter_map(|host| host.manager.machine().poll_timeout()).min()
        else {
            return false;
        };
        self.now = self.now.max(next);
        for place in 0..self.hosts.len() {
            if self.hosts[place].alive {
                self.hosts[place].manager.handle_timeout(self.now);
                self.end_turn(place);
            }
        }
        true
    }

    /// The user does what makes the rest go on. False if there is nothing to do.
    pub(crate) fn help(&mut self) -> bool {
        if self.suspended {
            self.suffer(Fault::Console(Input::Resume));
            true
        } else if self.reader_stopped && self.hosts[0].owed.contains(&Task::Drain) {
            self.suffer(Fault::Console(Input::Interrupt));
            true
        } else {
            false
        }
    }

    /// Everybody of the job enters the fence in one go, host by host.
    pub(crate) fn enter_all(&mut self) {
        for place in 0..self.hosts.len() {
            for rank in self.hosts[place].ranks.clone() {
                self.enter(place, rank);
            }
            self.end_turn(place);
        }
    }

    pub(crate) fn enter(&mut self, place: usize, rank: u32) {
        self.hosts[place].processes.get_mut(&rank).unwrap().inside = true;
        self.post(place, Input::EnteredFence(Rank(rank)));
    }

    /// Queues an input of a manager; it is handled at the end of the turn, or before.
    pub(crate) fn post(&mut self, place: usize, input: Input) {
        if self.hosts[place].alive {
            self.note(place, '>', &input);
            self.hosts[place].manager.post(input);
        }
    }

    pub(crate) fn turn(&mut self, place: usize, input: Input) {
        self.post(place, input);
        self.end_turn(place);
    }

    pub(crate) fn end_turn(&mut self, place: usize) {
        self.perform_outputs(place);
        if self.hosts[place].alive {
            let now = self.now;
            self.hosts[place].manager.advance(|manager| manager.flush(now));
            self.perform_outputs(place);
        }
    }

    fn step_at(&mut self, place: usize) -> bool {
        const WAYS: usize = 4;
        let mut happened = false;
        let first = self.dice.below(WAYS);
        for way in (first..WAYS).chain(0..first) {
            happened |= match way {
                0 => self.hear_parent(place),
                1 => self.send_up(place),
                2 => self.do_task(place),
                _ => self.let_rank_run(place),
            };
            if happened && !self.dice.one_in(4) {
                break;
            }
            // A turn handles its inputs one by one or at its end.
            if self.dice.one_in(2) {
                self.perform_outputs(place);
            }
        }
        self.end_turn(place);
        happened
    }

    fn hear_parent(&mut self, place: usize) -> bool {
        let host = &mut self.hosts[place];
        if !host.alive {
            return false;
        }
        if let Some(down) = host.from_parent.pop_front() {
            self.post(place, Input::FromParent(down));
            true
        } else if std::mem::take(&mut host.loses_parent) {
            self.post(place, Input::ParentLost("closed".to_owned()));
            true
        } else {
            false
        }
    }

    /// The manager above hears one word of this one, or at last that it is gone.
    fn send_up(&mut self, place: usize) -> bool {
        let Some(parent) = Shares::parent(place) else { return false };
        if let Some(up) = self.hosts[place].to_parent.pop_front() {
            self.hosts[place].reported |= up == Up::Drained;
            self.turn(parent, Input::FromChild(place, up));
            true
        } else if self.hosts[parent].loses_children.remove(&place) {
            self.turn(parent, Input::ChildLost(place, "closed".to_owned()));
            true
        } else {
            false
        }
    }

    fn do_task(&mut self, place: usize) -> bool {
        let host = &mut self.hosts[place];
        if !host.alive || host.owed.is_empty() {
            return false;
        }
        let at = self.dice.below(host.owed.len());
        let task = *host.owed.iter().nth(at).unwrap();
        self.do_this(place, task)
    }

    /// The process of a manager was told to do something. It does so later, or at once.
    fn owe(&mut self, place: usize, task: Task) {
        self.hosts[place].owed.insert(task);
        if self.dice.one_in(3) {
            self.do_this(place, task);
        }
    }

    fn do_this(&mut self, place: usize, task: Task) -> bool {
        let host = &mut self.hosts[place];
        if task == Task::Drain && place == 0 && self.reader_stopped {
            return false;
        }
        let fails = host.fails == Some(task);
        match task {
            Task::Check if fails => {
                self.check_failed = true;
                let problem = "no such program".to_owned();
                self.done(place, task, Input::StartFailed(Failure::Suite { problem }));
            }
            Task::Check => {
                host.ready = true;
                self.done(place, task, Input::Ready);
            }
            Task::Spawn => self.spawn_one(place, fails),
            Task::Stop => self.done(place, task, Input::TreeStopped),
            Task::Kill => self.kill_one(place),
            Task::Drain => self.done(place, task, Input::Drained),
            Task::Tidy => {
                host.tidied = true;
                self.done(place, task, Input::Tidied);
            }
            Task::Prepare(first) => self.prepare(place, first),
            Task::Begin(first) if !host.stopped => self.begin(place, first),
            Task::Begin(_) => return false,
        }
        true
    }

    fn done(&mut self, place: usize, task: Task, input: Input) {
        self.hosts[place].owed.remove(&task);
        self.post(place, input);
    }

    fn spawn_one(&mut self, place: usize, fails: bool) {
        let fences = self.fences;
        let uses_pmi = fences > 0;
        let host = &mut self.hosts[place];
        let spawned = host.processes.len();
        if fails && spawned == 1 {
            let problem = "no process".to_owned();
            self.done(place, Task::Spawn, Input::StartFailed(Failure::Suite { problem }));
        } else if let Some(&rank) = host.ranks.get(spawned) {
            let pmi = if uses_pmi { Pmi::Unused } else { Pmi::Finalized };
            let process = Process { pmi, inside: false, fences, doomed: None, end: None };
            host.processes.insert(rank, process);
        } else {
            let pids = host.ranks.iter().map(|&rank| (Rank(rank), 100 + rank)).collect();
            self.post(place, Input::Pids(pids));
            self.done(place, Task::Spawn, Input::Started);
        }
    }

    fn kill_one(&mut self, place: usize) {
        let mut living = self.hosts[place].processes.iter().filter(|(_, p)| p.end.is_none());
        match living.next().map(|(&rank, _)| rank) {
            Some(rank) => {
                let end = RankEnd::Signaled { signal: SIGKILL, core: false };
                self.end(place, Rank(rank), end);
            }
            None => self.done(place, Task::Kill, Input::TreeGone),
        }
    }

    /// A rank does the next of: init, its fences, finalize, exit.
    fn let_rank_run(&mut self, place: usize) -> bool {
        let host = &mut self.hosts[place];
        if !host.alive || host.stopped || host.processes.is_empty() {
            return false;
        }
        let first = self.dice.below(host.processes.len());
        let mut order =
            host.processes.range(..).skip(first).chain(host.processes.iter().take(first));
        let Some((&rank, _)) = order.find(|(_, process)| process.is_able()) else {
            return false;
        };
        let process = host.processes.get_mut(&rank).unwrap();
        let rank = Rank(rank);
        if let Some(signal) = process.doomed {
            self.end(place, rank, RankEnd::Signaled { signal, core: false });
        } else if process.pmi == Pmi::Unused {
            process.pmi = Pmi::Initialized;
            self.post(place, Input::Initialized(rank));
        } else if process.fences > 0 {
            process.fences -= 1;
            self.enter(place, rank.0);
        } else if process.pmi == Pmi::Initialized {
            process.pmi = Pmi::Finalized;
            self.post(place, Input::Finalized(rank));
        } else {
            self.end(place, rank, RankEnd::Exited(0));
        }
        true
    }

    pub(crate) fn end(&mut self, place: usize, rank: Rank, end: RankEnd) {
        let process = self.hosts[place].processes.get_mut(&rank.0);
        let Some(process) = process.filter(|process| process.end.is_none()) else { return };
        process.end = Some(end);
        process.inside = false;
        self.post(place, Input::Exited(rank, end));
    }

    fn crash(&mut self, place: usize) {
        let host = &mut self.hosts[place];
        if !std::mem::take(&mut host.alive) {
            return;
        }
        for process in host.processes.values_mut().filter(|process| process.end.is_none()) {
            process.end = Some(RankEnd::Lost);
            process.inside = false;
        }
        self.lose(place);
        self.close_below(place);
    }

    /// The link to the one above breaks. Of what was under way, some may still arrive.
    fn lose(&mut self, place: usize) {
        let arriving = self.dice.below(4);
        let host = &mut self.hosts[place];
        if std::mem::take(&mut host.linked) {
            host.lost = true;
            host.to_parent.truncate(arriving);
            host.from_parent.truncate(arriving);
            host.loses_parent = true;
            let parent = Shares::parent(place).unwrap();
            self.hosts[parent].loses_children.insert(place);
        }
    }

    /// A manager that ended is missed by those around it.
    fn leave(&mut self, place: usize) {
        let host = &mut self.hosts[place];
        host.alive = false;
        if std::mem::take(&mut host.linked) {
            let parent = Shares::parent(place).unwrap();
            self.hosts[parent].loses_children.insert(place);
        }
        self.close_below(place);
    }

    fn close_below(&mut self, place: usize) {
        for child in self.shares.children(place) {
            let child = &mut self.hosts[child];
            child.loses_parent |= std::mem::take(&mut child.linked);
        }
    }
}

impl Process {
    /// Whether it does something next, unless it is stopped.
    fn is_able(&self) -> bool {
        self.end.is_none() && (self.doomed.is_some() || !self.inside)
    }
}
