//! Programs of real Open MPI under `mpirun`. A version that is not there gives a line with its name.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::PathBuf;

use mpd_tests::surroundings::{setting, skip};

use crate::members::Members;
use crate::run::{Run, sample, wait_until};
use crate::suite::Suite;

/// A version of Open MPI.
pub(crate) struct Version {
    name: &'static str,
    directory: PathBuf,
    /// It has groups, sessions and fault tolerance.
    pub(crate) is_five: bool,
}

/// Name, variable with the directory of the programs, and whether it is of the series 5.
const VERSIONS: [(&str, &str, bool); 4] = [
    ("Debian's Open MPI", "MPD_TEST_OMPI_DEBIAN_DIR", false),
    ("Open MPI 4.1.8", "MPD_TEST_OMPI418_DIR", false),
    ("Open MPI 5.0.8", "MPD_TEST_OMPI508_DIR", true),
    ("Open MPI 5.0.11", "MPD_TEST_OMPI5011_DIR", true),
];

/// The versions that are there.
pub(crate) fn versions() -> Vec<Version> {
    let mut versions = Vec::new();
    for (name, variable, is_five) in VERSIONS {
        match setting(variable) {
            Some(directory) => {
                versions.push(Version { name, directory: directory.into(), is_five })
            }
            None => skip(&format!("{name} is not there")),
        }
    }
    versions
}

/// The last version of each series; with the full work, all versions. For tests of what does not depend on the version.
pub(crate) fn sampled() -> Vec<Version> {
    let mut versions = versions();
    if !sample(false, true) {
        versions.dedup_by(|later, earlier| {
            let is_one_series = later.is_five == earlier.is_five;
            if is_one_series {
                std::mem::swap(later, earlier);
            }
            is_one_series
        });
    }
    versions
}

impl Version {
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn run(
        &self,
        suite: &Suite,
        ranks: usize,
        program: &str,
        arguments: &[&str],
    ) -> Run {
        let run = suite.mpirun(["-n", &ranks.to_string()]).arg(self.program(program));
        run.args(arguments).deadline(120)
    }
}

/// Runs a check with each version that is there, through its own daemon. Nothing may be left.
fn with_each(check: impl Fn(&Suite, &Version)) {
    with(versions(), check);
}

/// The same with one version of each series.
pub(crate) fn with_each_series(check: impl Fn(&Suite, &Version)) {
    with(sampled(), check);
}

fn with(versions: Vec<Version>, check: impl Fn(&Suite, &Version)) {
    for version in versions {
        let suite = Suite::new();
        suite.start_daemon();
        check(&suite, &version);
        suite.only_the_daemon_is_left();
    }
}

/// The same for versions of the series 5.
fn with_each_five(check: impl Fn(&Suite, &Version)) {
    with_each(|suite, version| {
        if version.is_five {
            check(suite, version);
        }
    });
}

/// The universe of that many ranks without an option and without named hosts: the CPUs of this host.
pub(crate) fn universe(ranks: usize) -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).max(ranks)
}

#[test]
fn ranks_of_open_mpi_form_one_world_and_compute_together() {
    with_each(|suite, version| {
        let output = version.run(suite, 3, "hello", &[]).output();
        let universe = universe(3);
        let line = |rank| format!("rank {rank} of 3 appnum 0 universe {universe} node 3");
        assert_eq!(output.code(0).quiet().sorted_lines(), [0, 1, 2].map(line), "{output}");
        let ranks = sample(4, 16);
        let output = version.run(suite, ranks, "allreduce", &[]).output();
        output.code(0).prints(&format!("allreduce ok {ranks}\n"));
    });
}

#[test]
fn ranks_of_open_mpi_exchange_their_addresses_between_hosts() {
    let ring = Members::of(3);
    for version in versions() {
        for (program, ranks) in [("hello", 6), ("allreduce", sample(6, 24))] {
            let arguments = ["-rr", "-n", &ranks.to_string()];
            let run = ring.mpirun(1, &arguments).arg(version.program(program)).deadline(120);
            // The hosts are one machine, so shared memory would mix them up.
            let output = run.env("OMPI_MCA_btl", "tcp,self").output();
            let out = output.code(0).out();
            let is_right = match program {
                "hello" => {
                    let line = format!(" of 6 appnum 0 universe {} node 2\n", universe(6));
                    out.matches(&line).count() == 6
                }
                _ => out.contains(&format!("allreduce ok {ranks}\n")),
            };
            assert!(is_right, "{}: {output}", version.name);
        }
        ring.only_daemons_are_left();
    }
}

#[test]
fn addresses_that_no_fence_has_collected_come_from_the_host_of_their_rank() {
    let ring = Members::of(3);
    for version in sampled() {
        let run = ring.mpirun(1, &["-rr", "-n", "6"]).arg(version.program("allreduce"));
        let run = run.env("OMPI_MCA_btl", "tcp,self").env("OMPI_MCA_pmix_base_async_modex", "1");
        let output = run.env("OMPI_MCA_pmix_base_collect_data", "0").deadline(120).output();
        let is_right = output.code(0).out().contains("allreduce ok 6\n");
        assert!(is_right, "{}: {output}", version.name);
        ring.only_daemons_are_left();
    }
}

#[test]
fn a_rank_runs_two_programs_of_open_mpi_one_after_the_other() {
    with_each_series(|suite, version| {
        let program = version.program("hello").display().to_string();
        let run = suite.mpirun(["-n", "2", "sh", "-c", "$0 && $0", &program]).deadline(120);
        let output = run.output();
        let universe = universe(2);
        let line = |rank| format!("rank {rank} of 2 appnum 0 universe {universe} node 2");
        assert_eq!(output.code(0).sorted_lines(), [0, 0, 1, 1].map(line), "{output}");
    });
}

#[test]
fn open_mpi_spawns_processes_and_meets_them() {
    with_each(|suite, version| {
        version.run(suite, 1, "spawn", &["missing"]).output().code(0);
        let output = version.run(suite, 2, "spawn", &["one", "2"]).output();
        assert!(output.code(0).out().contains("spawn: 4 together"), "{output}");
    });
}

#[test]
fn open_mpi_5_makes_communicators_from_groups() {
    with_each_five(|suite, version| {
        let output = version.run(suite, 3, "groups", &[]).output();
        let line = |rank| format!("rank {rank} of 3, sum 3");
        assert_eq!(output.code(0).sorted_lines(), [0, 1, 2].map(line), "{output}");
    });
}

#[test]
fn survivors_of_open_mpi_5_shrink_their_world_and_finish() {
    with_each_five(|suite, version| {
        let run = suite.mpirun(["-on-failure=continue", "-n", "4"]).arg(version.program("survive"));
        let output = run.env("OMPI_MCA_mpi_ft_enable", "1").deadline(120).output();
        let line = |rank| format!("rank {rank}: 3 are left");
        assert_eq!(output.code(137).sorted_lines(), [0, 2, 3].map(line), "{output}");
    });
}

#[test]
fn ranks_of_open_mpi_stop_at_a_breakpoint_of_the_debugger_and_continue() {
    if setting("MPD_TEST_GDB").is_none() {
        return skip("no gdb");
    }
    with_each_series(|suite, version| {
        let commands = ["break work", "run", "print round", "continue"];
        let commands = commands.iter().flat_map(|command| ["-ex", command]);
        let run = suite.mpirun(["-d", "-batch"]).args(commands).args(["-n", "3"]);
        let output = run.arg(version.program("world")).deadline(180).output();
        let lines = output.code(0).sorted_lines();
        for line in ["0: $1 = 0", "1: $1 = 1", "2: $1 = 2", "0-2: [program exited normally]"] {
            assert!(lines.iter().any(|one| one == line), "{line}: {output}");
        }
    });
}

#[test]
fn a_rank_of_open_mpi_starts_an_mpirun_of_open_mpi() {
    with_each_series(|suite, version| {
        let inner = version.program("hello").display().to_string();
        let run = suite.mpirun(["-n", "1", &suite.program("mpirun"), "-n", "2", &inner]);
        let output = run.deadline(120).output();
        let universe = universe(2);
        let line = |rank| format!("rank {rank} of 2 appnum 0 universe {universe} node 2");
        assert_eq!(output.code(0).sorted_lines(), [0, 1].map(line), "{output}");
    });
}

#[test]
fn garbage_on_the_port_for_pmix_costs_its_sender_the_connection_only() {
    with_each_series(|suite, version| {
        let program = version.program("hello").display().to_string();
        let wait = "echo $PMIX_SERVER_URI41 >uri; while ! test -e go; do sleep 0.01; done; $0";
        let running = suite.mpirun(["-n", "1", "sh", "-c", wait, &program]).deadline(120).start();
        let uri = || std::fs::read_to_string(suite.path("work/uri")).unwrap_or_default();
        wait_until("the rank has written its variable", || uri().ends_with('\n'));
        let port = uri().trim().rsplit(':').next().and_then(|port| port.parse().ok());
        let port: u16 = port.expect("a port");
        let mut strangers: Vec<TcpStream> = Vec::new();
        for number in 0..100 {
            let mut stranger = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
            // The manager may close the connection before all of it was written.
            let _ = stranger.write_all(&vec![number; usize::from(number) * 100]);
            strangers.push(stranger);
        }
        std::fs::write(suite.path("work/go"), "").expect("a file");
        let output = running.wait();
        let universe = universe(1);
        output.code(0).prints(&format!("rank 0 of 1 appnum 0 universe {universe} node 1\n"));
        drop(strangers);
    });
}

#[test]
fn the_secret_of_the_namespace_stands_in_no_log_and_no_argument() {
    with_each_series(|suite, version| {
        let program = version.program("hello").display().to_string();
        let script = "echo $PMIX_NAMESPACE; cat /proc/$PPID/cmdline; $0";
        let output = suite.mpirun(["-n", "1", "sh", "-c", script, &program]).output();
        let out = output.code(0).out();
        let secret = out.split(['-', '\n']).nth(1).expect("a namespace");
        assert_eq!((secret.len(), out.matches(secret).count()), (32, 1), "{output}");
        let log = std::fs::read_to_string(suite.path("mpd.log")).unwrap_or_default();
        assert!(!log.contains(secret), "{log}");
    });
}
