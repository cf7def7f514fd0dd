//! A job of two ranks on this host, for unit tests of the owners. No process of it runs.

use std::collections::VecDeque;
use std::fs::File;
use std::rc::Rc;

use mio::Poll;
use mpd_clients::World;
use mpd_io::clock::Clock;
use mpd_job::manager::Input;
use mpd_wire::job::{Argset, Cookie, HostSlices, JobKey, JobSpec};
use mpd_wire::message::{HostLimits, StartJob};
use mpd_wire::{DaemonName, Instance, JobId};

use super::context::{Common, Job};
use super::event::Event;
use super::host_facts::ThisHost;

/// The job, whose ranks run `program`.
pub(super) fn common(program: &str) -> Common {
    let argset = Argset {
        size: 2,
        program: program.into(),
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
    let spec = JobSpec { argsets, environments, tmpdir: b"/tmp".to_vec(), ..JobSpec::default() };
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
    let spec = Rc::new(spec);
    let world = World::of_job(&spec, &order);
    let job = Job::new(spec, order, world, Rc::new(ThisHost::default()));
    Common {
        poll: Poll::new().unwrap(),
        clock: Clock::start(),
        null: File::open("/dev/null").unwrap().into(),
        job,
        events: VecDeque::new(),
    }
}

/// The inputs of the machine that owners have reported so far. Their other events are taken, too.
pub(super) fn inputs(common: &mut Common) -> Vec<Input> {
    let events = std::mem::take(&mut common.events);
    let input = |event| match event {
        Event::Input(input) => Some(input),
        _ => None,
    };
    events.into_iter().filter_map(input).collect()
}
