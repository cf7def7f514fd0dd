//! Many ranks under small limits, and refusals if a limit is too small.

use mpd_io::process::cgroup::{self, Cgroup};
use nix::sys::signal::Signal;

use crate::process::{self, Process};
use crate::run::{Run, comes_true, sample};
use crate::suite::{Suite, is_root, skip};

/// Debian's soft limit of descriptors.
const SOFT: &str = "soft-files=1024";

#[test]
fn many_ranks_run_under_a_soft_limit_of_1024_descriptors() {
    let suite = Suite::new();
    for ranks in ["256", "1000", "2000"] {
        let run = suite.command(suite.program("t-run")).arg(SOFT).arg(suite.program("mpirun"));
        run.args(["-n", ranks, "/bin/true"]).deadline(120).output().code(0).quiet();
    }
    suite.gone(&[]);
}

#[test]
fn every_rank_of_a_large_job_writes_its_line() {
    let suite = Suite::new();
    suite.start_daemon();
    let output = suite.mpirun(["-l", "-n", "500", "echo", "x"]).deadline(60).output();
    output.code(0).quiet();
    let mut ranks: Vec<usize> = output
        .out()
        .lines()
        .map(|line| line.strip_suffix(": x").expect("a whole line").parse().expect("a rank"))
        .collect();
    ranks.sort_unstable();
    assert!(ranks.into_iter().eq(0..500), "{output}");
}

#[test]
fn fifty_simultaneous_mpiruns_each_print_only_their_own_output() {
    let suite = Suite::new();
    suite.start_daemon();
    let count = sample(50, 200);
    let jobs: Vec<_> = (0..count)
        .map(|number| {
            let arguments = ["-n", "2", "echo", &number.to_string()].map(str::to_owned);
            suite.mpirun(arguments).deadline(120).start()
        })
        .collect();
    for (number, job) in jobs.into_iter().enumerate() {
        job.wait().code(0).quiet().prints(&format!("{number}\n{number}\n"));
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_job_that_needs_more_descriptors_than_the_limit_is_refused() {
    let suite = Suite::new();
    let run = suite.command(suite.program("t-run")).arg("files=64").arg(suite.program("mpirun"));
    let output = run.args(["-n", "100", "true"]).output();
    output.code(125).says(&["descriptors", "64"]).brief();
    suite.gone(&[]);
}

#[test]
fn a_daemon_short_of_descriptors_refuses_a_job_and_continues_to_serve() {
    let suite = Suite::new();
    let log = suite.path("mpd.log").display().to_string();
    let started = suite.command(suite.program("t-run")).arg("files=256").arg(suite.program("mpd"));
    started.args(["--daemon", "--log-file", &log]).output().code(0);
    let daemon = suite.daemon().pid;
    suite.mpirun(["-n", "500", "true"]).output().code(125).says(&["descriptors"]).brief();
    suite.only_the_daemon_is_left();
    assert_eq!(suite.daemon().pid, daemon);
    // Ranks keep their caller's limits, so the caller must not have a higher limit than the daemon.
    let run = suite.command(suite.program("t-run")).arg("files=256").arg(suite.program("mpirun"));
    run.args(["-n", "2", "true"]).output().code(0).quiet();
    end_daemon(&suite);
}

/// A control group for a suite of its own, if this system permits one, and why a job there cannot have that limit.
struct Ground {
    group: Option<Cgroup>,
}

impl Ground {
    /// A program in that group.
    fn command(&self, suite: &Suite, program: &str) -> Run {
        let Some(group) = &self.group else { return suite.command(suite.program(program)) };
        let enter = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", group.path().display());
        suite.command("sh").args(["-c", &enter, "sh"]).arg(suite.program(program))
    }

    fn refusal(&self, controllers: &[&str]) -> Option<String> {
        let Some(group) = &self.group else {
            return Some(match cgroup::own_group() {
                Some(own) => format!(
                    "no control group can be made in {}; ",
                    own.to_string_lossy().trim_end_matches('/')
                ),
                None => "this host has no control groups of version 2, ".to_owned(),
            });
        };
        let path = group.path().display();
        let has = cgroup::read(&format!("{path}/cgroup.controllers")).expect("a group");
        let has: Vec<&str> = has.split_whitespace().collect();
        let missing = controllers.iter().find(|controller| !has.contains(controller))?;
        let of_version_1 = format!("/sys/fs/cgroup/{missing}/cgroup.clone_children");
        if std::path::Path::new(&of_version_1).exists() {
            return Some(format!("control groups of version 1 have the controller {missing} on"));
        }
        let others = if has.is_empty() { "none".to_owned() } else { has.join(" ") };
        Some(format!(
            "the control group {path} does not have the controller {missing} (it has: {others}); "
        ))
    }
}

#[test]
fn a_job_with_limits_of_a_host_starts_only_where_the_controllers_of_its_group_keep_them() {
    let ground = Ground { group: Cgroup::create(&format!("mpd-test-{}", std::process::id())) };
    let suite = Suite::new();
    for standing in [false, true] {
        if standing {
            let log = suite.path("mpd.log").display().to_string();
            let daemon = ground.command(&suite, "mpd");
            daemon.args(["--daemon", "--log-file", &log]).output().code(0);
        }
        for (options, start, controllers) in [
            (["-mem", "1G"], "-mem: ", &["memory"][..]),
            (["-cpus", "1.5"], "-cpus: ", &["cpu"]),
            (["-mem=1G", "-cpus=2"], "-mem and -cpus: ", &["memory", "cpu"]),
        ] {
            let job = ground.command(&suite, "mpirun").args(options);
            let output = job.args(["-n", "2", "touch", "has-run"]).output();
            match ground.refusal(controllers) {
                Some(reason) => {
                    output.code(125).says(&[&format!("{start}{reason}")]).brief();
                    assert!(!suite.path("has-run").exists());
                }
                None => {
                    output.code(0).quiet();
                    std::fs::remove_file(suite.path("has-run")).expect("it has run");
                }
            }
        }
        if ground.refusal(&["memory"]).is_none() {
            let job = ground.command(&suite, "mpirun").args(["-mem", "64M", "-n", "1"]);
            let output = job.args(["tail", "/dev/zero"]).deadline(60).output();
            output.code(137).says(&["has used all of the 64M that -mem gives it"]);
        }
        ground.command(&suite, "mpirun").args(["-n", "2", "true"]).output().code(0).quiet();
    }
    end_daemon(&suite);
    if let Some(group) = ground.group {
        let patience = std::time::Duration::from_secs(10);
        assert!(comes_true(patience, || group.remove().is_ok()), "processes are left");
    }
}

#[test]
fn a_daemon_that_was_moved_aside_makes_the_groups_of_jobs_beside_its_own_and_none_is_left() {
    let name = format!("mpd-test-aside-{}", std::process::id());
    let Some(group) = Cgroup::create(&name) else {
        return skip("groups beside that of the daemon: no control group can be made here");
    };
    let aside = group.path().join(cgroup::ASIDE);
    std::fs::create_dir(&aside).expect("a group");
    let suite = Suite::new();
    let enter = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", aside.display());
    let log = suite.path("mpd.log").display().to_string();
    let start = suite.command("sh").args(["-c", &enter, "sh"]).arg(suite.program("mpd"));
    start.args(["--daemon", "--log-file", &log]).output().code(0);
    let output = suite.mpirun(["-n", "1", "cat", "/proc/self/cgroup"]).output();
    let is_beside = |line: &str| {
        let above = line.strip_prefix("0::").and_then(|own| own.rsplit_once('/'));
        above.is_some_and(|(above, own)| above.ends_with(&name) && own != cgroup::ASIDE)
    };
    assert!(output.code(0).out().lines().any(is_beside), "{output}");

    let job = suite.mpirun(["-n", "2", "sleep", "60"]).start();
    process::send(suite.manager().pid, Signal::SIGKILL);
    job.wait().code(125);
    let is_last = || {
        let entries = std::fs::read_dir(group.path()).expect("a group").flatten();
        let groups = entries.filter(|entry| entry.path().is_dir());
        groups.map(|entry| entry.path()).eq([aside.clone()])
    };
    let patience = std::time::Duration::from_secs(10);
    assert!(comes_true(patience, is_last), "the group of the job is left");
    end_daemon(&suite);
    assert!(comes_true(patience, || group.remove().is_ok()), "processes are left");
}

#[test]
fn a_job_beyond_the_users_process_limit_ends_with_an_error() {
    if !is_root() {
        return skip("RLIMIT_NPROC: needs root, to become an ordinary user");
    }
    // A separate user, because the limit counts all processes of a user.
    let suite = Suite::as_user(60_202);
    let limited = |processes: u32, ranks: &str| {
        let run = suite.command(suite.program("t-run")).arg(format!("processes={processes}"));
        run.arg(suite.program("mpirun")).args(["-n", ranks, "sleep", "0.2"]).output()
    };
    limited(20, "4").code(0).quiet();
    let output = limited(20, "40");
    output.code(125).says(&["process", "Resource temporarily unavailable"]).brief();
    suite.gone(&[]);
    // With fewer processes mpirun ends with a message and leaves nothing. Four ranks, their manager, the daemon
    // and mpirun itself would fit into seven.
    for processes in 1..7 {
        let output = limited(processes, "4");
        assert!(output.exit_code().is_some_and(|code| code == 125), "{processes}: {output}");
        suite.gone(&[]);
    }
}

#[test]
fn an_ordinary_user_without_a_name_can_run_jobs() {
    if !is_root() {
        return skip("an unnamed user: needs root, to become one");
    }
    let suite = Suite::as_user(60_203);
    let daemon = suite.start_daemon();
    suite.mpirun(["-n", "2", "id", "-u"]).output().code(0).quiet().prints("60203\n60203\n");
    suite.ranks(2, "t-exit-with", &["1", "sig11"]).output().code(139);
    suite.gone(&[daemon.pid]);
}

fn end_daemon(suite: &Suite) {
    let daemon = suite.daemon();
    process::send(daemon.pid, Signal::SIGTERM);
    let gone = || Process::is_gone(daemon.pid);
    assert!(comes_true(std::time::Duration::from_secs(10), gone), "the daemon does not end");
}
