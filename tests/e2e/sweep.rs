//! A sample of `scripts/sweep`: each system call of `mpirun`, daemon and manager may fail once. Then the job is right, or
//! fails with a line. It never hangs, leaves nothing, and never ends with 0 without its output.

use std::path::Path;

use mpd_tests::surroundings::setting;

use crate::run::sample;
use crate::suite::{Suite, skip, tell};

/// Rounds over all calls, and over those that send.
const ROUNDS: &str = "48";
const FULL_ROUNDS: &str = "1000";
const SENDS: &str = "16";

fn sweep(arguments: &[&str]) {
    let Some(strace) = setting("MPD_TEST_STRACE") else { return skip("no strace") };
    let suite = Suite::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/sweep");
    let mpirun = suite.program("mpirun");
    let programs = Path::new(&mpirun).parent().expect("a directory");
    let output = suite
        .command(script)
        .arg("--programs")
        .arg(programs)
        .args(arguments)
        .env("MPD_TEST_STRACE", strace)
        .deadline(300)
        .output();
    tell(&output.out());
    output.code(0);
}

#[test]
fn a_system_call_that_fails_once_hangs_no_job_leaves_nothing_and_hides_no_failure() {
    sweep(&["--sample", sample(ROUNDS, FULL_ROUNDS)]);
}

#[test]
fn a_send_that_fails_for_lack_of_memory_does_not_change_a_job() {
    sweep(&["--call", "sendto", "--call", "sendmsg", "--sample", SENDS]);
}
