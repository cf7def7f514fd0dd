//! Daemons that are restarted while jobs start and meet.

use crate::across::roomy;
use crate::run::sample;

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
    let listed = || ring.listed(2).into_iter().map(|hosted| hosted.part.job).collect::<Vec<_>>();
    crate::run::wait_until("it is listed on both hosts", || listed().len() == 2);
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
