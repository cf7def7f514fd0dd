//! kill -9 of each kind of process, with ranks that try to escape. Nothing of the job is left, and other jobs
//! continue undisturbed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use nix::sys::signal::Signal;

use crate::process::{self, Process};
use crate::run::{Output, Running, sample, wait_until};
use crate::signals::Recorders;
use crate::suite::{Suite, is_root, skip};

const ROUNDS: usize = 5;
const FULL_ROUNDS: usize = 50;
const RANKS: usize = 3;
/// How long an escaped process would live: longer than any test waits for its end.
pub(crate) const TREE_SECONDS: &str = "40";

/// A daemon, and a bystander job that must survive the end of any other job.
struct Rounds {
    suite: Suite,
    bystander: Option<Running>,
}

impl Rounds {
    fn new() -> Self {
        let suite = Suite::new();
        suite.start_daemon();
        let directory = suite.new_directory("other");
        let bystander = suite.ranks(2, "t-signals", &[&directory, "300"]).deadline(300).start();
        bystander.shows("ready 0").shows("ready 1");
        Self { suite, bystander: Some(bystander) }
    }

    /// A job of hopping process trees, and its manager once all trees have started.
    fn start(&self) -> (Running, Process) {
        let before = self.managers();
        let job = start_trees(&self.suite);
        let new = |m: &Process| !before.iter().any(|old| old.pid == m.pid);
        let manager = self.managers().into_iter().find(new).expect("a manager of the new job");
        (job, manager)
    }

    fn managers(&self) -> Vec<Process> {
        self.suite.processes().into_iter().filter(Process::is_manager).collect()
    }

    /// Nothing of the trees' job is left: neither ranks nor trees nor the manager.
    fn trees_are_gone(&self, manager: i32) {
        assert_trees_are_gone(&self.suite, &[manager]);
    }

    /// The bystander ends with code 0.
    fn end(mut self) {
        fs::write(self.suite.path("other/stop"), "").expect("the stop file");
        self.bystander.take().expect("it runs until now").wait().code(0).quiet();
        self.suite.only_the_daemon_is_left();
    }
}

fn start_trees(suite: &Suite) -> Running {
    let job = suite.ranks(RANKS, "t-tree", &["2", "4", TREE_SECONDS, "stay"]).start();
    for rank in 0..RANKS {
        job.shows(&format!("tree {rank}\n"));
    }
    job
}

pub(crate) fn assert_trees_are_gone(suite: &Suite, and: &[i32]) {
    let counts = |p: &Process| p.name.starts_with("t-tree") || and.contains(&p.pid);
    let mut left = Vec::new();
    // One look can overlook a process that forks and ends all the time, so there are several looks.
    let gone = crate::run::comes_true(std::time::Duration::from_secs(8), || {
        (0..5).all(|_| {
            left = suite.processes().into_iter().filter(counts).collect();
            left.is_empty()
        })
    });
    assert!(gone, "left of the job: {left:?}");
}

#[test]
fn killing_mpirun_ends_its_job_and_no_other_job() {
    let rounds = Rounds::new();
    for _ in 0..sample(ROUNDS, FULL_ROUNDS) {
        let (job, manager) = rounds.start();
        job.send(Signal::SIGKILL);
        rounds.trees_are_gone(manager.pid);
    }
    rounds.end();
}

#[test]
fn killing_a_manager_ends_its_job_and_no_other_job() {
    let rounds = Rounds::new();
    for _ in 0..sample(ROUNDS, FULL_ROUNDS) {
        let (job, manager) = rounds.start();
        process::send(manager.pid, Signal::SIGKILL);
        job.wait().code(125).says(&["manager"]);
        rounds.trees_are_gone(manager.pid);
    }
    rounds.end();
}

#[test]
fn killing_a_rank_ends_its_job_and_no_other_job() {
    let rounds = Rounds::new();
    for _ in 0..sample(ROUNDS, FULL_ROUNDS) {
        let (job, manager) = rounds.start();
        let mut ranks = rounds.suite.processes();
        ranks.retain(|process| process.parent == manager.pid && process.name == "t-tree");
        // A hopping process may also have the manager as its parent; the ranks have the lowest pids.
        ranks.sort_unstable_by_key(|process| process.pid);
        process::send(ranks[1].pid, Signal::SIGKILL);
        job.wait().code(137).says(&["rank", "killed by signal 9"]);
        rounds.trees_are_gone(manager.pid);
    }
    rounds.end();
}

#[test]
fn killing_the_daemon_ends_no_job() {
    let rounds = Rounds::new();
    for round in 0..sample(ROUNDS, FULL_ROUNDS) {
        let suite = &rounds.suite;
        let (recorders, job) = Recorders::start(suite, 2, &format!("d{round}"));
        let daemon = suite.daemon();
        process::send(daemon.pid, Signal::SIGKILL);
        wait_until("the daemon is dead", || Process::is_gone(daemon.pid));
        job.send(Signal::SIGUSR1);
        recorders.wait_until_ranks_got(Signal::SIGUSR1);
        if round % 2 == 0 {
            suite.start_daemon();
            wait_until("both jobs are registered again", || suite.managers().len() == 2);
        }
        recorders.stop();
        job.wait().code(0).quiet();
        if round % 2 == 1 {
            suite.start_daemon();
        }
    }
    rounds.end();
}

#[test]
fn killing_the_daemon_and_then_the_adopted_manager_leaves_no_process() {
    let rounds = Rounds::new();
    for _ in 0..sample(ROUNDS, FULL_ROUNDS) {
        let (job, manager) = rounds.start();
        let suite = &rounds.suite;
        process::send(suite.daemon().pid, Signal::SIGKILL);
        suite.start_daemon();
        wait_until("the manager is adopted", || suite.managers().contains(&manager.pid));
        process::send(manager.pid, Signal::SIGKILL);
        job.wait().code(125).says(&["manager"]);
        rounds.trees_are_gone(manager.pid);
        wait_until("the daemon forgets it", || !suite.managers().contains(&manager.pid));
    }
    rounds.end();
}

#[test]
fn a_restarted_daemon_removes_the_remains_of_a_daemon_and_manager() {
    let rounds = Rounds::new();
    for _ in 0..sample(2, FULL_ROUNDS) {
        let (job, manager) = rounds.start();
        let suite = &rounds.suite;
        process::send(suite.daemon().pid, Signal::SIGKILL);
        process::send(manager.pid, Signal::SIGKILL);
        job.wait().code(125);
        suite.start_daemon();
        rounds.trees_are_gone(manager.pid);
    }
    rounds.end();
}

#[test]
fn a_killed_process_of_a_private_ring_leaves_nothing_behind() {
    let suite = Suite::new();
    for _ in 0..sample(2, FULL_ROUNDS) {
        for victim in ["mpirun", "daemon", "manager", "rank"] {
            let job = start_trees(&suite);
            let all = suite.processes();
            let manager = suite.manager();
            let chosen = match victim {
                "mpirun" => all.iter().find(|process| process.pid == job.pid()),
                "daemon" => all.iter().find(|process| process.is_daemon()),
                "manager" => Some(&manager),
                _ => all.iter().find(|p| p.name == "t-tree" && p.parent == manager.pid),
            };
            let chosen = chosen.unwrap_or_else(|| panic!("no {victim} among {all:?}"));
            process::send(chosen.pid, Signal::SIGKILL);
            if victim == "daemon" {
                // A job outlives its daemon, also a private one. This job is ended by its user.
                job.send(Signal::SIGINT);
            }
            if victim != "mpirun" {
                job.wait().failed();
            }
            suite.gone(&[]);
            if victim == "daemon" {
                // A console removes the stale socket of the private ring.
                suite.command(suite.program("mpdlistjobs")).output().code(1);
            }
        }
    }
}

#[test]
fn process_trees_left_by_a_rank_are_killed_at_the_end_of_the_job() {
    let suite = Suite::new();
    suite.start_daemon();
    for _ in 0..sample(ROUNDS, FULL_ROUNDS) {
        let output = suite.ranks(RANKS, "t-tree", &["3", "2", TREE_SECONDS, "leave"]).output();
        output.code(0).quiet();
        assert_trees_are_gone(&suite, &[]);
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn sixteen_ranks_with_fast_hopping_process_trees_are_all_killed() {
    let suite = Suite::new();
    let job = suite.ranks(16, "t-tree", &["1", "2", TREE_SECONDS, "stay"]).start();
    for rank in 0..16 {
        job.shows(&format!("tree {rank}\n"));
    }
    job.send(Signal::SIGINT);
    job.wait().code(130);
    suite.gone(&[]);
}

#[test]
fn a_grandchild_that_holds_all_descriptors_does_not_delay_the_end() {
    let suite = Suite::new();
    let output = suite.ranks(2, "t-pmi", &["grandchild"]).output();
    output.code(0).quiet();
    suite.gone(&[]);
}

#[test]
fn system_v_ipc_and_posix_shared_memory_of_a_job_are_removed() {
    let suite = Suite::new();
    suite.start_daemon();
    let (bystander, theirs) = start_ipc(&suite);
    for how in ["exit", "kill"] {
        let output = suite.ranks(2, "t-ipc", &[how]).output();
        for made in output.out().lines().map(Made::parse) {
            assert!(!made.shm(), "{how}: {made:?} is left");
        }
    }
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let (job, made) = start_ipc(&suite);
        assert!(made.shm() && made.sem() && made.msg() && made.posix(), "{made:?}");
        job.send(signal);
        let left = || [made.shm(), made.sem(), made.msg(), made.posix()].contains(&true);
        let swept = crate::run::comes_true(std::time::Duration::from_secs(15), || !left());
        let [shm, sem, msg, posix] = [made.shm(), made.sem(), made.msg(), made.posix()];
        assert!(swept, "{signal}: left are shm {shm}, sem {sem}, msg {msg}, posix {posix}");
    }
    assert!(theirs.shm() && theirs.sem() && theirs.msg() && theirs.posix(), "another job's");
    bystander.send(Signal::SIGINT);
    bystander.wait().code(130);
    assert!(!theirs.shm() && !theirs.posix(), "{theirs:?} is left");
}

/// Waits until the job's manager has noted the file of its rank. The rank was noted before.
fn wait_until_noted(suite: &Suite, made: &Made) {
    use std::os::unix::fs::MetadataExt as _;
    let inode = fs::metadata(&made.posix).expect("it is there").ino().to_string();
    wait_until("the manager's note of the file", || {
        suite.records().iter().any(|record| {
            record.lines().any(|line| line.contains("\"file\"") && line.contains(&inode))
        })
    });
}

#[test]
fn ipc_objects_of_a_job_are_removed_after_its_manager_and_daemon_are_killed() {
    let suite = Suite::new();
    for kills_daemon in [false, true] {
        suite.start_daemon();
        let (bystander, theirs) = start_ipc(&suite);
        let manager = suite.manager();
        let (job, made) = start_ipc(&suite);
        wait_until_noted(&suite, &made);
        let is_its = |process: &Process| process.is_manager() && process.pid != manager.pid;
        let its = suite.processes().into_iter().find(is_its).expect("a manager of the new job");
        if kills_daemon {
            process::send(suite.daemon().pid, Signal::SIGKILL);
        }
        process::send(its.pid, Signal::SIGKILL);
        job.wait().code(125);
        if kills_daemon {
            suite.start_daemon();
        }
        let left = || [made.shm(), made.sem(), made.msg(), made.posix()];
        let swept =
            crate::run::comes_true(std::time::Duration::from_secs(15), || !left().contains(&true));
        assert!(
            swept,
            "daemon killed: {kills_daemon}; shm, sem, msg, posix are left: {:?}",
            left()
        );
        assert!(theirs.shm() && theirs.sem() && theirs.msg() && theirs.posix(), "another job's");
        bystander.send(Signal::SIGINT);
        bystander.wait().code(130);
        suite.only_the_daemon_is_left();
        process::send(suite.daemon().pid, Signal::SIGTERM);
        suite.gone(&[]);
    }
}

#[test]
fn ipc_objects_of_a_private_job_are_removed_after_its_manager_is_killed() {
    let suite = Suite::new();
    let (job, made) = start_ipc(&suite);
    // The manager notes a rank at once. Whether it has noted the file is not visible from outside.
    let left = || [made.shm(), made.sem(), made.msg()];
    process::send(suite.manager().pid, Signal::SIGKILL);
    job.wait().code(125);
    suite.gone(&[]);
    assert_eq!(left(), [false; 3]);
}

#[test]
fn shared_memory_created_up_to_the_moment_of_the_kill_is_removed() {
    let suite = Suite::new();
    suite.start_daemon();
    for round in 0..12 {
        let how = ["renew", "insist"][round / 2 % 2];
        let job = suite.ranks(4, "t-ipc", &[how]).start();
        wait_until("all have begun", || job.stdout().lines().count() == 4);
        let ranks = job.stdout();
        let prefix = |line: &str| format!("t-ipc.{}.", line.rsplit(' ').next().expect("a pid"));
        let prefixes: Vec<String> = ranks.lines().map(prefix).collect();
        job.send([Signal::SIGKILL, Signal::SIGINT][round % 2]);
        suite.only_the_daemon_is_left();
        let files = fs::read_dir("/dev/shm").expect("/dev/shm").flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let is_theirs = |name: &String| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let left: Vec<String> = names.filter(is_theirs).collect();
        left.iter().for_each(|name| drop(fs::remove_file(format!("/dev/shm/{name}"))));
        assert_eq!(left, [""; 0]);
    }
}

fn start_ipc(suite: &Suite) -> (Running, Made) {
    let job = suite.ranks(1, "t-ipc", &["wait"]).start();
    job.shows("\n");
    let made = Made::parse(job.stdout().trim());
    (job, made)
}

/// The objects that a `t-ipc` has created.
#[derive(Debug)]
pub(crate) struct Made {
    shm: String,
    sem: String,
    msg: String,
    posix: String,
}

impl Made {
    pub(crate) fn parse(line: &str) -> Self {
        let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let [_, shm, _, sem, _, msg, _, posix] = arguments.try_into().expect("eight words");
        Self { shm, sem, msg, posix }
    }

    pub(crate) fn shm(&self) -> bool {
        listed("shm", &self.shm)
    }

    pub(crate) fn sem(&self) -> bool {
        listed("sem", &self.sem)
    }

    pub(crate) fn msg(&self) -> bool {
        listed("msg", &self.msg)
    }

    pub(crate) fn posix(&self) -> bool {
        std::path::Path::new(&self.posix).exists()
    }
}

impl Drop for Made {
    /// Removes objects that the suite failed to remove, so that they do not accumulate on the machine.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.posix);
        for (option, id) in [("-m", &self.shm), ("-s", &self.sem), ("-q", &self.msg)] {
            let _ = std::process::Command::new("ipcrm").args([option, id]).output();
        }
    }
}

/// Whether this object of this kind exists.
fn listed(kind: &str, id: &str) -> bool {
    let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
    table.lines().skip(1).any(|line| line.split_whitespace().nth(1) == Some(id))
}

/// A setuid program of root: a copy of `t-run`.
fn rooted(suite: &Suite) -> String {
    let path = suite.path("bin/rooted");
    fs::copy(suite.program("t-run"), &path).expect("a copy");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).expect("chmod");
    path.display().to_string()
}

/// Waits for a job that leaves `pid` running as root, and kills that process.
fn end_of_job_that_leaves(pid: &str, job: Running) -> Output {
    let output = job.wait();
    let pid = pid.trim().parse().expect("a number");
    assert_eq!(owner(pid), Some(0), "process {pid} has ended");
    process::send(pid, Signal::SIGKILL);
    output
}

fn owner(pid: i32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|metadata| metadata.uid())
}

#[test]
fn a_rank_that_has_become_root_is_named_and_keeps_running_after_a_signal() {
    if !is_root() {
        return skip("a program with the setuid bit: needs root, to make one");
    }
    let suite = Suite::as_user(60_214);
    let rooted = rooted(&suite);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let arguments = ["uid=0", "sh", "-c", "echo $$; exec sleep 60"];
        let job = suite.mpirun(["-n", "1"]).arg(&rooted).args(arguments).start();
        wait_until("it is root", || job.stdout().ends_with('\n'));
        let pid = job.stdout().trim().to_owned();
        job.send(signal);
        let output = end_of_job_that_leaves(&pid, job);
        let refused = format!("cannot send {signal} to process {pid} (");
        let left = format!("cannot kill process {pid} (sleep) of user root");
        output.code(125).says(&[&refused, &left]);
    }
}

#[test]
fn a_root_process_left_by_a_rank_is_named_and_keeps_running() {
    if !is_root() {
        return skip("a program with the setuid bit: needs root, to make one");
    }
    let suite = Suite::as_user(60_215);
    suite.start_daemon();
    let file = format!("{}/pid", suite.new_directory("notes"));
    let script = r#"
        "$1" uid=0 sh -c 'echo $$ > "$0"; exec sleep 60' "$2" &
        until [ -s "$2" ]; do sleep 0.05; done
        exit "$3""#;
    for code in ["0", "3"] {
        let _ = fs::remove_file(&file);
        let arguments = ["-n", "1", "sh", "-c", script, "sh", &rooted(&suite), &file, code];
        let job = suite.mpirun(arguments).start();
        wait_until("it is root", || fs::read_to_string(&file).is_ok_and(|t| t.ends_with('\n')));
        let pid = fs::read_to_string(&file).expect("a file");
        let output = end_of_job_that_leaves(&pid, job);
        output
            .code(125)
            .says(&[&format!("cannot kill process {} (sleep) of user root", pid.trim())]);
    }
}
