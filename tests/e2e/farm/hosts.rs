//! Farms over the daemons of a ring; each daemon represents a host.

use nix::sys::signal::Signal;

use super::{check_each_once, hosts, lines, recorded};
use crate::members::Members;
use crate::process;
use crate::run::{Run, wait_until};

impl Members {
    /// `mpdfarm` with a job log, through d1.
    fn farm(&self, arguments: &[&str], input: &str) -> Run {
        let farm = self.suite.farm(["--joblog", "log"], input);
        farm.args(arguments).env("MPD_RUNDIR", self.rundir(1))
    }

    /// Waits until the job log has so many tasks.
    fn recorded(&self, count: usize) {
        let enough = || self.suite.log().exists() && recorded(&self.suite.log()).len() >= count;
        wait_until(&format!("{count} tasks are recorded"), enough);
    }
}

#[test]
fn all_hosts_of_the_ring_run_tasks() {
    let ring = Members::of(3);
    let input = lines(200, |number| format!("echo {number}; sleep 0.01"));
    let output = ring.farm(&["-j", "2", "-k"], &input).output();
    output.code(0).quiet().prints(&lines(200, |number| number.to_string()));
    check_each_once(&ring.suite.log(), 200);
    let hosts = hosts(&ring.suite.log());
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["d1", "d2", "d3"]);
    ring.only_daemons_are_left();
}

#[test]
fn only_the_named_hosts_run_tasks() {
    let ring = Members::of(3);
    let output = ring.farm(&["-j", "1", "--hosts", "d[2-3]"], &"sleep 0.02\n".repeat(20)).output();
    output.code(0).quiet();
    assert_eq!(hosts(&ring.suite.log()).keys().collect::<Vec<_>>(), ["d2", "d3"]);
    let refused =
        ring.suite.farm(["--hosts", "d9"], "true\n").env("MPD_RUNDIR", ring.rundir(1)).output();
    refused.code(125).says(&["d9", "no member"]).brief();
    ring.only_daemons_are_left();
}

#[test]
fn slots_that_allocations_hold_get_no_tasks_until_they_are_free() {
    let ring = Members::with_slots(2, 2);
    let hold = |slots: &str, hosts: &str| {
        let words = ["-n", slots, "--hosts", hosts, "cat"];
        let holder = ring.tool(1, "mpdalloc", &words).input_pipe().start();
        wait_until("the slots are held", || holder.stderr().contains(" has "));
        holder
    };
    let first = hold("3", "d1,d1,d2");
    let input =
        lines(6, |number| format!("touch r{number}; ls r* | wc -l; sleep 0.2; rm r{number}"));
    let output = ring.farm(&[], &input).output();
    output.code(0).quiet().prints(&"1\n".repeat(6));
    assert_eq!(hosts(&ring.suite.log()).keys().collect::<Vec<_>>(), ["d2"]);
    std::fs::remove_file(ring.suite.log()).expect("a job log");
    let second = hold("1", "d2");
    let refused = ring.farm(&["-now"], "true\n").output();
    refused.code(125).says(&["the slots are not free now"]).brief();
    let farm = ring.farm(&[], &lines(4, |_| "echo ran".to_owned())).start();
    wait_until("it waits", || farm.stderr().contains("waits: allocations hold all slots"));
    drop(first);
    farm.wait().code(0).prints(&"ran\n".repeat(4));
    drop(second);
    ring.only_daemons_are_left();
}

#[test]
fn an_allocation_that_begins_later_gets_the_slots_of_a_farm_for_itself() {
    let ring = Members::with_slots(1, 2);
    let running = "mkdir r.$MPD_FARM_TASK; ls -d r.* | wc -l; sleep 0.1; rmdir r.$MPD_FARM_TASK\n";
    let farm = ring.farm(&[], &running.repeat(80)).start();
    wait_until("two run", || farm.stdout().contains('2'));
    let script = "sleep 3; for i in 1 2 3 4 5 6; do ls -d r.* | wc -l; sleep 0.05; done";
    let held = ring.tool(1, "mpdalloc", &["-q", "-n", "1", "sh", "-c", script]).output();
    assert!(held.code(0).out().lines().all(|line| line == "0" || line == "1"), "{held}");
    farm.wait().code(0);
    check_each_once(&ring.suite.log(), 80);
    ring.only_daemons_are_left();
}

#[test]
fn every_task_has_one_result_although_a_host_dies() {
    let ring = Members::of(3);
    let input = lines(300, |number| format!("sleep 0.03; echo {number}"));
    let farm = ring.farm(&["-j", "2", "--retry", "1", "-k"], &input).start();
    ring.recorded(60);
    let manager = ring.process(2).children().into_iter().find(process::Process::is_manager);
    ring.kill(2);
    process::send(manager.expect("a manager on d2").pid, Signal::SIGKILL);
    let output = farm.wait();
    output.code(0).prints(&lines(300, |number| number.to_string())).says(&["host d2"]);
    check_each_once(&ring.suite.log(), 300);
    // The next daemon there removes what the killed manager left.
    ring.start_again(2);
    ring.agree();
    ring.only_daemons_are_left();
}

#[test]
fn the_death_of_daemons_alone_does_not_disturb_a_farm() {
    let ring = Members::of(2);
    let input = lines(200, |number| format!("sleep 0.03; echo {number}"));
    let farm = ring.farm(&["-j", "2", "-k"], &input).start();
    ring.recorded(20);
    ring.kill(2);
    ring.recorded(60);
    ring.start_again(2);
    let output = farm.wait();
    output.code(0).quiet().prints(&lines(200, |number| number.to_string()));
    check_each_once(&ring.suite.log(), 200);
    ring.agree();
    ring.only_daemons_are_left();
}

#[test]
fn a_host_that_joins_gets_tasks() {
    let ring = Members::of(1);
    let input = "sleep 0.05\n".repeat(400);
    let farm = ring.farm(&["-j", "2"], &input).start();
    ring.recorded(5);
    ring.start(2);
    farm.wait().code(0).quiet();
    check_each_once(&ring.suite.log(), 400);
    assert_eq!(hosts(&ring.suite.log()).keys().collect::<Vec<_>>(), ["d1", "d2"]);
    ring.only_daemons_are_left();
}

#[test]
fn a_free_host_gets_tasks_that_wait_at_another_one() {
    let ring = Members::of(2);
    // The first tasks are short, so both hosts get further ones in advance. Then one of them is busy for long.
    let input = format!("{}sleep 4\n{}", "true\n".repeat(400), "sleep 0.05\n".repeat(20));
    ring.farm(&["-j", "1"], &input).output().code(0).quiet();
    check_each_once(&ring.suite.log(), 421);
    let text = std::fs::read_to_string(ring.suite.log()).expect("a job log");
    let last = text.lines().last().expect("a line");
    assert!(last.ends_with("sleep 4"), "short tasks have waited for the long one: {last}");
    ring.only_daemons_are_left();
}
