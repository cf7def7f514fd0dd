//! Allocations survive the death of daemons, and end with their owners.

use nix::sys::signal::Signal;

use crate::members::Members;
use crate::process::Process;
use crate::run::wait_until;

#[test]
fn an_allocation_survives_the_daemon_of_its_owner_and_that_of_its_slots() {
    let ring = Members::with_slots(2, 2);
    let script = "read line; mpirun -print-rank-map true";
    let mut holder = ring.alloc(1, &["-n", "3", "sh", "-c", script]).input_pipe().start();
    holder.tells("a1@d1 has d1:2 d2:1");
    let waiting = ring.alloc(2, &["-n", "4", "true"]).start();
    waiting.tells("a1@d2 waits: 1 of its slots is free");
    for killed in [1, 2] {
        ring.kill(killed);
        ring.start_again(killed);
        ring.agree();
        let is_back = || {
            let queue = ring.queue(2);
            ring.slots(2) == ["d2 2 1 1", "d1 2 2 0"]
                && queue.iter().any(|(id, state)| id == "a1@d1" && state == "d1:2 d2:1")
                && queue.iter().any(|(id, state)| id == "a1@d2" && state.starts_with("waits: 1 of"))
        };
        wait_until("both requests are as before", is_back);
    }
    drop(holder.stdin());
    holder.wait().code(0).prints("(d1:0-1)(d2:2)\n").says(&["waiting for the next one"]);
    waiting.wait().code(0);
    ring.all_is_free(1);
}

#[test]
fn the_death_of_the_owner_frees_its_slots_and_the_next_request_gets_them() {
    let ring = Members::with_slots(1, 2);
    let holder = ring.alloc(1, &["-n", "2", "sleep", "600"]).start();
    holder.tells("a1@d1 has d1:2");
    let waiting = ring.alloc(1, &["-n", "1", "true"]).start();
    waiting.tells("a2@d1 waits: 0 of its slots are free");
    let command = holder.process().children().into_iter().next().expect("the command");
    holder.send(Signal::SIGKILL);
    waiting.wait().code(0);
    // Without slots it must not run on.
    wait_until("the command has ended", || Process::is_gone(command.pid));
    holder.wait().ended_by(Signal::SIGKILL);
    ring.all_is_free(1);
}

#[test]
fn the_queue_survives_the_death_of_the_dispenser() {
    let ring = Members::with_slots(3, 1);
    let mut holder = ring.alloc(3, &["-n", "1", "--hosts", "d3", "cat"]).input_pipe().start();
    holder.tells("a1@d3 has d3:1");
    let mut first = ring.alloc(2, &["-n", "1", "--hosts", "d3", "cat"]).input_pipe().start();
    first.tells("a1@d2 waits: 0 of its slots are free");
    let second = ring.alloc(3, &["-n", "1", "--hosts", "d3", "true"]).start();
    second.tells("a2@d3 waits: 0 of its slots are free");
    // The member with the lowest ordinal orders the requests.
    ring.kill(1);
    ring.agree();
    drop(holder.stdin());
    holder.wait().code(0);
    first.tells("a1@d2 has d3:1");
    drop(first.stdin());
    first.wait().code(0);
    second.wait().code(0);
    ring.all_is_free(2);
}

#[test]
fn a_cancelled_allocation_ends_its_command_and_a_cancelled_request_never_runs() {
    let ring = Members::with_slots(2, 1);
    let holder = ring.alloc(1, &["-n", "2", "sleep", "600"]).start();
    holder.tells("a1@d1 has d1:1 d2:1");
    let waiting = ring.alloc(2, &["-n", "1", "sh", "-c", "echo ran"]).start();
    waiting.tells("a1@d2 waits");
    // Also from another host.
    ring.tool(1, "mpdcancel", &["a1@d2"]).output().code(0).quiet();
    waiting.wait().code(1).prints("").says(&["a1@d2 is cancelled"]);
    ring.tool(1, "mpdcancel", &["a1"]).output().code(0).quiet();
    holder.wait().code(1).says(&["a1@d1 is cancelled"]);
    let unknown = ring.tool(2, "mpdcancel", &["a1@d1"]).output();
    unknown.code(1).says(&["there is no allocation a1@d1", "mpdqueue"]).brief();
    ring.all_is_free(1);
}

#[test]
fn an_allocation_ends_at_its_time_limit_and_with_its_ring() {
    let ring = Members::with_slots(1, 1);
    let limited = ring.alloc(1, &["-n", "1", "-t", "1", "sleep", "600"]).output();
    limited.code(1).says(&["a1@d1 is over: its time limit is reached"]);
    let holder = ring.alloc(1, &["-n", "1", "sleep", "600"]).start();
    holder.tells("a2@d1 has d1:1");
    ring.tool(1, "mpdallexit", &[]).output().code(0);
    holder.wait().code(1).says(&["the daemon has left the ring, so the slots are lost"]);
    ring.forget(1);
    assert!(!ring.rundir(1).join("slots.json").exists());
}

#[test]
fn the_slots_of_a_lost_host_are_lost_and_the_others_remain() {
    let ring = Members::with_slots(3, 1);
    let script = "read line; mpirun -print-rank-map true";
    let mut holder = ring.alloc(1, &["-n", "3", "sh", "-c", script]).input_pipe().start();
    holder.tells("a1@d1 has d1:1 d2:1 d3:1");
    ring.kill(2);
    holder.tells("a1@d1 has lost its slots on d2");
    assert_eq!(ring.slots(1), ["d1 1 1 0", "d3 1 1 0"]);
    drop(holder.stdin());
    holder.wait().code(0).prints("(d1:0)(d3:1)\n");
    ring.start_again(2);
    ring.agree();
    ring.all_is_free(1);
}

#[test]
fn a_job_ends_with_the_process_that_holds_its_slots() {
    let ring = Members::with_slots(1, 2);
    let holder = ring.mpirun(1, &["-wait", "-n", "2", "sleep", "600"]).start();
    holder.tells("a1@d1 has d1:2");
    wait_until("the ranks run", || ring.suite.running("sleep").len() == 2);
    holder.send(Signal::SIGKILL);
    holder.wait().ended_by(Signal::SIGKILL);
    ring.all_is_free(1);
}
