//! Hosts that run out of processes or memory.

use std::fs;
use std::path::{Path, PathBuf};

use mpd_io::process::oom;
use nix::sys::signal::Signal;

use crate::across::{ring, roomy};
use crate::process::{self, Process};
use crate::run::wait_until;
use crate::suite::{is_root, skip};

/// A control group of one test, with one limit.
struct Group {
    path: PathBuf,
}

impl Group {
    /// Limits `controller` with the first of these files (version 1) or the second (version 2).
    /// `None` if this machine lacks the controller.
    fn limited(controller: &str, files: [&str; 2], limit: &str) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("mpd-test-{}-{controller}", std::process::id());
        let enabled = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
        let (parent, file) = if root.join(controller).join("cgroup.procs").exists() {
            (root.join(controller), files[0])
        } else if enabled.split_whitespace().any(|enabled| enabled == controller) {
            (root.to_owned(), files[1])
        } else {
            return None;
        };
        let path = parent.join(name);
        fs::create_dir(&path).ok()?;
        let group = Self { path };
        group.limit(file, limit);
        Some(group)
    }

    fn limit(&self, file: &str, limit: &str) {
        fs::write(self.path.join(file), limit).expect("a limit");
    }

    fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    fn holds(&self, pid: i32) {
        fs::write(self.procs(), pid.to_string()).expect("a process in a group");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel removes only an empty group.
        let outside = self.path.with_file_name("cgroup.procs");
        for pid in fs::read_to_string(self.procs()).unwrap_or_default().lines() {
            let _ = fs::write(&outside, pid);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

#[test]
fn a_host_that_can_start_no_more_processes_ends_the_job_with_an_error() {
    let found =
        is_root().then(|| Group::limited("pids", ["pids.max", "pids.max"], "max")).flatten();
    let Some(group) = found else {
        return skip("no more processes: needs root and the pids controller");
    };
    // A manager in waiting could have begun outside the group.
    let ring = roomy().option(&["--waiting", "0"]).with(4);
    group.holds(ring.process(3).pid);
    // The limit permits the daemon; also its manager; also one rank, but not the second.
    for most in ["1", "2", "3"] {
        group.limit("pids.max", most);
        let output = ring.mpirun(1, &["-n", "8", "sleep", "60"]).deadline(30).output();
        output.code(125).says(&["d3", "Resource temporarily unavailable"]).brief();
        ring.only_daemons_are_left();
    }
    group.limit("pids.max", "max");
    ring.mpirun(1, &["-n", "8", "true"]).output().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn a_rank_killed_for_lack_of_memory_is_named_and_its_manager_survives() {
    let files = ["memory.limit_in_bytes", "memory.max"];
    let found = is_root().then(|| Group::limited("memory", files, "50331648")).flatten();
    let Some(group) = found else {
        return skip("no more memory: needs root and the memory controller");
    };
    let ring = ring();
    let script = format!(
        "[ $PMI_RANK != 5 ] || {{ echo 0 >{}; exec tail /dev/zero; }}; sleep 60",
        group.procs().display()
    );
    let output = ring.mpirun(1, &["-n", "8", "sh", "-c", &script]).deadline(60).output();
    output.code(137).says(&["host d3", "memory ran out", "rank 5"]);
    ring.only_daemons_are_left();
}

#[test]
fn a_manager_of_another_host_killed_for_lack_of_memory_is_named_with_its_host() {
    let files = ["memory.limit_in_bytes", "memory.max"];
    let has_log = oom::victims(oom::log_time()).is_some();
    let found =
        (is_root() && has_log).then(|| Group::limited("memory", files, "50331648")).flatten();
    let Some(group) = found else {
        return skip("no more memory: needs root, the memory controller and the kernel's log");
    };
    let ring = ring();
    let job = ring.mpirun(1, &["-n", "8", "sleep", "60"]).deadline(60).start();
    wait_until("the ranks", || ring.suite.running("sleep").len() == 8);
    // The kernel kills the manager first, although another process fills the group.
    let manager = ring.manager(3);
    fs::write(format!("/proc/{}/oom_score_adj", manager.pid), "1000").expect("it lives");
    group.holds(manager.pid);
    let eater = format!("echo 0 >{}; exec tail /dev/zero", group.procs().display());
    ring.suite.command("sh").args(["-c", &eater]).output().ended_by(Signal::SIGKILL);
    let named = "host d3 is lost: memory ran out: the kernel has killed its manager";
    job.wait().code(125).says(&[named]).brief();
    ring.only_daemons_are_left();
}

#[test]
fn a_rank_that_kill_9_has_ended_is_no_victim_of_the_kernel_although_another_process_was() {
    let files = ["memory.limit_in_bytes", "memory.max"];
    let found = is_root().then(|| Group::limited("memory", files, "50331648")).flatten();
    let Some(group) = found else {
        return skip("no more memory: needs root and the memory controller");
    };
    let ring = ring();
    let job = ring.mpirun(1, &["-n", "4", "sleep", "60"]).start();
    wait_until("the ranks", || ring.suite.running("sleep").len() == 4);
    let victim = format!("echo 0 >{}; exec tail /dev/zero", group.procs().display());
    ring.suite.command("sh").args(["-c", &victim]).output().ended_by(Signal::SIGKILL);
    process::send(ring.suite.running("sleep")[0].pid, Signal::SIGKILL);
    let output = job.wait();
    output.code(137).says(&["killed by signal 9"]);
    assert!(!output.err().contains("memory"), "{output}");
    ring.only_daemons_are_left();
}

#[test]
fn ranks_have_a_higher_oom_score_than_their_managers() {
    let ring = ring();
    let job = ring.mpirun(1, &["-n", "8", "sleep", "60"]).start();
    wait_until("the ranks", || ring.suite.running("sleep").len() == 8);
    let readiness = |process: &Process| -> i32 {
        let path = format!("/proc/{}/oom_score_adj", process.pid);
        fs::read_to_string(path).expect("it lives").trim().parse().expect("a number")
    };
    let ranks = ring.suite.running("sleep");
    wait_until("ranks that go first", || ranks.iter().all(|rank| readiness(rank) >= 500));
    for index in 1..=4 {
        let (daemon, manager) = (ring.process(index), ring.manager(index));
        assert!((0..500).contains(&readiness(&manager)), "{manager}: {}", readiness(&manager));
        assert!(readiness(&daemon) <= readiness(&manager), "{daemon}: {}", readiness(&daemon));
    }
    job.send(Signal::SIGTERM);
    job.wait().code(143);
    ring.only_daemons_are_left();
}

#[test]
fn a_manager_leads_a_session_with_its_ranks_away_from_its_daemon() {
    let ring = ring();
    let job = ring.mpirun(1, &["-n", "8", "sleep", "60"]).start();
    wait_until("the ranks", || ring.suite.running("sleep").len() == 8);
    let managers: Vec<i32> = (1..=4).map(|index| ring.manager(index).pid).collect();
    for index in 1..=4 {
        let (daemon, manager) = (ring.process(index), ring.manager(index));
        assert_eq!(manager.session(), manager.pid);
        assert_ne!(daemon.session(), manager.pid);
    }
    let ranks = ring.suite.running("sleep");
    assert!(ranks.iter().all(|rank| managers.contains(&rank.session())), "{ranks:?}");
    job.send(Signal::SIGTERM);
    job.wait().code(143);
    ring.only_daemons_are_left();
}

#[test]
fn daemons_and_managers_of_root_run_at_a_higher_cpu_priority_than_ranks() {
    let nice = |arguments: &[&str]| {
        let output = std::process::Command::new("nice").args(arguments).output().expect("nice");
        String::from_utf8_lossy(&output.stdout).trim().parse::<i32>().expect("a number")
    };
    let (ours, may) = (nice(&[]), nice(&["-n", "-1", "nice"]) < 0);
    let servers = if may && ours == 0 { -10 } else { ours };
    let ring = ring();
    let job = ring.mpirun(1, &["-n", "8", "sleep", "60"]).start();
    wait_until("the ranks", || ring.suite.running("sleep").len() == 8);
    for index in 1..=4 {
        assert_eq!(ring.process(index).niceness(), servers);
        assert_eq!(ring.manager(index).niceness(), servers);
    }
    for rank in ring.suite.running("sleep") {
        assert_eq!(rank.niceness(), ours);
    }
    job.send(Signal::SIGTERM);
    job.wait().code(143);
    ring.only_daemons_are_left();
}
