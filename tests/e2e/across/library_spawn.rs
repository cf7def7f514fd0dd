//! Real MPI libraries that spawn further ranks on other hosts.

use std::collections::BTreeMap;

use crate::across::ring;
use crate::members::Members;
use crate::mpi::{Library, libraries_with_ports};
use crate::run::{Output, Run};

fn with_each(check: impl Fn(&Members, &Library)) {
    for library in libraries_with_ports() {
        let ring = ring();
        check(&ring, &library);
        ring.only_daemons_are_left();
    }
}

/// tests/mpi/spawn.c on the two slots of d1, without shared memory; the host precedes each line.
fn spawn(ring: &Members, library: &Library, arguments: &[&str]) -> Run {
    let run = ring
        .mpirun(1, &["-prepend-pattern", "%h ", "-n", "2"])
        .arg(library.program("spawn"))
        .args(arguments);
    library.dress_for_ports(run).env("MPIR_CVAR_NOLOCAL", "1").deadline(120)
}

/// Number of children on each host.
fn hosts(output: &Output) -> BTreeMap<String, usize> {
    let mut hosts = BTreeMap::new();
    let out = output.out();
    for (host, _) in out.lines().filter_map(|line| line.split_once(" child ")) {
        *hosts.entry(host.to_owned()).or_default() += 1;
    }
    hosts
}

#[test]
fn mpi_spawn_follows_the_host_hint_and_the_spawn_policy() {
    with_each(|ring, library| {
        for (hints, expected) in [
            (&[][..], &[("d1", 1), ("d2", 1), ("d3", 1), ("d4", 1)][..]),
            (&["hosts=d3,d4"], &[("d3", 2), ("d4", 2)]),
            (&["host=d2"], &[("d2", 4)]),
            (&["mpd_policy=pack"], &[("d2", 2), ("d3", 2)]),
            (&["wdir=/", "hosts=d4"], &[("d4", 4)]),
        ] {
            let arguments = [&["one", "4"][..], hints].concat();
            let output = spawn(ring, library, &arguments).output();
            output.code(0).quiet();
            assert!(output.out().contains("d1 spawn: 6 together\n"), "{}: {output}", library.name);
            let expected = expected.iter().map(|&(host, n)| (host.to_owned(), n)).collect();
            assert_eq!(hosts(&output), expected, "{hints:?} {}: {output}", library.name);
        }
    });
}

#[test]
fn spawned_mpi_ranks_spawn_further_ranks_on_other_hosts() {
    with_each(|ring, library| {
        let run = ring.mpirun(1, &["-n", "1"]).arg(library.program("spawn")).args(["nested", "5"]);
        let run = library.dress_for_ports(run).env("MPIR_CVAR_NOLOCAL", "1");
        let output = run.deadline(120).output();
        let said = (1..=5).map(|depth| format!("spawn: depth {depth}: 2 together"));
        let lines = output.code(0).quiet().sorted_lines();
        assert_eq!(lines, said.collect::<Vec<_>>(), "{}: {output}", library.name);
    });
}
