//! Daemons that are restarted while jobs start and meet.

use std::time::Duration;

use crate::across::roomy;
use crate::members::Members;
use crate::open_mpi::versions;
use crate::run::{sample, wait_until};

#[test]
fn jobs_that_failed_before_a_restart_of_their_daemon_do_not_bar_the_jobs_of_their_names() {
    let ring = roomy().with(2);
    for round in 0..sample(3, 300) {
        for _ in 0..2 {
            let missing = ring.mpirun(1, &["-n", "2", "-ppn", "1", "/nonexistent"]);
            missing.output().code(127);
        }
        ring.kill(1);
        ring.start_again(1);
        ring.agree();
        for _ in 0..2 {
            let job = ring.mpirun(1, &["-n", "2", "-ppn", "1", "echo", "hi"]);
            let output = job.output();
            assert!(output.exit_code() == Some(0), "round {round}: {output}");
            output.quiet().prints("hi\nhi\n");
        }
    }
    ring.only_daemons_are_left();
}

#[test]
fn the_records_of_a_job_name_the_run_of_its_daemon_and_listings_do_not() {
    let ring = roomy().with(2);
    let job = ring.mpirun(1, &["-n", "2", "-ppn", "1", "sleep", "1000"]).start();
    let listed = || {
        let parts = ring.listed(2).into_iter().map(|hosted| hosted.part);
        parts.filter(|part| !part.runs.is_empty()).map(|part| part.job).collect::<Vec<_>>()
    };
    wait_until("it is listed on both hosts", || listed().len() == 2);
    let ids = listed();
    assert_eq!(ids[0], ids[1]);
    let instance = ring.record(2, "d1").expect("d1").instance;
    assert_eq!(ids[0].instance(), Some(instance));
    for index in [1, 2] {
        let record = ring.rundir(index).join("jobs").join(format!("1@d1#{instance}"));
        assert!(record.exists(), "{}", record.display());
    }
    for arguments in [&[][..], &["--tree"], &["--json"]] {
        let text = ring.tool(2, "mpdlistjobs", arguments).output().code(0).out();
        assert!(text.contains("1@d1") && !text.contains('#'), "{text}");
    }
    ring.tool(2, "mpdkilljob", &["1@d1"]).output().code(0);
    job.wait().failed().says(&["killed on request"]);
    ring.only_daemons_are_left();
}

#[test]
fn jobs_of_open_mpi_connect_while_a_daemon_is_killed_and_restarted() {
    let ring = Members::of(3);
    let versions = versions();
    if versions.is_empty() {
        return;
    }
    for round in 0..sample(3, 200) {
        let version = &versions[round % versions.len()];
        let meet = |index: usize, how: &str| {
            let run = ring.mpirun(index, &["-rr", "-n", "3"]).arg(version.program("meet"));
            // The hosts are one machine, so shared memory would mix them up.
            run.args([how, "ocean"]).env("OMPI_MCA_btl", "tcp,self").deadline(120).start()
        };
        let jobs = [meet(1, "publish"), meet(3, "lookup")];
        let run_on_all_hosts = || {
            let parts = ring.listed(2);
            parts.iter().map(|hosted| hosted.part.runs.len()).sum::<usize>() == 6
        };
        wait_until("both jobs run on all hosts", run_on_all_hosts);
        // At different moments of their meeting.
        std::thread::sleep(Duration::from_millis((round as u64 * 97) % 1500));
        let index = round % 3 + 1;
        ring.kill(index);
        ring.start_again(index);
        for job in jobs {
            let output = job.wait();
            assert!(output.exit_code() == Some(0), "round {round}, d{index}: {output}");
            assert_eq!(output.out(), "meet: 6 together\n", "round {round}, d{index}: {output}");
        }
        ring.agree();
    }
    ring.only_daemons_are_left();
}
