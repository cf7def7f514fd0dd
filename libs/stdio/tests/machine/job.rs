//! Jobs for the machine.

use mpd_sansio::Time;
use mpd_stdio::machine::{Facts, Here};
use mpd_stdio::silence::Task;
use mpd_wire::job::{Argset, Cookie, HostSlice, HostSlices, JobKey, JobSpec};
use mpd_wire::message::{HostLimits, StartJob};
use mpd_wire::{DaemonName, Instance, JobId, Rank, RankSet};

/// A job, as each of its managers has it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) spec: JobSpec,
    pub(crate) orders: Vec<StartJob>,
    pub(crate) now: Time,
}

impl Job {
    /// A job with these ranks on its hosts.
    pub(crate) fn new(ranks: &[RankSet], change: impl FnOnce(&mut JobSpec)) -> Self {
        let size = ranks.iter().map(RankSet::count).sum();
        let argset = Argset {
            size,
            program: "true".into(),
            directory: b"/".to_vec(),
            search: Vec::new(),
            umask: 0o22,
            ..Argset::default()
        };
        let (argsets, environments) = (vec![argset], vec![Vec::new()]);
        let mut spec = JobSpec { argsets, environments, ..JobSpec::default() };
        change(&mut spec);
        let host_slice = |(host, ranks): (usize, &RankSet)| HostSlice {
            member: DaemonName::new(&format!("h{host}")).unwrap(),
            manager: Instance::from_bytes([3; 16]),
            addresses: Vec::new(),
            ranks: ranks.clone(),
        };
        let list = ranks.iter().enumerate().map(host_slice).collect();
        let host_slices = HostSlices::new(list, size).unwrap();
        let order = |tree_index| StartJob {
            job: JobId::new(1, "h0").unwrap(),
            cookie: Cookie::from_bytes([1; 16]),
            kvsname: "kvs".to_owned(),
            host: "h0".to_owned(),
            cgroup: None,
            rundir: None,
            tmpdir: "/tmp".to_owned(),
            key: JobKey::from_bytes([2; 32]),
            host_slices: host_slices.clone(),
            universe: Some(size),
            limits: HostLimits::default(),
            tree_index,
            spec_bytes: 0,
            adopts: false,
            notices: Vec::new(),
            spans: Vec::new(),
        };
        let orders = (0..).take(ranks.len()).map(order).collect();
        Self { spec, orders, now: Time::ZERO }
    }

    pub(crate) fn facts(&self, host: usize) -> Facts<'_> {
        Facts { now: self.now, wall: None, spec: &self.spec, order: &self.orders[host] }
    }
}

/// A host whose ranks wait for nothing.
impl Here for Job {
    fn name_of(&self, rank: Rank) -> String {
        rank.to_string()
    }

    fn tree_index_of(&self, rank: Rank) -> Option<usize> {
        self.orders[0].host_slices.tree_index_of_rank(rank)
    }

    fn writer(&self, _: Rank) -> Vec<Task> {
        Vec::new()
    }
}
