//! Real MPI libraries, if scripts/prepare-test-env could fetch them. For a missing library the test prints
//! a line.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::run::{Run, sample, wait_until};
use crate::suite::Suite;
use mpd_tests::surroundings::{setting, skip};

/// A library's programs, all compiled from tests/mpi.
pub(crate) struct Library {
    pub(crate) name: &'static str,
    directory: String,
    search_path: Option<String>,
}

/// The name, the variable with the directory of the programs, and the variable with that of the library.
const LIBRARIES: [(&str, &str, &str); 3] = [
    ("Debian's MPICH 4", "MPD_TEST_MPICH4_DIR", ""),
    ("MPICH 5", "MPD_TEST_MPICH5_DIR", "MPD_TEST_MPICH5_LIB"),
    ("Intel MPI", "MPD_TEST_IMPI_DIR", "MPD_TEST_IMPI_LIB"),
];

impl Library {
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        Path::new(&self.directory).join(name)
    }

    /// The library path that its programs need, if they need one.
    pub(crate) fn search_path(&self) -> Option<&str> {
        self.search_path.as_deref()
    }

    /// Adds the environment in which its programs find the library.
    pub(crate) fn dress(&self, run: Run) -> Run {
        match &self.search_path {
            Some(path) => run.env("LD_LIBRARY_PATH", path),
            None => run,
        }
    }

    /// The same, with the settings that are necessary for ports, through which ranks reach separately started
    /// ranks and spawned ranks.
    pub(crate) fn dress_for_ports(&self, run: Run) -> Run {
        let run = self.dress(run).env("MPIR_CVAR_CH4_NETMOD", "ofi").env("FI_PROVIDER", "tcp");
        run.env("I_MPI_SPAWN", "on").env("I_MPI_FABRICS", "ofi")
    }

    fn run(&self, suite: &Suite, ranks: usize, program: &str, arguments: &[&str]) -> Run {
        let run = suite.mpirun(["-n", &ranks.to_string()]).arg(self.program(program));
        self.dress(run.args(arguments).deadline(120))
    }
}

/// The installed libraries.
pub(crate) fn libraries() -> Vec<Library> {
    let mut libraries = Vec::new();
    for (name, directory, search_path) in LIBRARIES {
        match setting(directory) {
            Some(directory) => {
                libraries.push(Library { name, directory, search_path: setting(search_path) });
            }
            None => skip(&format!("{name} is not there")),
        }
    }
    libraries
}

/// The installed libraries that can open ports: Debian's build cannot, under any launcher.
pub(crate) fn libraries_with_ports() -> Vec<Library> {
    libraries().into_iter().filter(|library| library.name != LIBRARIES[0].0).collect()
}

/// Runs a check with each installed library, through its own daemon.
fn with_each(check: impl Fn(&Suite, &Library)) {
    for library in libraries() {
        let suite = Suite::new();
        suite.start_daemon();
        check(&suite, &library);
        suite.only_the_daemon_is_left();
    }
}

#[test]
fn every_mpi_rank_knows_its_rank_size_and_node() {
    with_each(|suite, library| {
        for ranks in [1, 4] {
            let output = library.run(suite, ranks, "hello", &[]).output();
            output.code(0);
            let lines = output.sorted_lines();
            assert_eq!(lines.len(), ranks, "{}: {output}", library.name);
            for (rank, line) in lines.iter().enumerate() {
                let start = format!("rank {rank} of {ranks} appnum 0 universe ");
                assert!(line.starts_with(&start), "{output}");
                assert!(line.ends_with(&format!(" node {ranks}")), "{output}");
            }
        }
    });
}

#[test]
fn many_mpi_ranks_agree_on_a_sum() {
    let ranks = sample(16, 64);
    with_each(|suite, library| {
        let output = library.run(suite, ranks, "allreduce", &[]).deadline(300).output();
        output.code(0);
        assert!(
            output.out().contains(&format!("allreduce ok {ranks}\n")),
            "{}: {output}",
            library.name
        );
    });
}

#[test]
fn mpi_abort_gives_its_exit_code() {
    with_each(|suite, library| {
        library.run(suite, 3, "abort", &["1", "7"]).output().code(7).says(&["rank 1"]);
    });
}

#[test]
fn without_auto_cleanup_an_aborted_communicator_gives_its_code() {
    let Some(mpiexec) = setting("MPD_TEST_MPICH5_MPIEXEC") else {
        return skip("MPICH 5 is not there");
    };
    let suite = Suite::new();
    suite.start_daemon();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("mpi/half_abort.c");
    let program = suite.path("work/half_abort").display().to_string();
    let compiler = Path::new(&mpiexec).with_file_name("mpicc");
    suite.as_self(compiler).args(["-o", &program]).arg(source).output().code(0).quiet();
    let run = suite.mpirun(["-disable-auto-cleanup", "-n", "4", &program, "8"]);
    let output = run.deadline(120).output();
    let out = output.code(8).out();
    let (shared, other): (Vec<&str>, Vec<&str>) =
        out.lines().partition(|line| line.starts_with("/dev/shm/"));
    assert_eq!(other, ["rank 2 got 4"]);
    assert!(!shared.is_empty(), "MPICH uses shared memory");
    suite.only_the_daemon_is_left();
    let left: Vec<&&str> = shared.iter().filter(|file| Path::new(file).exists()).collect();
    assert!(left.is_empty(), "left: {left:?}");
}

#[test]
fn an_mpi_rank_that_exits_without_finalize_ends_the_job() {
    with_each(|suite, library| {
        library.run(suite, 3, "nofinalize", &["2", "0"]).output().code(1).says(&["rank 2"]);
        library.run(suite, 3, "nofinalize", &["0", "5"]).output().code(5).says(&["rank 0"]);
        let killed = library.run(suite, 3, "nofinalize", &["1", "-9"]).output();
        killed.code(137).says(&["rank 1", "signal 9"]);
    });
}

#[test]
fn ranks_that_exit_right_after_mpi_init_leave_no_shared_memory() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root may mount a /dev/shm of its own");
    }
    for library in libraries() {
        let suite = Suite::new();
        let (mpirun, program) = (suite.program("mpirun"), library.program("nofinalize"));
        let runs = sample(4, 60);
        // The only rank exits before the manager looks at its memory for the first time.
        let script = format!(
            "mount -t tmpfs none /dev/shm || exit 3
             for run in $(seq {runs}); do
                 {mpirun} -n 1 {program} 0 0; [ $? = 1 ] || exit 4
                 {mpirun} -n 3 {program} 2 5; [ $? = 5 ] || exit 5
             done
             ls /dev/shm",
            program = program.display()
        );
        let run = suite.command("unshare").args(["--mount", "sh", "-c", &script]);
        library.dress(run.deadline(300)).output().code(0).prints("");
        suite.gone(&[]);
    }
}

#[test]
fn mpi_publishes_a_name_once_and_does_not_find_it_after_unpublish() {
    with_each(|suite, library| {
        let output = library.run(suite, 2, "names", &[]).output();
        output.code(0).prints(
            "names: lookup before: MPI_ERR_NAME\n\
             names: publish: ok\n\
             names: publish again: MPI_ERR_NAME\n\
             names: lookup: ok\n\
             names: found what was published\n\
             names: unpublish: ok\n\
             names: unpublish again: MPI_ERR_SERVICE\n\
             names: lookup after: MPI_ERR_NAME\n",
        );
    });
}

#[test]
fn an_exit_code_after_mpi_finalize_is_the_code_of_mpirun() {
    with_each(|suite, library| {
        library.run(suite, 3, "exit_after", &["1", "9"]).output().code(9).says(&["rank 1"]);
        library.run(suite, 3, "exit_after", &["1", "0"]).output().code(0);
    });
}

#[test]
fn mpi_ranks_see_the_universe_size_of_usize() {
    with_each(|suite, library| {
        for (said, universe) in [("16", "16"), ("INFINITE", "-1")] {
            let run = suite.mpirun(["-usize", said, "-n", "2"]).arg(library.program("hello"));
            let output = library.dress(run.deadline(120)).output();
            let lines = output.code(0).sorted_lines();
            assert_eq!(lines.len(), 2, "{}: {output}", library.name);
            for line in lines {
                assert!(line.contains(&format!(" universe {universe} node 2")), "{said}: {output}");
            }
        }
    });
}

#[test]
fn a_job_works_after_each_of_twenty_killed_jobs() {
    with_each(|suite, library| {
        for _ in 0..sample(2, 20) {
            let mut killed = library.run(suite, 4, "abort", &["99", "0"]).start();
            // No rank aborts, so the ranks may end before the test sees them.
            wait_until("four ranks", || killed.has_ended() || suite.running("abort").len() == 4);
            killed.send(Signal::SIGKILL);
            drop(killed.wait());
            let output = library.run(suite, 4, "cpi", &[]).output();
            output.code(0);
            assert!(output.out().contains("3.14159"), "{}: {output}", library.name);
        }
    });
}

#[test]
fn mpi4py_runs_on_three_ranks() {
    for (library, python) in [("MPICH", "MPD_TEST_PYTHON"), ("Intel", "MPD_TEST_IMPI_PYTHON")] {
        let (Some(python), Some(script)) = (setting(python), setting("MPD_TEST_HELLO_PY")) else {
            skip(&format!("mpi4py on {library} is not there"));
            continue;
        };
        let suite = Suite::new();
        let output = suite.mpirun(["-n", "3", &python, &script]).deadline(120).output();
        output.code(0);
        for (rank, line) in output.sorted_lines().iter().enumerate() {
            let start = format!("rank {rank} of 3 sum 3 library {library}");
            assert!(line.starts_with(&start), "{output}");
        }
        assert_eq!(output.out().lines().count(), 3, "{output}");
        suite.no_job_is_left();
    }
}
