//! A job of two ranks on this host, for tests. No process of it runs.

use std::rc::Rc;

use mpd_placement::locality::Topology;
use mpd_wire::job::{Argset, Bytes, Cookie, HostSlice, HostSlices, JobKey, JobSpec};
use mpd_wire::message::{HostLimits, StartJob};
use mpd_wire::{DaemonName, Instance, JobId, RankSet};

use mpd_clients::World;
use mpd_clients::{HostFacts, Job};

/// The user of the tests' host.
pub(super) const USER: u32 = 1000;

#[derive(Debug)]
struct TestHost(Topology);

impl HostFacts for TestHost {
    fn topology(&self) -> &Topology {
        &self.0
    }

    fn cpus(&self) -> u32 {
        4
    }

    fn user(&self) -> u32 {
        USER
    }

    fn architecture(&self) -> &str {
        "x86_64"
    }

    fn read(&self, _: &[u8]) -> Result<Bytes, String> {
        Err("there are no files".to_owned())
    }
}

/// The job.
pub(super) fn job() -> Job {
    let instance = Instance::from_bytes([3; 16]);
    job_on(HostSlices::alone(DaemonName::new("h1").unwrap(), instance, 2))
}

/// The same with one rank on each of two hosts; this is the root.
pub(super) fn job_on_two_hosts() -> Job {
    let host_slice = |number: u32| HostSlice {
        member: DaemonName::new(&format!("h{}", number + 1)).unwrap(),
        manager: Instance::from_bytes([3; 16]),
        addresses: Vec::new(),
        ranks: RankSet::from_ranges(vec![(number, number)]),
    };
    job_on(HostSlices::new((0..2).map(host_slice).collect(), 2).unwrap())
}

fn job_on(host_slices: HostSlices) -> Job {
    let argset = Argset {
        size: 2,
        program: "true".into(),
        directory: b"/".to_vec(),
        search: b"/bin:/usr/bin".to_vec(),
        umask: 0o22,
        ..Argset::default()
    };
    let (argsets, environments) = (vec![argset], vec![Vec::new()]);
    let spec =
        Rc::new(JobSpec { argsets, environments, tmpdir: b"/tmp".to_vec(), ..JobSpec::default() });
    let order = StartJob {
        job: JobId::new(1, "h1").unwrap(),
        cookie: Cookie::from_bytes([1; 16]),
        kvsname: "kvs".to_owned(),
        host: "h1".to_owned(),
        cgroup: None,
        rundir: None,
        tmpdir: "/tmp".to_owned(),
        key: JobKey::from_bytes([2; 32]),
        host_slices,
        universe: Some(2),
        limits: HostLimits::default(),
        tree_index: 0,
        spec_bytes: 0,
        adopts: false,
        notices: Vec::new(),
        spans: Vec::new(),
    };
    let world = World::of_job(&spec, &order);
    Job::new(spec, order, world, Rc::new(TestHost(Topology::new(Vec::new()))))
}
