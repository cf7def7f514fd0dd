//! kill -9 of each kind of process of a job on four hosts, whose ranks try to escape.
//! Nothing of the job is left on any host, and another job continues undisturbed.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::across::{ring, roomy};
use crate::kill::{TREE_SECONDS, assert_trees_are_gone};
use crate::members::Members;
use crate::process::{self, Process};
use crate::run::{Running, sample, wait_until};

const RANKS: usize = 8;

/// Four hosts, and a bystander job on all of them that must survive the end of any other job.
struct Rounds {
    ring: Members,
    bystander: Option<Running>,
}

impl Rounds {
    fn new() -> Self {
        let ring = ring();
        let directory = ring.suite.new_directory("other");
        let run = ring.mpirun(4, &["-n", "8", &ring.suite.program("t-signals"), &directory, "300"]);
        let bystander = run.deadline(300).start();
        for rank in 0..8 {
            bystander.shows(&format!("ready {rank}\n"));
        }
        Self { ring, bystander: Some(bystander) }
    }

    /// A job of hopping process trees, and its managers on d1, d2 …, once all trees have started.
    fn start(&self) -> (Running, Vec<Process>) {
        let before = self.managers();
        let arguments = ["1", "4", TREE_SECONDS, "stay"];
        let job = self.ring.ranks(RANKS, "t-tree", &arguments).start();
        for rank in 0..RANKS {
            job.shows(&format!("tree {rank}\n"));
        }
        let of = |index: usize| {
            let daemon = self.ring.member(index).pid;
            let mut new = self.managers();
            new.retain(|m| m.parent == daemon && !before.iter().any(|old| old.pid == m.pid));
            assert_eq!(new.len(), 1, "the managers on d{index}: {new:?}");
            new.remove(0)
        };
        (job, (1..=4).map(of).collect())
    }

    fn managers(&self) -> Vec<Process> {
        self.ring.suite.processes().into_iter().filter(Process::is_manager).collect()
    }

    fn are_gone(&self, managers: &[Process]) {
        let pids: Vec<i32> = managers.iter().map(|manager| manager.pid).collect();
        assert_trees_are_gone(&self.ring.suite, &pids);
    }

    /// The bystander ends with code 0.
    fn end(mut self) {
        fs::write(self.ring.suite.path("other/stop"), "").expect("the stop file");
        self.bystander.take().expect("it runs until now").wait().code(0).quiet();
        self.ring.only_daemons_are_left();
    }
}

#[test]
fn killing_mpirun_ends_its_job_on_all_hosts() {
    let rounds = Rounds::new();
    for _ in 0..sample(3, 50) {
        let (job, managers) = rounds.start();
        job.send(Signal::SIGKILL);
        rounds.are_gone(&managers);
    }
    rounds.end();
}

#[test]
fn killing_a_rank_of_any_host_ends_the_job_and_names_rank_and_host() {
    let rounds = Rounds::new();
    for index in 1..=4 {
        let (job, managers) = rounds.start();
        let manager = managers[index - 1].pid;
        let mut ranks = rounds.ring.suite.processes();
        ranks.retain(|process| process.parent == manager && process.name == "t-tree");
        // A hopping process may also have the manager as its parent; the ranks have the lowest pids.
        ranks.sort_unstable_by_key(|process| process.pid);
        process::send(ranks[1].pid, Signal::SIGKILL);
        let named = format!("host d{index}: rank {}: killed by signal 9", 2 * index - 1);
        job.wait().code(137).says(&[&named]).brief();
        rounds.are_gone(&managers);
    }
    rounds.end();
}

#[test]
fn killing_any_manager_ends_its_job_on_all_hosts() {
    let rounds = Rounds::new();
    for _ in 0..sample(1, 20) {
        for index in 1..=4 {
            let (job, managers) = rounds.start();
            process::send(managers[index - 1].pid, Signal::SIGKILL);
            let named = if index == 1 { "manager".to_owned() } else { format!("host d{index}") };
            job.wait().code(125).says(&[&named]).brief();
            rounds.are_gone(&managers);
        }
    }
    rounds.end();
}

#[test]
fn the_failure_names_the_host_of_a_killed_manager_and_the_signal() {
    let ring = ring();
    for index in [2, 4] {
        let job = ring.mpirun(1, &["-n", "8", "sleep", "60"]).start();
        wait_until("the ranks", || ring.suite.running("sleep").len() == RANKS);
        process::send(ring.manager(index).pid, Signal::SIGKILL);
        let named = format!("host d{index} is lost: its manager was killed by signal 9");
        job.wait().code(125).says(&[&named]).brief();
        ring.only_daemons_are_left();
    }
}

#[test]
fn a_killed_daemon_ends_no_job_and_its_successor_adopts_them() {
    let ring = ring();
    let (recorders, job) = ring.recorders(8, &["-a", "long"], "d");
    for index in 1..=4 {
        ring.kill(index);
        job.send(Signal::SIGUSR1);
        wait_until("one more SIGUSR1 for every rank", || {
            recorders.ranks_got().iter().all(|got| got.get("SIGUSR1") == Some(&index))
        });
        ring.start_again(index);
        ring.agree();
        wait_until("the manager is adopted, with its ranks", || {
            let listed = ring.listed(index % 4 + 1);
            let ranks: u32 = listed
                .iter()
                .filter(|hosted| hosted.part.alias.as_deref() == Some("long"))
                .flat_map(|hosted| &hosted.part.runs)
                .map(|run| run.ranks.count())
                .sum();
            listed.len() == 4 && ranks == 8
        });
    }
    recorders.stop();
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn a_kill_request_to_any_daemon_kills_an_adopted_job() {
    use mpd_wire::message::{ConsoleReply, JobOrder, JobRef, RingRequest};
    let ring = ring();
    let (_recorders, job) = ring.recorders(8, &[], "d");
    for index in 1..=2 {
        ring.kill(index);
        ring.start_again(index);
    }
    ring.agree();
    wait_until("all managers are adopted", || knows_all_managers(&ring, 3));
    let id = JobRef::Id(ring.listed(3)[0].part.job.clone());
    let kill = RingRequest::Job { job: id, order: JobOrder::Kill };
    let answer = ring.ask(3, kill).expect("an answer");
    assert_eq!(answer, ConsoleReply::Done { missing: Vec::new() });
    job.wait().code(137).says(&["killed on request"]);
    ring.only_daemons_are_left();
}

#[test]
fn a_restarted_daemon_removes_the_ranks_of_a_daemon_and_manager_killed_together() {
    let rounds = Rounds::new();
    for index in 1..=3 {
        let (job, managers) = rounds.start();
        rounds.ring.send(index, Signal::SIGKILL);
        process::send(managers[index - 1].pid, Signal::SIGKILL);
        job.wait().code(125).brief();
        rounds.ring.kill(index);
        rounds.ring.start_again(index);
        rounds.ring.agree();
        rounds.are_gone(&managers);
    }
    rounds.end();
}

#[test]
fn a_job_waits_for_a_silent_host_as_long_as_its_host_timeout_says() {
    let ring = roomy().faster(4).with(4);
    let start = |hosts: &str, seconds: &str| {
        let script = "echo here; read end; exit 0";
        let options = ["-hosts", hosts, "-n", "2", "-ppn", "1", "-s", "all"];
        let job = [&options[..], &["-host-timeout", seconds, "sh", "-c", script]].concat();
        ring.mpirun(1, &job).input_pipe().start()
    };
    let (mut patient, hasty) = (start("d1,d3", "120"), start("d1,d4", "8"));
    for job in [&patient, &hasty] {
        job.shows("here\nhere\n");
    }
    let [silent, lost] = [3, 4].map(|host| ring.manager(host).pid);
    process::send(silent, Signal::SIGSTOP);
    process::send(lost, Signal::SIGSTOP);
    hasty.wait().code(125).says(&["host d4 is lost", "no message from it"]).brief();
    // The other host has been silent for longer.
    process::send(silent, Signal::SIGCONT);
    drop(patient.stdin());
    patient.wait().code(0).quiet();
    process::send(lost, Signal::SIGCONT);
    ring.only_daemons_are_left();
}

#[test]
fn a_stopped_daemon_delays_no_running_job() {
    let ring = ring();
    let (recorders, job) = ring.recorders(8, &[], "d");
    ring.send(2, Signal::SIGSTOP);
    job.send(Signal::SIGUSR1);
    recorders.wait_until_ranks_got(Signal::SIGUSR1);
    recorders.stop();
    job.wait().code(0).quiet();
    ring.send(2, Signal::SIGCONT);
    ring.agree();
    ring.only_daemons_are_left();
}

#[test]
fn a_job_that_cannot_start_on_a_stopped_host_names_it_and_ends() {
    let ring = roomy().faster(4).with(4);
    ring.send(3, Signal::SIGSTOP);
    let run = ring.mpirun(1, &["-n", "8", "sleep", "60"]).deadline(90);
    run.output().code(125).says(&["d3"]);
    ring.send(3, Signal::SIGCONT);
    ring.agree();
    ring.only_daemons_are_left();
    ring.mpirun(1, &["-n", "8", "true"]).output().code(0).quiet();
}

#[test]
fn a_job_whose_daemon_is_killed_during_the_start_either_runs_or_fails() {
    let ring = roomy().faster(4).with(4);
    for round in 0..sample(12, 100) {
        let index = round % 4 + 1;
        let mut job = ring.mpirun(1, &["-n", "8", "sleep", "60"]).deadline(60).start();
        ring.manager(index);
        // At different moments of the start.
        std::thread::sleep(Duration::from_millis((round as u64 / 4 * 2) % 30));
        ring.kill(index);
        ring.start_again(index);
        ring.agree();
        let runs = || ring.suite.running("sleep").len() == 8;
        wait_until("it runs or is over", || job.has_ended() || runs());
        if !job.has_ended() {
            // A job that was submitted again may run in a private ring.
            if index > 1 {
                wait_until("the new daemon knows it", || knows_all_managers(&ring, index));
            }
            job.send(Signal::SIGTERM);
            job.wait().code(143);
        } else {
            let output = job.wait();
            assert!(index > 1, "a job whose first daemon dies is submitted again: {output}");
            output.code(125).brief();
        }
        ring.only_daemons_are_left();
    }
}

#[test]
fn a_manager_that_loses_its_daemon_before_its_job_arrives_is_adopted() {
    let ring = ring();
    let job = ring.mpirun(1, &["-n", "8", "sleep", "60"]).deadline(60).start();
    let root = ring.manager(1);
    // The root usually has not sent the job to the other managers yet, so they wait for it.
    process::send(root.pid, Signal::SIGSTOP);
    let last = ring.manager(4);
    let waits = || Process::read(last.pid).is_some_and(|process| process.state == 'S');
    wait_until("a manager that waits", || (0..20).all(|_| waits()));
    ring.kill(4);
    ring.start_again(4);
    process::send(root.pid, Signal::SIGCONT);
    wait_until("the ranks", || ring.suite.running("sleep").len() == 8);
    ring.agree();
    wait_until("the new daemon knows it", || knows_all_managers(&ring, 4));
    job.send(Signal::SIGTERM);
    job.wait().code(143);
    ring.only_daemons_are_left();
}

/// Whether a daemon lists the one job with the managers of all four hosts.
fn knows_all_managers(ring: &Members, index: usize) -> bool {
    let listed = ring.listed(index);
    listed.len() == 4 && listed.iter().all(|hosted| hosted.part.manager > 0)
}
