//! Jobs where a filter of system calls (seccomp) refuses some, as those of containers do, and other poor surroundings.
//! strace stands in for the filter.

use std::fs;

use mpd_tests::surroundings::{setting, skip};

use crate::suite::Suite;

/// Calls that MPD can do without. Some filters answer EPERM, others ENOSYS.
const REFUSED: [&str; 5] = ["waitid", "prlimit64", "memfd_create", "pidfd_open", "close_range"];

#[test]
fn a_job_runs_and_says_nothing_where_a_filter_refuses_a_system_call() {
    let Some(strace) = setting("MPD_TEST_STRACE") else { return skip("no strace") };
    let suite = Suite::new();
    let mpirun = suite.program("mpirun");
    for call in REFUSED {
        for error in ["EPERM", "ENOSYS"] {
            let filter = format!("inject={call}:error={error}");
            let job = ["-f", "-o", "trace", "-e", &format!("trace={call}"), "-e", &filter, &mpirun];
            // An orphan ends, too. Helpers look at ranks that live for some time.
            let script = "(true &); sleep 0.5; echo x";
            let job = job.into_iter().chain(["-n", "3", "sh", "-c", script]);
            let output = suite.command(&strace).args(job).deadline(30).output();
            output.code(0).quiet().prints("x\nx\nx\n");
            let trace = fs::read_to_string(suite.path("work/trace")).expect("a trace");
            assert!(trace.contains("(INJECTED)"), "{call} is not made: {trace}");
            suite.gone(&[]);
        }
    }
}

#[test]
fn where_a_filter_refuses_to_block_signals_a_job_ends_with_a_line() {
    let Some(strace) = setting("MPD_TEST_STRACE") else { return skip("no strace") };
    let suite = Suite::new();
    for error in ["EPERM", "ENOSYS"] {
        let filter = format!("inject=rt_sigprocmask:error={error}");
        let traced = ["-f", "-o", "trace", "-e", "trace=rt_sigprocmask", "-e", &filter];
        let job = suite.command(&strace).args(traced).arg(suite.program("mpirun"));
        let output = job.args(["-n", "2", "echo", "x"]).deadline(30).output();
        output.code(125).brief().says(&["cannot catch signals"]);
        suite.gone(&[]);
    }
}

#[test]
fn a_job_with_a_directory_of_its_own_starts_in_a_removed_directory() {
    let suite = Suite::new();
    let script = "mkdir gone; cd gone; rmdir ../gone; ";
    let elsewhere = format!("{script} exec $MPIRUN -wdir / -n 2 pwd");
    suite.bash(&elsewhere).output().code(0).quiet().prints("/\n/\n");
    let here = format!("{script} exec $MPIRUN -n 2 pwd");
    suite.bash(&here).output().code(125).says(&["/gone", "No such file or directory"]).brief();
}
