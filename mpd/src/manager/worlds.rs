//! The worlds of this manager: which ranks were started together, what they run, and where.

use std::collections::BTreeMap;
use std::rc::Rc;

use mpd_wire::Rank;
use mpd_wire::job::{JobSpec, Parts, Shares, World as Numbers};
use mpd_wire::message::StartJob;

/// One world, as far as it concerns this host and those below. It does not change while its ranks run.
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
    /// Who runs what of it.
    pub(super) parts: Parts,
    /// The ranks that run here, numbered through the job.
    pub(super) here: Vec<Rank>,
    /// The managers directly below with a part in it.
    pub(super) below: Vec<usize>,
    /// Whether several hosts have a part in it.
    pub(super) is_spread: bool,
}

impl World {
    /// The one that a job begins with.
    pub(super) fn of_job(spec: &Rc<JobSpec>, order: &StartJob) -> Self {
        let numbers = Numbers::of_job(spec.size());
        let shares = (0..).zip(order.shares.iter());
        let parts = Parts(shares.map(|(place, share)| (place, share.ranks.clone())).collect());
        Self::new((numbers, order.kvsname.clone()), Rc::clone(spec), order, parts)
    }

    /// A world of that name, of which nothing was started yet.
    pub(super) fn new(
        (numbers, kvsname): (Numbers, String),
        spec: Rc<JobSpec>,
        order: &StartJob,
        parts: Parts,
    ) -> Self {
        let place = order.place as usize;
        let has_part = |child: &usize| {
            let over = |place| Shares::is_below(place, *child);
            !parts.at_all(over).is_empty()
        };
        Self {
            numbers,
            inherits: spec.argsets.iter().map(|argset| argset.environment).collect(),
            spawner: None,
            appnums: Vec::new(),
            spec,
            kvsname,
            here: parts.at(place).ranks().collect(),
            below: order.shares.children(place).filter(has_part).collect(),
            is_spread: parts.0.iter().filter(|(_, ranks)| !ranks.is_empty()).count() > 1,
            parts,
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
}

/// Worlds by first rank.
#[derive(Debug, Default)]
pub(super) struct Worlds {
    worlds: BTreeMap<Rank, World>,
    /// How often the programs of a job that is debugged were started once more.
    restarts: u32,
}

impl Worlds {
    pub(super) fn insert(&mut self, world: World) {
        self.worlds.insert(world.numbers.first, world);
    }

    pub(super) fn remove(&mut self, first: Rank) {
        self.worlds.remove(&first);
    }

    /// The programs of the first world start once more, with a new key-value space.
    pub(super) fn restart(&mut self, kvsname: &str) {
        self.restarts += 1;
        if let Some(world) = self.worlds.get_mut(&Rank(0)) {
            world.kvsname = format!("{kvsname}_r{}", self.restarts);
        }
    }

    /// The world that a rank belongs to.
    pub(super) fn of(&self, rank: Rank) -> Option<&World> {
        let (_, world) = self.worlds.range(..=rank).next_back()?;
        Some(world).filter(|world| world.numbers.contains(rank))
    }

    /// The world whose key-value space is called so.
    pub(super) fn of_name(&self, kvsname: &[u8]) -> Option<&World> {
        self.worlds.values().find(|world| world.kvsname.as_bytes() == kvsname)
    }

    /// All, by first rank.
    pub(super) fn all(&self) -> impl Iterator<Item = &World> {
        self.worlds.values()
    }
}
