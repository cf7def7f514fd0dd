//! Programs of two `mpirun`s that connect by PMIx: real Open MPI, and a bare client.

use mpd_tests::surroundings::{setting, skip};
use nix::sys::signal::Signal;

use crate::members::Members;
use crate::open_mpi::{Version, sampled, versions};
use crate::run::Running;
use crate::suite::Suite;

/// A job of a bare client on three hosts. It publishes the first name and connects with the job of the other name.
struct Clients<'a> {
    ring: &'a Members,
    directory: String,
}

impl Clients<'_> {
    /// Begins at the host with this index.
    fn start(&self, index: usize, ranks: usize, names_and_end: [&str; 3]) -> Running {
        self.start_with(index, &[], ranks, names_and_end)
    }

    fn start_with(
        &self,
        index: usize,
        options: &[&str],
        ranks: usize,
        [name, other, end]: [&str; 3],
    ) -> Running {
        let program = format!("{}/pmix_client", self.directory);
        let run = self.ring.mpirun(index, options);
        let run = run.args(["-rr", "-n", &ranks.to_string(), &program, "meet"]);
        run.args([name, other, end]).deadline(120).start()
    }
}

/// Runs a check with the bare client in a ring of three. Nothing may be left.
fn with_clients(check: impl Fn(&Clients<'_>)) {
    let Some(directory) = setting("MPD_TEST_PMIX_DIR") else {
        return skip("no client of PMIx; run scripts/prepare-test-env");
    };
    let ring = Members::of(3);
    check(&Clients { ring: &ring, directory });
    ring.only_daemons_are_left();
}

#[test]
fn two_mpiruns_of_open_mpi_meet_by_a_published_name() {
    for version in versions() {
        let suite = Suite::new();
        suite.start_daemon();
        let meet = |how: &str| {
            let run = suite.mpirun(["-n", "2"]).arg(version.program("meet")).args([how, "ocean"]);
            run.deadline(120).start()
        };
        for job in [meet("publish"), meet("lookup")] {
            let output = job.wait();
            assert_eq!(output.code(0).out(), "meet: 4 together\n", "{output}");
        }
        suite.only_the_daemon_is_left();
    }
}

#[test]
fn two_mpiruns_of_open_mpi_meet_between_hosts() {
    let ring = Members::of(3);
    for version in sampled() {
        let meet = |version: &Version, index: usize, how: &str| {
            let run = ring.mpirun(index, &["-rr", "-n", "4"]).arg(version.program("meet"));
            // The hosts are one machine, so shared memory would mix them up.
            run.args([how, "ocean"]).env("OMPI_MCA_btl", "tcp,self").deadline(120).start()
        };
        for job in [meet(&version, 1, "publish"), meet(&version, 3, "lookup")] {
            let output = job.wait();
            assert_eq!(output.code(0).out(), "meet: 8 together\n", "{output}");
        }
        ring.only_daemons_are_left();
    }
}

#[test]
fn two_mpiruns_of_open_mpi_join_over_a_socket() {
    for version in sampled() {
        let suite = Suite::new();
        suite.start_daemon();
        let file = suite.path("port").display().to_string();
        let join = |how: &str| {
            let run = suite.mpirun(["-n", "1"]).arg(version.program("join")).args([how, &file]);
            run.deadline(120).start()
        };
        let (listens, connects) = (join("listen"), join("connect"));
        listens.wait().code(0).prints("join: 42 of the other\n");
        connects.wait().code(0).prints("join: 17 of the other\n");
        suite.only_the_daemon_is_left();
    }
}

#[test]
fn clients_of_two_jobs_get_the_values_of_each_other_and_disconnect() {
    with_clients(|clients| {
        // The first job is on all hosts, the second one on two.
        let one = clients.start(1, 4, ["one", "two", "part"]);
        let two = clients.start(2, 2, ["two", "one", "part"]);
        one.wait().code(0).quiet().prints(&"met 2\n".repeat(4));
        two.wait().code(0).quiet().prints(&"met 4\n".repeat(2));
    });
}

#[test]
fn the_abort_of_a_connected_job_is_an_event_for_the_other_which_continues() {
    with_clients(|clients| {
        let stays = clients.start(1, 3, ["one", "two", "outlive"]);
        let aborts = clients.start(2, 2, ["two", "one", "abort"]);
        aborts.wait().code(7).says(&["rank 1", "code 7"]);
        let output = stays.wait();
        let lines = output.code(0).quiet().sorted_lines();
        assert_eq!(lines[..3], ["met 2", "met 2", "met 2"], "{output}");
        assert_eq!(lines[3..], ["the other job has ended"; 3], "{output}");
    });
}

#[test]
fn with_abort_scope_connected_a_job_ends_with_a_connected_job_that_fails() {
    with_clients(|clients| {
        let scope = ["-abort-scope", "connected"];
        let ends = clients.start_with(1, &scope, 3, ["one", "two", "stay"]);
        let aborts = clients.start(2, 2, ["two", "one", "abort"]);
        aborts.wait().code(7);
        let output = ends.wait();
        output
            .code(7)
            .says(&["the connected job", "@d2 failed: rank 1: aborted the job with code 7"]);
        // The option of the other job has no effect.
        let stays = clients.start(1, 2, ["one", "two", "outlive"]);
        let aborts = clients.start_with(2, &scope, 2, ["two", "one", "abort"]);
        aborts.wait().code(7);
        stays.wait().code(0).quiet();
    });
}

#[test]
fn a_group_of_the_processes_of_two_jobs_is_refused_at_once() {
    with_clients(|clients| {
        let one = clients.start(1, 2, ["one", "two", "group"]);
        let two = clients.start(2, 2, ["two", "one", "group"]);
        for job in [one, two] {
            let output = job.wait();
            let lines = output.code(0).quiet().sorted_lines();
            assert_eq!(lines, ["group: NOT-SUPPORTED", "group: NOT-SUPPORTED", "met 2", "met 2"]);
        }
    });
}

#[test]
fn an_interrupt_of_a_connected_job_does_not_end_the_other() {
    with_clients(|clients| {
        let stays = clients.start(1, 2, ["one", "two", "outlive"]);
        let ends = clients.start(3, 2, ["two", "one", "stay"]);
        ends.shows("met 2\nmet 2\n");
        ends.send(Signal::SIGINT);
        ends.wait().code(130);
        let output = stays.wait();
        assert_eq!(output.code(0).quiet().sorted_lines()[2..], ["the other job has ended"; 2]);
    });
}
