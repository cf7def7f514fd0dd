//! The job, as a manager knows it. It is lent to the machine for each call.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

use mpd_placement::locality::Topology;
use mpd_wire::Rank;
use mpd_wire::job::{Bytes, JobSpec, World as Numbers};
use mpd_wire::message::StartJob;

use crate::worlds::{World, Worlds};

/// Facts of this host, which are looked up when they are needed. Only files change while the job runs.
pub trait HostFacts: fmt::Debug {
    /// The positions of the CPUs.
    fn topology(&self) -> &Topology;
    /// How many CPUs the manager may use.
    fn cpus(&self) -> u32;
    /// The user of the job.
    fn user(&self) -> u32;
    /// The architecture, as Rust names it.
    fn architecture(&self) -> &str;
    /// Reads the file of hints or of hosts at an absolute path. The error is a text for people without the path.
    fn read(&self, path: &[u8]) -> Result<Bytes, String>;
}

/// The job, as this manager knows it. Its owner changes it between two calls.
#[derive(Debug)]
pub struct Job {
    /// What the user wants.
    pub spec: Rc<JobSpec>,
    /// The order by which the job was started.
    pub order: StartJob,
    /// The worlds with ranks in this subtree.
    pub worlds: Worlds,
    /// The job's directory, if it could be made.
    pub directory: Option<PathBuf>,
    /// The port for PMIx clients, once ranks may be started.
    pub pmix_port: Option<u16>,
    /// The secret part of the PMIx namespaces, which the key of the job defines.
    pub pmix_secret: String,
    /// Facts of this host.
    pub host_facts: Rc<dyn HostFacts>,
}

impl Job {
    /// A job with its first world. It has no directory and no PMIx port yet.
    pub fn new(
        spec: Rc<JobSpec>,
        order: StartJob,
        world: World,
        host_facts: Rc<dyn HostFacts>,
    ) -> Self {
        let mut worlds = Worlds::default();
        worlds.insert(world);
        let pmix_secret = order.key.pmix_secret();
        let (directory, pmix_port) = (None, None);
        Self { spec, order, worlds, directory, pmix_port, pmix_secret, host_facts }
    }

    /// The number of this host in the list of the job's hosts.
    pub const fn tree_index(&self) -> usize {
        self.order.tree_index as usize
    }

    /// Whether this is the root of the job tree.
    pub const fn is_root(&self) -> bool {
        self.order.tree_index == 0
    }

    /// Whether this host joined for a spawned world.
    pub fn joined_late(&self) -> bool {
        let host_slice = self.order.host_slices.get(self.tree_index());
        !self.is_root() && host_slice.is_some_and(|host_slice| host_slice.ranks.is_empty())
    }

    /// Whether the job began with that rank.
    pub fn is_first(&self, rank: Rank) -> bool {
        rank.0 < self.spec.size()
    }

    /// The name of the host at a tree index, as the ring knows it.
    pub fn host_at(&self, tree_index: usize) -> String {
        let host_slice = self.order.host_slices.get(tree_index);
        host_slice
            .map_or_else(|| self.order.host.clone(), |host_slice| host_slice.member.to_string())
    }

    /// The name of this host, as the ring knows it.
    pub fn host(&self) -> String {
        self.host_at(self.tree_index())
    }

    /// The name of a rank in texts: its number, and the number of its world if it was spawned.
    pub fn name_of(&self, rank: Rank) -> String {
        Numbers::name(self.worlds.of(rank).map(|world| &world.numbers), rank)
    }
}
