//! All managers of a job, with simulated links, processes and ranks. Messages of a link arrive in order; a seed
//! determines the order of everything else.

mod faults;
mod links;
mod perform;
mod processes;
mod programs;
mod spawns;
mod tasks;
mod worlds;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_job::manager::spawns::{Caller, SpawnSettings};
use mpd_job::manager::{Config, Input, Manager};
use mpd_sansio::{Pump, Time};
use mpd_wire::job::{AbortScope, Failure, HostSlices, OnFailure, SpawnPlacement, World};
use mpd_wire::message::{Down, Up};
use mpd_wire::{DaemonName, Rank, RankSet};

use mpd_tests::random::Random;

pub(crate) use self::faults::{Fault, WorldFault};
use self::links::Message;
pub(crate) use self::processes::{Pmi, Process};
use self::programs::Speakers;
use self::tasks::Task;
use super::host_slices;
use crate::recordings::{Memory, recorded};

/// How long a rank computes if nothing else happens.
const COMPUTING: Duration = Duration::from_secs(2);

pub(crate) struct Host {
    pub(crate) manager: Pump<Manager>,
    pub(crate) alive: bool,
    /// Whether it was lost; otherwise it ended.
    pub(crate) lost: bool,
    linked: bool,
    /// It seeks its parent, which is gone, at most until then.
    seeks_until: Option<Time>,
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
            seeks_until: None,
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
            [host.manager.machine().poll_timeout(), of_clients, host.seeks_until]
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
                self.give_up_parent(tree_index);
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
}
