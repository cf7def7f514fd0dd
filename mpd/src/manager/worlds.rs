//! The worlds of this manager: what their ranks share, and how those of a spawned one are started.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use mpd_io::spawn::Spawn;
use mpd_job::manager::{Input, WorldEnds};
use mpd_placement::binding::Bindings;
use mpd_wire::Rank;
use mpd_wire::job::{Failure, JobSpec, Parts, Shares, World as Numbers};
use mpd_wire::message::{ManagerReport, StartJob};
use pmi_proto::signal::is_for_programs;
use pmi_proto::{Answer, Facts, Kvs};

use super::Process;
use super::attributes::{Asker, Attributes};
use super::meetings::Meetings;
use super::perform::ends_of;
use super::spawn::Order;
use super::start::{self, Prepared, Whose};
use super::stdio;

/// Answers about who has failed, where others go on.
const DEAD: &[u8] = b"PMI_dead_processes";

/// Bytes of words to a console that does not read them beyond which it is not told how spawned ranks end.
const MAX_UNHEARD: usize = 16 << 20;

/// One world, as far as it concerns this host and those below.
#[derive(Debug)]
pub(super) struct World {
    pub(super) numbers: Numbers,
    /// Its programs. Ranks in it are numbered in the world.
    pub(super) spec: Rc<JobSpec>,
    /// Of the job's environments, by program: that of the rank that all this descends from.
    pub(super) inherits: Vec<u32>,
    /// The name of its spawner's key-value space, if it was spawned.
    pub(super) spawner: Option<String>,
    /// By program: what MPI calls its number, if that is not its place.
    pub(super) appnums: Vec<Option<i32>>,
    pub(super) kvsname: String,
    /// The ranks that run here, numbered through the job.
    pub(super) here: Vec<Rank>,
    /// The managers directly below with a part in it.
    pub(super) below: Vec<usize>,
    pub(super) kvs: Kvs,
    pub(super) attributes: Attributes,
    /// Who waits in fences of groups.
    pub(super) meetings: Meetings,
    /// Keys put here or below since the last fence, of which the other hosts are to hear.
    pub(super) fresh: BTreeSet<Vec<u8>>,
    /// By program.
    pub(super) spawns: BTreeMap<usize, Spawn>,
    pub(super) bindings: Bindings,
    /// The next rank of this host to start; `None` when all were or none will be.
    pub(super) starting: Option<usize>,
    /// Whether others have a part in it, too.
    pub(super) is_spread: bool,
    /// Those that failed, as numbered here, in the order in which that was heard.
    dead: Vec<Rank>,
}

impl World {
    /// The one that a job begins with.
    pub(super) fn of_job(spec: &Rc<JobSpec>, order: &StartJob) -> Self {
        let numbers = Numbers::of_job(spec.size());
        let shares = (0..).zip(order.shares.iter());
        let parts = Parts(shares.map(|(place, share)| (place, share.ranks.clone())).collect());
        let place = order.place as usize;
        let tree = (place, order.shares.children(place));
        Self::new(numbers, Rc::clone(spec), order.kvsname.clone(), tree, &parts)
    }

    /// A world of which nothing was started yet.
    fn new(
        numbers: Numbers,
        spec: Rc<JobSpec>,
        kvsname: String,
        (place, children): (usize, std::ops::Range<usize>),
        parts: &Parts,
    ) -> Self {
        let has_part = |child: &usize| {
            let over = |place| Shares::is_below(place, *child);
            !parts.at_all(over).is_empty()
        };
        let mut kvs = Kvs::new();
        if let Some(mapping) = pmi_proto::process_mapping::encode(&parts.places_of(&numbers)) {
            // An empty store has room for some keys.
            let _ = kvs.put(b"PMI_process_mapping", mapping.as_bytes());
        }
        let _ = kvs.put(DEAD, b"");
        Self {
            numbers,
            inherits: spec.argsets.iter().map(|argset| argset.environment).collect(),
            spawner: None,
            appnums: Vec::new(),
            spec,
            kvsname,
            here: parts.at(place).ranks().collect(),
            below: children.filter(has_part).collect(),
            kvs,
            attributes: Attributes::default(),
            meetings: Meetings::default(),
            fresh: BTreeSet::new(),
            spawns: BTreeMap::new(),
            bindings: Bindings::default(),
            starting: None,
            is_spread: parts.0.iter().filter(|(_, ranks)| !ranks.is_empty()).count() > 1,
            dead: Vec::new(),
        }
    }

    /// The number of a rank on this host, in this world.
    pub(super) fn local(&self, rank: Rank) -> usize {
        self.here.binary_search(&rank).unwrap_or(0)
    }

    /// Which of its programs a rank runs.
    pub(super) fn argset_of(&self, rank: Rank) -> usize {
        self.spec.argset_of(self.numbers.own(rank))
    }

    /// What the PMI session of a rank must know.
    pub(super) fn facts(&self, rank: Rank, universe_size: Option<u32>) -> Facts {
        let argset = self.argset_of(rank);
        let appnum = self.appnums.get(argset).copied().flatten();
        Facts {
            kvsname: self.kvsname.clone(),
            rank: self.numbers.own(rank).0,
            size: self.numbers.size,
            appnum: appnum.unwrap_or(i32::try_from(argset).unwrap_or(0)),
            universe_size,
            spawner: self.spawner.clone(),
        }
    }

    fn note_dead(&mut self, rank: Rank) {
        self.dead.push(self.numbers.own(rank));
        let list: Vec<String> = self.dead.iter().map(ToString::to_string).collect();
        let _ = self.kvs.put(DEAD, list.join(",").as_bytes());
    }
}

/// Worlds by first rank.
#[derive(Debug, Default)]
pub(super) struct Worlds(BTreeMap<Rank, World>);

impl Worlds {
    pub(super) fn insert(&mut self, world: World) {
        self.0.insert(world.numbers.first, world);
    }

    pub(super) fn remove(&mut self, first: Rank) {
        self.0.remove(&first);
    }

    /// The world that a rank belongs to.
    pub(super) fn of(&self, rank: Rank) -> Option<&World> {
        let (_, world) = self.0.range(..=rank).next_back()?;
        Some(world).filter(|world| world.numbers.contains(rank))
    }

    /// The same, to change it.
    pub(super) fn of_mut(&mut self, rank: Rank) -> Option<&mut World> {
        let (_, world) = self.0.range_mut(..=rank).next_back()?;
        Some(world).filter(|world| world.numbers.contains(rank))
    }

    /// The world whose key-value space is called so.
    pub(super) fn of_name(&self, kvsname: &[u8]) -> Option<&World> {
        self.0.values().find(|world| world.kvsname.as_bytes() == kvsname)
    }

    /// All, by first rank.
    pub(super) fn all(&self) -> Vec<Rank> {
        self.0.keys().copied().collect()
    }

    /// Those with ranks that are to be started now.
    pub(super) fn starting(&self) -> Vec<Rank> {
        let starting = self.0.values().filter(|world| world.starting.is_some());
        starting.map(|world| world.numbers.first).collect()
    }

    /// Whether there are any.
    pub(super) fn is_any_starting(&self) -> bool {
        self.0.values().any(|world| world.starting.is_some())
    }

    /// Nothing more is started.
    pub(super) fn stop_starting(&mut self) {
        self.0.values_mut().for_each(|world| world.starting = None);
    }
}

impl Process {
    /// How a rank is called where people read it: its number, and its world's if that was spawned.
    pub(super) fn name_of(&self, rank: Rank) -> String {
        Numbers::name(self.worlds.of(rank).map(|world| &world.numbers), rank)
    }

    /// A world that runs here or below is to be started.
    pub(super) fn prepare_world(&mut self, numbers: Numbers, parts: &Parts) {
        let first = numbers.first;
        let arrived = self.spawning.take_arrived(first);
        let order = arrived.and_then(|bytes| Order::decode(&bytes).ok());
        let order = order.filter(|order| order.spec.size() == numbers.size);
        let is_known = order.is_some();
        let world = self.world_of(numbers, parts, order);
        let is_here = !world.here.is_empty();
        self.worlds.insert(world);
        if self.is_root()
            && let Err(problem) = self.open_files_of(&numbers, parts)
        {
            self.post(Input::WorldFailed(first, Failure::Suite { problem }));
        }
        if !is_here {
            return;
        }
        if is_known {
            self.prepare_ranks(first);
        } else {
            // It was checked where it came from.
            let problem = "what is known of the world is malformed".to_owned();
            self.post(Input::WorldFailed(first, Failure::Suite { problem }));
        }
        self.post(Input::Prepared(first));
    }

    /// What there is to know of a spawned world; one of which nothing is known will not be started.
    fn world_of(&self, numbers: Numbers, parts: &Parts, order: Option<Order>) -> World {
        let place = self.order.place as usize;
        let tree = (place, self.order.shares.children(place));
        let kvsname = numbers.kvsname(&self.order.kvsname);
        let Some(order) = order else {
            return World::new(numbers, Rc::clone(&self.spec), kvsname, tree, parts);
        };
        let preput = order.preput();
        let (inherits, appnums) = (order.inherits.clone(), order.appnums.clone());
        let spawner = Some(order.parent.clone());
        let spec = Rc::new(order.with_environment_of(&self.spec));
        let mut world = World::new(numbers, spec, kvsname, tree, parts);
        for (key, value) in preput {
            let _ = world.kvs.put(&key, &value);
        }
        World { inherits, appnums, spawner, ..world }
    }

    fn prepare_ranks(&mut self, first: Rank) {
        let Some(world) = self.worlds.of(first) else { return };
        let own: Vec<Rank> = world.here.iter().map(|&rank| world.numbers.own(rank)).collect();
        let tmpdir = self.tidy.directory().map(Path::to_owned);
        let (spec, order, there) = (&*world.spec, &self.order, self.clients.len());
        let whose = Whose { spec, order, there, spawned: true, daemon: self.parent };
        let prepared = start::prepare(whose, &own, tmpdir.as_deref(), None);
        match prepared {
            Err(failure) => self.post(Input::WorldFailed(first, failure)),
            Ok(Prepared { spawns, bindings }) => {
                if let Some(world) = self.worlds.of_mut(first) {
                    (world.spawns, world.bindings) = (spawns, bindings);
                }
            }
        }
    }

    /// The ranks of a spawned world that run here are started turn by turn.
    pub(super) fn start_world(&mut self, first: Rank) {
        if let Some(world) = self.worlds.of_mut(first) {
            world.starting = Some(0);
        }
    }

    /// A spawned world cannot be started: what runs of it here is killed, and the rest never starts.
    pub(super) fn end_world(&mut self, first: Rank) {
        let Some(world) = self.worlds.of_mut(first) else { return };
        world.starting = None;
        for rank in world.here.clone() {
            match self.clients.get(rank) {
                Some(client) => drop(client.signal(libc::SIGKILL)),
                None => {
                    let end = mpd_wire::job::RankEnd::NotStarted;
                    self.post(Input::Exited(rank, end));
                }
            }
        }
    }

    /// At the root: this is how the ranks of a spawned world have ended.
    pub(super) fn world_ended(&mut self, ended: &WorldEnds) {
        self.outputs.end_unheard(ended.unheard());
        if self.spec.report_ends {
            self.tell_ends(ended);
        }
        self.pids.forget(&ended.world);
    }

    fn tell_ends(&mut self, ended: &WorldEnds) {
        if self.console.waiting() > MAX_UNHEARD {
            self.ends_left_out += u64::from(ended.world.size);
            return;
        }
        for (place, ranks) in &ended.parts.0 {
            let host = stdio::host_at(&self.order, *place as usize);
            let end = |rank: Rank| (self.pids.get(rank), ended.end_of(rank));
            let news = ends_of(&host, Some(ended.world), ranks, end);
            news.iter().for_each(|news| self.console.tell(news));
        }
    }

    /// All ranks of a spawned world have ended.
    pub(super) fn forget_world(&mut self, first: Rank) {
        if self.is_root()
            && let Some(world) = self.worlds.of(first)
        {
            self.labels.retire(world.numbers);
        }
        if self.worlds.of(first).is_some_and(|world| !world.here.is_empty()) {
            self.daemon.report(&ManagerReport::Forgotten { first });
        }
        self.worlds.remove(first);
    }

    /// Nothing more comes of a rank of a spawned world: what it took here is given back.
    pub(super) fn retire(&mut self, rank: Rank) {
        let is_spawned = rank.0 >= self.spec.size();
        let is_over = self.clients.get(rank).is_some_and(|client| {
            client.process.is_none() && client.sources.iter().all(|source| source.pipe.is_none())
        });
        if is_spawned && is_over {
            self.clients.remove(rank);
            self.misbehaved.remove(&rank);
        }
    }

    /// A rank has failed, and the others go on: those of its world that use PMI are told by SIGUSR1, for
    /// which their library has a handler.
    pub(super) fn note_dead(&mut self, rank: Rank) {
        let Some(world) = self.worlds.of_mut(rank) else { return };
        world.note_dead(rank);
        for other in world.here.iter().filter_map(|&rank| self.clients.get(rank)) {
            use pmi_proto::Phase;
            if matches!(other.pmi.session.phase(), Phase::Ready | Phase::InFence) {
                let _ = other.signal_alone(libc::SIGUSR1);
            }
        }
    }

    /// A rank says that its world has connected to another one, or parted from it: whether they share
    /// their fate. Those of other jobs never do.
    pub(super) fn bond(&mut self, asker: Asker, jobid: &[u8], joined: bool) {
        self.answer(asker, Answer::Done(Ok(())));
        if let Some(number) = Numbers::number_of(jobid, &self.order.kvsname) {
            self.post(Input::Bond { from: asker.0, number, joined });
        }
    }

    /// A rank wants another one of its world signaled.
    pub(super) fn ask_for_signal(&mut self, asker: Asker, peer: u32, signal: u8) {
        let Some(world) = self.worlds.of(asker.0) else { return };
        let is_there = peer < world.numbers.size;
        let rank = world.numbers.in_job(Rank(peer));
        let answer = match is_for_programs(i32::from(signal)) {
            _ if !is_there => Err("no_such_rank"),
            false => Err("no_such_signal"),
            true => Ok(()),
        };
        self.answer(asker, Answer::Done(answer));
        if answer.is_ok() {
            self.post(Input::InterruptRank { from: asker.0, rank, signal });
        }
    }

    /// One rank is to be signaled.
    pub(super) fn interrupt_rank(&self, rank: Rank, number: u8) {
        if let Some(client) = self.clients.get(rank) {
            let _ = client.signal_alone(i32::from(number));
        }
    }
}
