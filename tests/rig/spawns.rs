//! Hosts of spawned processes: the tables of "Scheduling dynamically spawned processes in MPI-2" (Cera and
//! others, 2006) on five hosts. Also simultaneous spawns, draining hosts, and signals between ranks.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use mpd_tests::surroundings::{program, setting, skip};

use crate::jobs::booted;
use crate::mpi::test_environment;
use crate::rig::{Rig, RigOptions};
use crate::run::{Output, Run, sample, wait_until};

/// The name, the variable with the directory of the programs, the variable with that of the library, and a variable
/// that forbids shared memory to the ranks. The programs of Open MPI know the directory of their library.
const LIBRARIES: [(&str, &str, &str, [&str; 2]); 4] = [
    ("MPICH 5", "MPD_TEST_MPICH5_DIR", "MPD_TEST_MPICH5_LIB", ["MPIR_CVAR_CH4_NETMOD", "ofi"]),
    ("Intel MPI", "MPD_TEST_IMPI_DIR", "MPD_TEST_IMPI_LIB", ["I_MPI_FABRICS", "ofi"]),
    (DEBIANS_OPEN_MPI, "MPD_TEST_OMPI_DEBIAN_DIR", "", ["OMPI_MCA_btl", "tcp,self"]),
    (OPEN_MPI_5, "MPD_TEST_OMPI5011_DIR", "", ["OMPI_MCA_btl", "tcp,self"]),
];

const DEBIANS_OPEN_MPI: &str = "Debian's Open MPI";
const OPEN_MPI_5: &str = "Open MPI 5.0.11";

/// The size of each host's /dev/shm that a tree of 753 processes needs.
const MEMORY: &str = "512m";

pub(crate) fn five() -> RigOptions {
    RigOptions { hosts: Some(5), memory: Some(MEMORY), ..RigOptions::default() }
}

/// `mpirun` of one rank of `t-spawn`, with these options.
pub(crate) fn spawner(rig: &Rig, host: &str, options: &[&str], arguments: &[&str]) -> Run {
    let program = program("t-spawn").display().to_string();
    rig.mpirun(host, &[options, &["-n", "1", &program], arguments].concat())
}

/// How many of these lines end with the name of each host, as `4/4/4/4/4`.
fn table<'a>(hosts: &[String], lines: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = hosts.iter().map(|host| (host.as_str(), 0)).collect();
    for host in lines.filter_map(|line| line.rsplit(' ').next()) {
        if let Some(count) = counts.get_mut(host) {
            *count += 1;
        }
    }
    let counts: Vec<String> = hosts.iter().map(|host| counts[host.as_str()].to_string()).collect();
    counts.join("/")
}

fn table_of(hosts: &[String], output: &Output) -> String {
    output.code(0);
    table(hosts, output.out().lines())
}

fn seconds(begin: Instant) -> String {
    format!("{:.2} s", begin.elapsed().as_secs_f64())
}

#[test]
fn spawned_processes_are_spread_evenly_for_any_sizes_of_spawns() {
    let Some((rig, hosts)) = booted(five()) else { return };
    let cases = [
        (&["many", "20", "1", "self", "leaf"][..], "4/4/4/4/4"),
        (&["many", "1", "20", "self", "leaf"], "4/4/4/4/4"),
        // After the first host, which runs the spawner.
        (&["many", "8", "3,1,2,5", "self", "leaf"], "4/5/5/4/4"),
        (&["fib", "6"], "5/5/5/5/5"),
        (&["fib", "13"], "151/151/151/150/150"),
    ];
    for (arguments, expected) in cases {
        let begin = Instant::now();
        let output = spawner(&rig, &hosts[0], &[], arguments).output();
        let table = table_of(&hosts, &output);
        rig.figure(&format!("t-spawn {}: {table} in {}", arguments.join(" "), seconds(begin)));
        assert_eq!(table, expected, "{arguments:?}");
        if arguments[0] == "fib" {
            let sum = if arguments[1] == "6" { 8 } else { 233 };
            assert!(output.out().contains(&format!("sum {sum}\n")), "{output}");
        }
        rig.is_clean(&arguments.join(" "), &hosts);
    }
    rig.ends(&hosts[0]);
}

/// A program of an MPI library, from the first host; `None` if the library is not installed.
fn of_library(
    rig: &Rig,
    host: &str,
    library: usize,
    options: &[&str],
    arguments: &[&str],
) -> Option<Run> {
    let (_, directory, search_path, [name, value]) = LIBRARIES[library];
    let program = Path::new(&setting(directory)?).join(arguments[0]).display().to_string();
    let variables = ["-genv", "FI_PROVIDER", "tcp", "-genv", name, value];
    let more = ["-genv", "MPIR_CVAR_NOLOCAL", "1"];
    let path = if search_path.is_empty() { None } else { Some(setting(search_path)?) };
    let path: Vec<&str> = path.iter().flat_map(|it| ["-genv", "LD_LIBRARY_PATH", it]).collect();
    let rank = ["-n", "1", &program];
    let all = [options, &variables, &more, &path, &rank, &arguments[1..]].concat();
    Some(rig.mpirun(host, &all).deadline(sample(120, 1200)))
}

#[test]
fn processes_of_real_mpi_libraries_are_spread_evenly_and_connect_by_a_name() {
    let share = test_environment();
    if share.is_empty() {
        return skip("no MPI library is there");
    }
    let Some((rig, hosts)) = booted(RigOptions { share, ..five() }) else { return };
    for (library, (name, ..)) in LIBRARIES.iter().enumerate() {
        let mut cases = vec![(vec!["fib", "6"], "5/5/5/5/5", "sum 8\n")];
        let is_open_mpi = [DEBIANS_OPEN_MPI, OPEN_MPI_5].contains(name);
        if sample(false, true) && !is_open_mpi {
            cases.push((vec!["primes", "200000", "20"], "8/8/8/8/7", "primes 17984\n"));
        }
        if sample(false, true) && *name == "MPICH 5" {
            cases.push((vec!["fib", "13"], "151/151/151/150/150", "sum 233\n"));
        }
        for (arguments, expected, result) in cases {
            let Some(run) = of_library(&rig, &hosts[0], library, &[], &arguments) else {
                skip(&format!("{name} is not there"));
                break;
            };
            let begin = Instant::now();
            let output = run.output();
            let table = table_of(&hosts, &output);
            rig.figure(&format!("{name}: {}: {table} in {}", arguments.join(" "), seconds(begin)));
            assert_eq!(table, expected, "{name}: {arguments:?}");
            assert!(output.out().contains(result), "{name}: {output}");
            rig.is_clean(name, &hosts);
        }
        if !is_open_mpi {
            meet(&rig, &hosts, library);
        }
    }
    rig.ends(&hosts[0]);
}

/// Two jobs of a library, started on different hosts, publish a name, find it, connect, and disconnect.
fn meet(rig: &Rig, hosts: &[String], library: usize) {
    let half = |host: &String, how| of_library(rig, host, library, &[], &["meet", how, "a place"]);
    let (Some(one), Some(other)) = (half(&hosts[0], "publish"), half(&hosts[4], "lookup")) else {
        return;
    };
    let begin = Instant::now();
    let jobs = [one.start(), other.start()];
    for job in jobs {
        let output = job.wait();
        output.code(0);
        assert_eq!(output.out(), "meet: 2 together\n", "{output}");
    }
    let name = LIBRARIES[library].0;
    rig.figure(&format!("{name}: two jobs met by a name in {}", seconds(begin)));
    rig.is_clean(name, hosts);
}

#[test]
fn primes_run_on_all_hosts_or_on_one_according_to_the_policy() {
    let share = test_environment();
    if share.is_empty() {
        return skip("no MPI library is there");
    }
    let Some((mut rig, hosts)) = booted(RigOptions { share, ..five() }) else { return };
    // Only the full run measures times; the short run checks the hosts of the processes.
    let limit = sample("200000", "8000000");
    if sample(false, true) {
        for host in &hosts {
            rig.control(&["cpu", host, "25"]);
        }
    }
    let arguments = ["primes", limit, "20"];
    let roomy: Vec<String> = hosts.iter().map(|host| format!("{host}:64")).collect();
    let roomy = roomy.join(",");
    let cases = [
        ("pack", ["-hosts", &roomy, "-spawn-policy", "pack"], "39/0/0/0/0"),
        ("rr", ["-hosts", &roomy, "-spawn-policy", "rr"], "8/8/8/8/7"),
    ];
    let mut times = Vec::new();
    for round in 0..sample(1, 3) {
        for (policy, options, expected) in &cases {
            let Some(run) = of_library(&rig, &hosts[0], 0, options, &arguments) else {
                return skip("MPICH 5 is not there");
            };
            let begin = Instant::now();
            let table = table_of(&hosts, &run.output());
            let took = begin.elapsed();
            assert_eq!(table, *expected, "{policy}");
            rig.figure(&format!(
                "primes up to {limit}, {policy}: {table} in {:.1} s",
                took.as_secs_f64()
            ));
            times.push(took);
            rig.is_clean(&format!("{policy}, round {round}"), &hosts);
        }
    }
    let sum = |of: usize| times.iter().skip(of).step_by(2).sum::<Duration>().as_secs_f64();
    rig.figure(&format!("primes: {:.2} times as fast as packed", sum(0) / sum(1)));
    rig.ends(&hosts[0]);
}

#[test]
fn two_jobs_that_spawn_simultaneously_are_each_spread_evenly() {
    let Some((rig, hosts)) = booted(five()) else { return };
    let arguments = ["many", "40", "1", "self", "leaf"];
    let jobs: Vec<_> =
        [0, 1].map(|at| spawner(&rig, &hosts[at], &[], &arguments).start()).into_iter().collect();
    for job in jobs {
        assert_eq!(table_of(&hosts, &job.wait()), "8/8/8/8/8");
    }
    rig.is_clean("after both", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn a_draining_host_gets_no_spawned_ranks_until_it_is_released() {
    let Some((rig, hosts)) = booted(five()) else { return };
    let place = rig.share().display().to_string();
    let arguments = ["hold", &place, "20,20,20", "1", "self", "leaf"];
    let job = spawner(&rig, &hosts[0], &[], &arguments).start();
    let holds = |step: usize| {
        let file = rig.share().join(format!("held.{step}"));
        wait_until("it holds", || file.exists());
    };
    holds(1);
    rig.run(&hosts[0], &["mpddrain", &hosts[2]]);
    rig.file("go.1", "");
    holds(2);
    rig.run(&hosts[0], &["mpddrain", "--undo", &hosts[2]]);
    rig.file("go.2", "");
    holds(3);
    rig.file("go.3", "");
    let output = job.wait();
    // 4/4/4/4/4, then 5/5/0/5/5, then 4/4/4/4/4.
    assert_eq!(table_of(&hosts, &output), "13/13/8/13/13", "{output}");
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn a_rank_signals_a_rank_of_another_host_through_the_library() {
    let Some(directory) = setting("MPD_TEST_PMI_DIR") else {
        return skip("no client libraries");
    };
    let share = test_environment();
    let Some((rig, hosts)) = booted(RigOptions { hosts: Some(4), share, ..RigOptions::default() })
    else {
        return;
    };
    let program = Path::new(&directory).join("interrupt_peer").display().to_string();
    let output = rig.mpirun(&hosts[0], &["-n", "8", "-ppn", "2", &program, "3", "7"]).output();
    output.code(0).quiet();
    assert_eq!(output.sorted_lines(), ["3 is on h2", "handler of 7 ran once on h4"], "{output}");
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}
