//! Requests of a root manager to its daemon when its ranks spawn: a placement for the processes, and
//! managers on further hosts. The test plays the manager.

use mpd_io::network::conn::Conn;
use mpd_wire::job::{
    Cookie, HostSlice, HostSlices, JobKey, SpawnBlock, SpawnPlacement, SpawnPolicy,
};
use mpd_wire::message::{Launch, ManagerOrder, ManagerReport, Placing};
use mpd_wire::{DaemonName, Instance, RankSet};

use crate::manager::{KEY, MANAGER, Orphaned, order};
use crate::run::wait_until;

fn name(of: usize) -> DaemonName {
    DaemonName::new(&format!("d{of}")).expect("a name")
}

fn request(size: u32, last: usize, lost: &[usize]) -> SpawnPlacement {
    SpawnPlacement {
        blocks: vec![SpawnBlock { size, hosts: None, policy: None }],
        policy: SpawnPolicy::RoundRobin,
        hosts: Vec::new(),
        exclude: Vec::new(),
        last: Some(name(last)),
        running: Vec::new(),
        blocked: Vec::new(),
        limit: None,
        nevertheless: false,
        lost: lost.iter().map(|&of| name(of)).collect(),
        here_first: true,
    }
}

/// Sends a placement request and waits for its answer.
fn place(manager: &mut Conn, request: u32, placement: SpawnPlacement) -> Placing {
    manager.send(&ManagerReport::Place { request, placement });
    manager.flush().expect("it accepts a message");
    loop {
        match order(manager) {
            ManagerOrder::Placed { request: of, outcome } if of == request => break outcome,
            // The ring changes as well.
            ManagerOrder::HostsChanged { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The hosts with their ranks, and the host used last.
fn map(placed: &Placing) -> String {
    let Placing::Done { host_slices, last } = placed else { panic!("{placed:?}") };
    let host = |host_slice: &HostSlice| format!("({}:{})", host_slice.member, host_slice.ranks);
    host_slices.iter().map(host).collect::<String>() + " " + last.as_str()
}

#[test]
fn the_daemon_places_spawned_processes_and_starts_managers_on_further_hosts() {
    let orphaned = Orphaned::new("7@d1", 0);
    let ring = &orphaned.ring;
    for member in 2..=3 {
        ring.start(member);
    }
    ring.agree();
    let mut manager = orphaned.register();
    assert_eq!(map(&place(&mut manager, 1, request(5, 1, &[]))), "(d2:0,3)(d3:1,4)(d1:2) d3");
    assert_eq!(map(&place(&mut manager, 2, request(2, 2, &[1]))), "(d3:0)(d2:1) d2");
    let failed = place(&mut manager, 3, request(1, 1, &[1, 2, 3]));
    let Placing::Failed(problem) = failed else { panic!("{failed:?}") };
    assert!(problem.contains("lost to this job: d1, d2, d3"), "{problem}");
    ring.kill(3);
    wait_until("d3 is missed", || ring.standing(1, 3) != ring.standing(1, 1));
    assert_eq!(
        map(&place(&mut manager, 4, request(1, 3, &[]))),
        "(d1:0) d1",
        "the host after the dead one"
    );

    let Placing::Done { host_slices, .. } = place(&mut manager, 5, request(1, 1, &[])) else {
        panic!()
    };
    let host_slice = |member, manager, rank| HostSlice {
        member,
        manager,
        addresses: Vec::new(),
        ranks: RankSet::from_ranges(vec![(rank, rank)]),
    };
    let root = Instance::from_bytes(MANAGER);
    let nobody = Instance::from_bytes([8; 16]);
    let launch = Launch {
        job: orphaned.job.clone(),
        key: JobKey::from_bytes(KEY),
        cookie: Cookie::from_bytes([3; 16]),
        kvsname: "kvs_0".to_owned(),
        tmpdir: "/tmp".to_owned(),
        host_slices: HostSlices::new(
            vec![
                host_slice(name(1), root, 0),
                host_slice(name(7), nobody, 1),
                host_slice(name(2), host_slices[0].manager, 2),
                host_slice(name(9), nobody, 3),
            ],
            4,
        )
        .expect("shares"),
        universe: None,
        first: 2,
    };
    manager.send(&ManagerReport::Grow { launch: Box::new(launch) });
    manager.flush().expect("it accepts a message");
    let missing = loop {
        match order(&mut manager) {
            ManagerOrder::Missing { members } => break members,
            // The new manager connects to the test. The ring changes as well.
            ManagerOrder::Link { .. } | ManagerOrder::HostsChanged { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    let names: Vec<&str> = missing.iter().map(|(member, _)| member.as_str()).collect();
    assert_eq!(names, ["d9"], "d7 was part of the job already, and d2 has a manager: {missing:?}");
    let runs = || ring.process(2).children().iter().any(|process| process.is_manager());
    wait_until("d2 has a manager", runs);
    manager.send(&ManagerReport::Ended { code: 0, unlinked: true });
    manager.flush().expect("it accepts a message");
    wait_until("it has ended", || !runs());
}
