//! A job of two ranks on this host, for unit tests of the owners. No process of it runs.

use std::collections::VecDeque;
use std::fs::File;
use std::rc::Rc;

use mio::Poll;
use mpd_clients::World;
use mpd_io::clock::Clock;
use mpd_job::manager::Input;
use mpd_manager::{Beginning, Node, Sign, Trace};
use mpd_sansio::Time;
use mpd_wire::job::{Argset, Cookie, HostSlices, JobKey, JobSpec};
use mpd_wire::message::{HostLimits, StartJob};
use mpd_wire::{DaemonName, Instance, JobId};

use super::begin::pump_of;
use super::context::{Common, Job};
use super::event::Event;
use super::host_facts::ThisHost;

/// The job, whose ranks run `program`.
pub(super) fn common(program: &str) -> Common {
    let name = DaemonName::new("h1").unwrap();
    common_on(program, HostSlices::alone(name, Instance::from_bytes([3; 16]), 2), 0)
}

/// The same for the manager at a tree index of the job on these hosts.
pub(super) fn common_on(program: &str, host_slices: HostSlices, tree_index: u32) -> Common {
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
        tree_index,
        spec_bytes: 0,
        adopts: false,
        notices: Vec::new(),
        spans: Vec::new(),
    };
    let spec = Rc::new(spec);
    let world = World::of_job(&spec, &order);
    let (pump, _) = pump_of(&spec, &order, Time::ZERO);
    let job = Job::new(spec, order, world, Rc::new(ThisHost::default()));
    let clock = Clock::start();
    let beginning = Beginning {
        manager: 1,
        trace: Trace::start(0, 0, clock.now()),
        sign: Sign::new(clock.now()),
        has_daemon: true,
    };
    Common {
        poll: Poll::new().unwrap(),
        node: Node::new(clock.now(), job, pump, beginning),
        clock,
        null: File::open("/dev/null").unwrap().into(),
        handed_over: VecDeque::new(),
    }
}

/// What owners have reported so far; it is taken.
pub(super) fn events(common: &mut Common) -> VecDeque<Event> {
    std::mem::take(common.node.lend().1)
}

/// The inputs of the machine that owners have reported so far. Their other events are taken, too.
pub(super) fn inputs(common: &mut Common) -> Vec<Input> {
    let input = |event| match event {
        Event::Input(input) => Some(input),
        _ => None,
    };
    events(common).into_iter().filter_map(input).collect()
}
