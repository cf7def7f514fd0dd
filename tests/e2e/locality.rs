//! What ranks of real Open MPI know about their CPUs and those of their peers. A version that is not there gives a line
//! with its name.

use std::collections::BTreeSet;

use crate::binding;
use crate::members::Members;
use crate::open_mpi::{Version, sampled, versions};
use crate::run::Output;
use crate::suite::Suite;

/// Runs `locality` with these options and this argument.
fn run(suite: &Suite, version: &Version, options: &[&str], argument: Option<&str>) -> Output {
    let run = suite.mpirun(options).arg(version.program("locality")).args(argument);
    run.deadline(120).output()
}

/// The number of masks that share a part of the topology with this one.
fn sharing(masks: &[BTreeSet<u32>], mask: &BTreeSet<u32>, part: &str) -> usize {
    let part_of = |cpu: &u32| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{part}");
        binding::numbers(std::fs::read_to_string(path).expect("a topology").trim())
    };
    let all: BTreeSet<u32> = mask.iter().flat_map(part_of).collect();
    masks.iter().filter(|other| !all.is_disjoint(other)).count()
}

#[test]
fn bound_ranks_of_open_mpi_know_which_ranks_share_their_core_and_socket() {
    let ranks = binding::allowed().len() + 1;
    for version in versions() {
        let suite = Suite::new();
        suite.start_daemon();
        // One rank more than there are CPUs, so at least two of them share a core.
        let masks = binding::bound(&suite, "core", ranks);
        let expected = (0..ranks).map(|rank| {
            let together = |part| sharing(&masks, &masks[rank], part);
            let (core, socket) = (together("thread_siblings_list"), together("core_siblings_list"));
            format!("rank {rank} core {core} socket {socket} host {ranks} bound yields")
        });
        let mut expected: Vec<String> = expected.collect();
        expected.sort();
        let output = run(&suite, &version, &["-bind-to", "core", "-n", &ranks.to_string()], None);
        assert_eq!(output.code(0).sorted_lines(), expected, "{output}");
        suite.only_the_daemon_is_left();
    }
}

#[test]
fn ranks_of_open_mpi_that_may_run_anywhere_share_only_their_host() {
    if binding::allowed().len() < 2 {
        // Open MPI takes a process with one CPU as bound.
        return mpd_tests::surroundings::skip("two CPUs");
    }
    for version in sampled() {
        let suite = Suite::new();
        let output = run(&suite, &version, &["-n", "2"], None);
        let line = |rank| format!("rank {rank} core 1 socket 1 host 2 free polls");
        assert_eq!(output.code(0).sorted_lines(), [0, 1].map(line), "{output}");
        // A spawned process is bound as its spawner is.
        for (options, is) in
            [(&["-bind-to", "core", "-n", "1"][..], "bound"), (&["-n", "1"], "free")]
        {
            let output = run(&suite, &version, options, Some("spawn"));
            let line = format!("rank 0 core 1 socket 1 host 1 {is} polls");
            assert_eq!(output.code(0).sorted_lines(), [line.as_str(), &line], "{output}");
        }
    }
}

#[test]
fn ranks_of_open_mpi_on_other_hosts_share_nothing() {
    let ring = Members::of(2);
    for version in sampled() {
        let arguments = ["-rr", "-bind-to", "core", "-n", "2"];
        let run = ring.mpirun(1, &arguments).arg(version.program("locality"));
        let output = run.env("OMPI_MCA_btl", "tcp,self").deadline(120).output();
        let line = |rank| format!("rank {rank} core 1 socket 1 host 1 bound polls");
        assert_eq!(output.code(0).sorted_lines(), [0, 1].map(line), "{output}");
        ring.only_daemons_are_left();
    }
}
