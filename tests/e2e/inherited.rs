//! Settings that ranks inherit from mpirun's caller whatever their daemon inherited, and settings that daemon and
//! manager do not inherit.

use std::os::fd::AsFd;
use std::path::PathBuf;

use mpd_io::process::spawn::{Extra, Spawn};
use nix::sys::wait::{WaitStatus, waitpid};

use crate::run::Output;
use crate::suite::{Suite, is_root, skip};

/// The id of an ordinary user.
const ORDINARY_USER: u32 = 12345;

/// A suite of an ordinary user, if the tests run as root.
fn as_ordinary_user() -> Suite {
    if is_root() { Suite::as_user(ORDINARY_USER) } else { Suite::new() }
}

/// Without a daemon first, and then with one.
fn with_and_without_daemon(suite: &Suite, check: impl Fn(&Suite)) {
    check(suite);
    suite.start_daemon();
    check(suite);
}

fn said(output: &Output) -> String {
    output.code(0);
    output.out().trim_end().to_owned()
}

#[test]
fn the_callers_environment_reaches_ranks_byte_for_byte() {
    let suite = Suite::new();
    with_and_without_daemon(&suite, |suite| {
        let around = suite.bash("env -0").output();
        let entries = around.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        let mut entries: Vec<Vec<u8>> = entries.map(<[u8]>::to_vec).collect();
        let odd = [&b"=x"[..], b"NOEQ", b"A=1", b"A=2", b"MPIEXEC_MINE=3"];
        entries.extend(odd.map(<[u8]>::to_vec));
        let mpirun = suite.program("mpirun");
        let arguments = ["mpirun", "-n", "1", "cat", "/proc/self/environ"];
        let mut spawn = Spawn::new(mpirun.as_bytes(), arguments, entries).expect("a spawn");
        let work = suite.path("work").display().to_string();
        spawn.directory(work.as_bytes()).expect("a directory");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        let descriptors = [null.as_fd(), writer.as_fd(), writer.as_fd()];
        let pid = spawn.start(&descriptors, Extra::default(), None).expect("mpirun");
        drop(writer);
        let mut found = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut found).expect("a pipe");
        assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Exited(_, 0))));
        let found: Vec<&[u8]> = found.split(|byte| *byte == 0).collect();
        assert_eq!(found.windows(odd.len()).filter(|window| *window == odd).count(), 1);
    });
}

#[test]
fn a_umask_without_owner_permissions_reaches_ranks_but_does_not_affect_daemons() {
    for mask in ["0277", "0777"] {
        let suite = as_ordinary_user();
        let rundir: PathBuf = suite.path("home/run");
        let key = suite.path("home/keys/key").display().to_string();
        let log = suite.path("home/log").display().to_string();
        let bash = |text: &str| {
            let run = suite.bash(&format!("umask {mask}; {text}"));
            run.env("MPD_RUNDIR", &rundir).env("MPD_KEY_FILE", &key).env("LOG", &log)
        };
        let job = bash("$MPIRUN -n 1 sh -c umask");
        assert_eq!(said(&job.output()), mask);
        bash("$T/mpd --daemon --log-file $LOG").output().code(0);
        let status = bash("$T/mpd --status").output();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("a status");
        let pid = status["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a pid");
        suite.adopt(pid, &rundir, log.as_ref());
        let job = bash("$MPIRUN -n 1 sh -c umask");
        assert_eq!(said(&job.output()), mask);
        let modes = bash("stat -c %a $MPD_RUNDIR $MPD_RUNDIR/mpd.lock $MPD_KEY_FILE").output();
        assert_eq!(said(&modes), "700\n600\n600");
    }
}

#[test]
fn ranks_run_with_the_niceness_of_mpirun() {
    let suite = Suite::new();
    with_and_without_daemon(&suite, |suite| {
        let own = said(&suite.bash("nice").output()).parse::<i32>().expect("a number");
        let output = suite.bash("nice -n 5 $MPIRUN -n 2 nice").output();
        let nicer = (own + 5).min(19).to_string();
        assert_eq!(said(&output), format!("{nicer}\n{nicer}"));
        let output = suite.bash("$MPIRUN -n 1 nice").output();
        assert_eq!(said(output.quiet()), own.to_string());
    });
}

#[test]
fn ranks_of_root_share_the_cpus_as_if_each_had_a_session() {
    let Ok(own) = std::fs::read_to_string("/proc/self/autogroup") else {
        return skip("the kernel has no autogroups");
    };
    if !is_root() {
        return skip("only root may give a session more weight");
    }
    let suite = Suite::new();
    with_and_without_daemon(&suite, |suite| {
        // No rank ends before all have noted the weight of their session.
        let weights = |ranks: u32| {
            let text = format!(
                "d=$(mktemp -d) && $MPIRUN -n {ranks} -env D $d -env N {ranks} sh -c 'w=$(cat /proc/self/autogroup); \
                 echo \"$w\" >$D/$PMI_RANK; until [ $(ls $D | wc -l) = $N ]; do sleep 0.01; done' \
                 && cat $d/* | sed 's/.* nice //' | sort -u; rm -r $d"
            );
            said(&suite.bash(&text).output())
        };
        assert_eq!(weights(1), "0", "a rank alone weighs as much as any session");
        assert_eq!(weights(4), "-6", "four times the weight");
    });
    let daemon = std::fs::read_to_string(format!("/proc/{}/autogroup", suite.daemon().pid));
    assert!(
        daemon.expect("a group").trim_end().ends_with(" nice -20"),
        "a daemon does not wait for ranks"
    );
    let after = std::fs::read_to_string("/proc/self/autogroup").expect("a group");
    assert_eq!(after, own, "the session of others keeps its weight");
}

#[test]
fn a_niceness_that_is_not_permitted_is_reported_and_the_job_runs() {
    let suite = as_ordinary_user();
    let own = said(&suite.bash("nice").output()).parse::<i32>().expect("a number");
    let log = suite.path("home/log").display().to_string();
    suite.bash(&format!("nice -n 7 $T/mpd --daemon --log-file {log}")).output().code(0);
    suite.adopt(suite.daemon().pid, &suite.rundir(), log.as_ref());
    let output = suite.bash("$MPIRUN -n 2 nice").output();
    let had = (own + 7).min(19);
    assert_eq!(said(&output), format!("{had}\n{had}"));
    let warning = format!("ranks have niceness {had}: the daemon there is not permitted");
    assert!(output.err().contains(&warning), "{output}");
    assert_eq!(output.err().lines().count(), 1, "{output}");
}

#[test]
fn ranks_do_not_ignore_the_signals_that_the_caller_ignores() {
    let suite = Suite::new();
    let text = "trap '' USR1 RTMIN RTMIN+7 RTMAX; $MPIRUN -n 1 grep SigIgn /proc/self/status";
    assert_eq!(said(&suite.bash(text).output()), "SigIgn:\t0000000000000000");
}

#[test]
fn the_callers_cpu_time_limit_applies_to_ranks_and_not_to_their_manager() {
    let suite = Suite::new();
    let text = "ulimit -St 3; $MPIRUN -n 1 sh -c 'ulimit -St; grep \"Max cpu\" /proc/$PPID/limits'";
    let output = suite.bash(text).output();
    let text = said(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "3");
    assert!(lines[1].starts_with("Max cpu time              unlimited"), "{output}");
    let burn = "ulimit -St 1; $MPIRUN -n 1 sh -c 'while :; do :; done'";
    suite.bash(burn).output().code(128 + libc::SIGXCPU);
}

#[test]
fn the_suite_works_with_a_stack_limit_of_64_kib_which_ranks_get() {
    let suite = as_ordinary_user();
    let check = |text: &str, expected: &str| {
        let output = suite.bash(&format!("ulimit -s 64; {text}")).output();
        assert_eq!(said(output.quiet()), expected, "{text}");
    };
    check("$MPIRUN -n 2 sh -c 'ulimit -s; ulimit -Hs'", "64\n64\n64\n64");
    let text = "yes | head -c 3000000 | $MPIRUN -l -n 3 -s all sh -c 'cat | wc -c'";
    let output = suite.bash(&format!("ulimit -s 64; {text}")).output();
    output.code(0);
    assert_eq!(output.sorted_lines(), ["0: 3000000", "1: 3000000", "2: 3000000"]);
    let log = suite.path("home/log").display().to_string();
    suite.bash(&format!("ulimit -s 64; $T/mpd --daemon --log-file {log}")).output().code(0);
    suite.adopt(suite.daemon().pid, &suite.rundir(), log.as_ref());
    check("$MPIRUN -n 1 sh -c 'ulimit -s'", "64");
}
