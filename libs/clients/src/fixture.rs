//! A job of two ranks on this host, for tests. No process of it runs.

use std::rc::Rc;

use mpd_placement::locality::Topology;
use mpd_wire::job::{Argset, Cookie, HostSlices, JobKey, JobSpec};
use mpd_wire::message::{HostLimits, StartJob};
use mpd_wire::{DaemonName, Instance, JobId};

use crate::job::{HostFacts, Job};
use crate::worlds::World;

/// The user of the tests' host.
pub(crate) const USER: u32 = 1000;

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
}

/// The job.
pub(crate) fn job() -> Job {
    job_with(JobSpec::default())
}

/// The same with these options; it has one program of two ranks.
pub(crate) fn job_with(options: JobSpec) -> Job {
    let argset = Argset {
        size: 2,
        program: "true".into(),
        args: Vec::new(),
        substitute: false,
        environment: 0,
        directory: b"/".to_vec(),
        search: b"/bin:/usr/bin".to_vec(),
        umask: 0o22,
        limits: Vec::new(),
        hosts: None,
        pty: None,
    };
    let (argsets, environments) = (vec![argset], vec![Vec::new()]);
    let spec = Rc::new(JobSpec { argsets, environments, tmpdir: b"/tmp".to_vec(), ..options });
    let name = DaemonName::new("h1").unwrap();
    let order = StartJob {
        job: JobId::new(1, "h1").unwrap(),
        cookie: Cookie::from_bytes([1; 16]),
        kvsname: "kvs".to_owned(),
        host: "h1".to_owned(),
        cgroup: None,
        rundir: None,
        tmpdir: "/tmp".to_owned(),
        key: JobKey::from_bytes([2; 32]),
        host_slices: HostSlices::alone(name, Instance::from_bytes([3; 16]), 2),
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
