//! The worlds of this manager: ranks that were started together, with their programs and hosts.

use std::collections::BTreeMap;
use std::rc::Rc;

use mpd_job::manager::spawns::Announced;
use mpd_placement::binding::Bindings;
use mpd_wire::Rank;
use mpd_wire::job::{HostSlices, JobSpec, Parts, World as Numbers};
use mpd_wire::message::StartJob;

/// One world, as far as it concerns this host and its subtree. It does not change while its ranks run.
#[derive(Debug)]
pub struct World {
    /// Its number, and its ranks.
    pub numbers: Numbers,
    /// The programs. The ranks of the specification are numbered in the world.
    pub spec: Rc<JobSpec>,
    /// By program: the index of the inherited environment in the job's list. It is the environment of the first
    /// world's rank from which the world descends.
    pub inherits: Vec<u32>,
    /// The rank that spawned the world.
    pub spawner: Option<Spawner>,
    /// How many spawns lie between the first world and this one.
    pub generation: u32,
    /// By program: the application number of MPI, if it is not the index of the program.
    pub appnums: Vec<Option<i32>>,
    /// The name of its key-value space.
    pub kvsname: String,
    /// The ranks of each manager.
    pub parts: Parts,
    /// The ranks that run here, numbered through the job.
    pub here: Vec<Rank>,
    /// The children with a part in the world.
    pub children: Vec<usize>,
    /// Whether several hosts have a part in the world.
    pub is_spread: bool,
    /// The CPUs to which the ranks here are bound, once the checks before their start are done.
    pub bindings: Bindings,
}

/// The rank that has spawned a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawner {
    /// The name of its key-value space.
    pub kvsname: String,
    /// Its number in its world.
    pub rank: Rank,
}

impl World {
    /// The first world of a job.
    pub fn of_job(spec: &Rc<JobSpec>, order: &StartJob) -> Self {
        let numbers = Numbers::of_job(spec.size());
        let host_slices = (0..).zip(order.host_slices.iter());
        let parts = Parts(
            host_slices
                .map(|(tree_index, host_slice)| (tree_index, host_slice.ranks.clone()))
                .collect(),
        );
        Self::new(numbers, order.kvsname.clone(), Rc::clone(spec), order, parts)
    }

    /// A spawned world that is to be started in this subtree. It has no programs if its order has not arrived.
    pub fn announced(announced: Announced, (of_job, start): (&Rc<JobSpec>, &StartJob)) -> Self {
        let Announced { world: numbers, parts, order } = announced;
        let kvsname = numbers.kvsname(&start.kvsname);
        let Some(order) = order else {
            return Self::new(numbers, kvsname, Rc::clone(of_job), start, parts);
        };
        let (inherits, appnums) = (order.inherits.clone(), order.appnums.clone());
        let generation = order.generation;
        let spawner = Spawner { kvsname: order.parent.clone(), rank: order.rank };
        let spawner = Some(spawner).filter(|_| !order.of_user);
        let spec = Rc::new(order.completed_by(of_job));
        let world = Self::new(numbers, kvsname, spec, start, parts);
        Self { inherits, appnums, spawner, generation, ..world }
    }

    /// A world of that name whose ranks have not been started.
    fn new(
        numbers: Numbers,
        kvsname: String,
        spec: Rc<JobSpec>,
        order: &StartJob,
        parts: Parts,
    ) -> Self {
        let tree_index = order.tree_index as usize;
        let has_part = |child: &usize| {
            let over = |tree_index| HostSlices::is_in_subtree(tree_index, *child);
            !parts.at_all(over).is_empty()
        };
        Self {
            numbers,
            inherits: spec.argsets.iter().map(|argset| argset.environment).collect(),
            spawner: None,
            generation: 0,
            appnums: Vec::new(),
            spec,
            kvsname,
            here: parts.at(tree_index).ranks().collect(),
            children: order.host_slices.children(tree_index).filter(has_part).collect(),
            is_spread: parts.0.iter().filter(|(_, ranks)| !ranks.is_empty()).count() > 1,
            parts,
            bindings: Bindings::default(),
        }
    }

    /// The CPUs to which a rank here is bound; none if it is not bound.
    pub fn cpus_of(&self, rank: Rank) -> &[u32] {
        self.bindings.cpus(self.local(rank))
    }

    /// The index of a rank among the ranks of this host in this world.
    pub fn local(&self, rank: Rank) -> usize {
        self.here.binary_search(&rank).unwrap_or(0)
    }

    /// The program of a rank.
    pub fn argset_of(&self, rank: Rank) -> usize {
        self.spec.argset_of(self.numbers.own(rank))
    }
}

/// Worlds by first rank.
#[derive(Debug, Default)]
pub struct Worlds {
    worlds: BTreeMap<Rank, World>,
    /// How often the programs of a debugged job were started again.
    restarts: u32,
}

impl Worlds {
    /// Adds a world.
    pub fn insert(&mut self, world: World) {
        self.worlds.insert(world.numbers.first, world);
    }

    /// Removes the world with that first rank.
    pub fn remove(&mut self, first: Rank) {
        self.worlds.remove(&first);
    }

    /// Notes to which CPUs the ranks of a world here are bound.
    pub fn bind(&mut self, first: Rank, bindings: Bindings) {
        if let Some(world) = self.worlds.get_mut(&first) {
            world.bindings = bindings;
        }
    }

    /// Renames the key-value space of the first world, whose programs start again. Returns the new name.
    pub fn restart(&mut self, kvsname: &str) -> Option<&str> {
        self.restarts += 1;
        let world = self.worlds.get_mut(&Rank(0))?;
        world.kvsname = format!("{kvsname}_r{}", self.restarts);
        Some(&world.kvsname)
    }

    /// The world of a rank.
    pub fn of(&self, rank: Rank) -> Option<&World> {
        let (_, world) = self.worlds.range(..=rank).next_back()?;
        Some(world).filter(|world| world.numbers.contains(rank))
    }

    /// The world with this key-value space.
    pub fn of_name(&self, kvsname: &[u8]) -> Option<&World> {
        self.worlds.values().find(|world| world.kvsname.as_bytes() == kvsname)
    }

    /// All worlds, by first rank.
    pub fn all(&self) -> impl Iterator<Item = &World> {
        self.worlds.values()
    }
}
