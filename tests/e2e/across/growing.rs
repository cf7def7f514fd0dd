//! Jobs that get further processes by `mpdgrow`, and whose ranks leave.

use crate::across::roomy;
use crate::run::wait_until;

#[test]
fn a_job_grows_by_processes_on_all_hosts_and_lasts_until_they_have_ended() {
    let ring = roomy().with(3);
    let directory = ring.suite.new_directory("grown");
    let count = || std::fs::read_dir(&directory).expect("a directory").count();
    let stop = ring.suite.path("stop").display().to_string();
    let work = format!(
        "touch {directory}/$$; until [ -e {stop} ]; do sleep 0.01; done; echo $PMI_RANK $PMI_SIZE"
    );
    let job = ring.mpirun(1, &["-a", "ocean", "-n", "2", "sh", "-c", &work]).deadline(60).start();
    wait_until("two ranks run", || count() == 2);
    let grow = |words: &[&str]| {
        let run = ring.suite.command(ring.suite.program("mpdgrow"));
        run.args(words).env("MPD_RUNDIR", ring.rundir(2)).output()
    };
    grow(&["ocean", "+4"]).code(0).quiet();
    wait_until("six processes run", || count() == 6);
    grow(&["ocean", "0"]).code(2).says(&["it must be +1"]);
    grow(&["lake", "+1"]).code(1).says(&["lake"]);
    std::fs::write(&stop, "").expect("a file");
    let output = job.wait();
    let lines = output.code(0).quiet().sorted_lines();
    assert_eq!(lines, ["0 2", "0 4", "1 2", "1 4", "2 4", "3 4"], "{output}");
    ring.only_daemons_are_left();
}

#[test]
fn in_an_elastic_job_ranks_leave_without_finalize_and_the_others_pass_their_fences() {
    let ring = roomy().with(2);
    // Rank 1 exits with 0 and without finalize, the others enter a fence.
    let leaving = ["no-finalize", "1", "0"];
    let output = ring.ranks(4, "t-pmi", &leaving).output();
    assert_ne!(output.exit_code(), Some(0), "{output}");
    let program = ring.suite.program("t-pmi");
    let words = [&["-elastic", "-n", "4", &*program][..], &leaving].concat();
    ring.mpirun(1, &words).output().code(0).quiet();
    ring.only_daemons_are_left();
}
