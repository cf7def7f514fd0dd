//! The table "Exit code of mpirun" of DESIGN.md, row by row.

use nix::sys::signal::Signal;

use crate::process::{self, Process};
use crate::run::{sample, wait_until};
use crate::suite::Suite;
use mpd_tests::surroundings::{setting, skip};

/// Signals whose default action ends a process, and signals without effect. The other signals stop a process.
const DEADLY: [i32; 23] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31];
const HARMLESS: [i32; 4] = [17, 18, 23, 28];

#[test]
fn mpirun_exits_with_any_of_the_256_codes_of_a_rank() {
    let suite = Suite::new();
    suite.start_daemon();
    for code in 0..=255 {
        let rank = (code % 3).to_string();
        let output = suite.ranks(3, "t-exit-with", &[&rank, &code.to_string()]).output();
        output.code(code);
        if code == 0 {
            output.quiet();
        }
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_fatal_signal_of_a_rank_is_named_and_gives_128_plus_its_number() {
    let suite = Suite::new();
    suite.start_daemon();
    for number in DEADLY {
        let (rank, how) = ((number % 2).to_string(), format!("sig{number}"));
        let output = suite.ranks(2, "t-exit-with", &[&rank, &how]).output();
        output
            .code(128 + number)
            .says(&[&format!("rank {rank}"), &format!("killed by signal {number}")]);
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_real_time_signal_of_a_rank_is_named_and_gives_128_plus_its_number() {
    let suite = Suite::new();
    let check = |number: i32| {
        let how = format!("sig{number}");
        let output = suite.ranks(2, "t-exit-with", &["1", &how, "sleep"]).output();
        output
            .code(128 + number)
            .says(&["rank 1", &format!("killed by signal {number} (real-time signal)")]);
    };
    check(34);
    suite.start_daemon();
    // The C library keeps the first two for itself, and the kernel does not.
    (32..=64).for_each(check);
    suite.only_the_daemon_is_left();
}

#[test]
fn orphans_that_a_real_time_signal_ended_are_reaped_and_the_job_ends() {
    let suite = Suite::new();
    // The last loop ends when the manager has reaped the orphan.
    let script = "for n in 34 50 64; do \
                  (sh -c \"echo \\$\\$ > $n; kill -$n \\$\\$\" &); \
                  until [ -s $n ]; do :; done; \
                  while [ -e /proc/$(cat $n) ]; do :; done; \
                  done";
    suite.start_daemon();
    for round in 0..sample(5, 50) {
        let directory = suite.new_directory(&format!("d{round}"));
        suite.mpirun(["-wdir", &directory, "sh", "-c", script]).output().code(0).quiet();
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_manager_that_a_real_time_signal_ended_is_reaped_and_the_next_job_runs() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    for number in [34, 64] {
        let job = suite.mpirun(["sh", "-c", "echo up; exec sleep 60"]).start();
        job.shows("up\n");
        let manager = suite.manager().pid.to_string();
        suite.bash(&format!("kill -{number} {manager}")).output().code(0);
        job.wait().code(125);
        suite.mpirun(["true"]).output().code(0).quiet();
        wait_until("the daemon has reaped it", || daemon.zombies() == 0);
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_signal_without_a_fatal_default_action_leaves_exit_code_0() {
    let suite = Suite::new();
    suite.start_daemon();
    for number in HARMLESS {
        let how = format!("sig{number}");
        suite.ranks(2, "t-exit-with", &["1", &how]).output().code(0).quiet();
    }
}

#[test]
fn a_rank_that_stops_itself_continues_after_sigcont() {
    let suite = Suite::new();
    let job = suite.ranks(2, "t-exit-with", &["1", "sig19"]).start();
    let stopped = || suite.running("t-exit-with").into_iter().find(Process::is_stopped);
    wait_until("rank 1 has stopped", || stopped().is_some());
    process::send(stopped().expect("it is stopped").pid, Signal::SIGCONT);
    job.wait().code(0).quiet();
}

#[test]
fn sigsegv_in_one_of_eight_names_the_rank_and_ends_the_others() {
    let suite = Suite::new();
    let host = suite.command("hostname").output().out();
    for _ in 0..sample(5, 200) {
        let output = suite.ranks(8, "t-exit-with", &["2", "sig11", "sleep"]).output();
        output.code(139).says(&["rank 2", host.trim(), "killed by signal 11", "Segmentation"]);
        output.brief();
        suite.gone(&[]);
    }
}

#[test]
fn a_pmi_abort_gives_its_code_and_ends_the_other_ranks() {
    let suite = Suite::new();
    suite.start_daemon();
    let table =
        [("7", 7), ("1", 1), ("0", 1), ("255", 255), ("256", 1), ("-1", 255), ("1000", 232)];
    for (asked, expected) in table {
        let output = suite.ranks(3, "t-pmi", &["abort", "1", asked]).output();
        output.code(expected).says(&["rank 1", "abort"]);
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn exit_0_after_init_without_finalize_gives_1_and_ends_the_job() {
    let suite = Suite::new();
    suite
        .ranks(3, "t-pmi", &["no-finalize", "2", "0"])
        .output()
        .code(1)
        .says(&["rank 2", "inalize"]);
}

#[test]
fn an_exit_before_init_gives_1_while_others_wait_in_a_fence() {
    let suite = Suite::new();
    suite.ranks(3, "t-pmi", &["leave", "1", "0"]).output().code(1).says(&["rank 1"]);
}

#[test]
fn an_exit_code_after_finalize_is_the_code_of_mpirun() {
    let suite = Suite::new();
    suite.ranks(3, "t-pmi", &["finalize-then", "1", "6"]).output().code(6).says(&["rank 1"]);
}

#[test]
fn a_job_beyond_its_time_limit_gives_124() {
    let suite = Suite::new();
    let output = suite.mpirun(["-timeout", "1", "-n", "2", "sleep", "60"]).output();
    output.code(124).brief();
    suite.gone(&[]);
}

#[test]
fn a_time_limit_ends_a_job_whose_output_is_not_read() {
    let suite = Suite::new();
    // The second rank ends by itself: only its output waits, of which the pipe holds at most 1 MiB.
    for script in ["exec yes", "head -c 1100000 /dev/zero"] {
        let limited = suite.mpirun(["-timeout", "1", "sh", "-c", script]).start_unread();
        let output = limited.wait();
        output.code(124).brief().says(&["longer than its limit of 1 s"]);
        suite.gone(&[]);
    }
}

#[test]
fn a_closed_stdout_gives_141_at_once_without_a_message() {
    let suite = Suite::new();
    for _ in 0..sample(10, 100) {
        let script = "$MPIRUN -np 2 yes | head -1; echo ${PIPESTATUS[*]}";
        suite.bash(script).output().code(0).quiet().prints("y\n141 0\n");
        suite.gone(&[]);
    }
}

#[test]
fn a_killed_manager_gives_125_with_a_message() {
    let suite = Suite::new();
    suite.start_daemon();
    let job = suite.mpirun(["-n", "2", "sleep", "60"]).start();
    wait_until("two ranks", || suite.running("sleep").len() == 2);
    process::send(suite.manager().pid, Signal::SIGKILL);
    job.wait().code(125).says(&["manager"]);
    suite.only_the_daemon_is_left();
}

#[test]
fn with_on_failure_continue_the_other_ranks_finish() {
    let suite = Suite::new();
    let script = "[ $PMI_RANK = 1 ] && exit 5; sleep 0.3; echo done $PMI_RANK";
    let output = suite.mpirun(["-on-failure=continue", "-n", "3", "sh", "-c", script]).output();
    output.code(5);
    assert_eq!(output.sorted_lines(), ["done 0", "done 2"]);
}

#[test]
fn without_auto_cleanup_a_failed_rank_gives_its_code_as_under_hydra() {
    const HYDRAS: [&str; 2] = ["MPD_TEST_MPICH4_MPIEXEC", "MPD_TEST_MPICH5_MPIEXEC"];
    let suite = Suite::new();
    let helper = suite.program("t-exit-with");
    for failed in ["0", "1"] {
        let arguments = ["-disable-auto-cleanup", "-n", "2", &helper, failed, "8"];
        suite.mpirun(arguments).output().code(8).quiet();
        for hydra in HYDRAS {
            let Some(hydra) = setting(hydra) else {
                skip(&format!("nothing in {hydra}"));
                continue;
            };
            // On a busy machine Hydra itself sometimes dies of SIGPIPE.
            let run = |_| suite.as_self(&hydra).args(arguments).output();
            let output = (0..5).map(run).find(|output| output.status.code().is_some());
            output.expect("a run of Hydra that exits").code(8);
        }
    }
    suite.gone(&[]);
}
