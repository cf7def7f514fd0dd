//! The order of requests, and the number of slots that each gets.

use std::fs;

use crate::members::Members;
use crate::run::wait_until;

#[test]
fn a_command_gets_slots_and_mpirun_uses_exactly_these() {
    let ring = Members::with_slots(2, 2);
    let map = ["-n", "3", "mpirun", "-print-rank-map", "true"];
    let output = ring.alloc(1, &map).output();
    output.code(0).prints("(d1:0-1)(d2:2)\n").says(&["a1@d1 has d1:2 d2:1"]);
    // Fewer processes, more processes, and hosts of the allocation only.
    let script = "mpirun -n 1 -print-rank-map true; mpirun -n 4 -print-rank-map -hosts d2 true; \
                  mpirun -n 1 -hosts d9 true; echo $?";
    let output = ring.alloc(1, &["-q", "-n", "3", "sh", "-c", script]).output();
    output.code(0).prints("(d1:0)\n(d2:0-3)\n125\n").says(&["d9 is not in allocation a2@d1"]);
    ring.all_is_free(1);
}

#[test]
fn slots_and_requests_are_listed_on_every_host() {
    let ring = Members::with_slots(2, 2);
    let mut holder = ring.alloc(1, &["-n", "3", "cat"]).input_pipe().start();
    holder.tells("a1@d1 has d1:2 d2:1");
    let mut waiting = ring.alloc(2, &["-n", "2", "-t", "5:00", "true"]).start();
    waiting.tells("a1@d2 waits: 1 of its slots is free");
    assert_eq!(ring.slots(1), ["d1 2 2 0", "d2 2 1 1"]);
    assert_eq!(ring.slots(2), ["d2 2 1 1", "d1 2 2 0"]);
    let expected = [("a1@d1", "d1:2 d2:1"), ("a1@d2", "waits: 1 of its slots is free")];
    for index in [1, 2] {
        let queue = ring.queue(index);
        let queue: Vec<(&str, &str)> =
            queue.iter().map(|(id, state)| (&id[..], &state[..])).collect();
        assert_eq!(queue, expected);
    }
    let json = ring.tool(1, "mpdqueue", &["--json"]).output();
    let json: serde_json::Value = serde_json::from_str(&json.code(0).out()).unwrap();
    assert_eq!(json["entries"][0]["slots"], 3);
    assert_eq!(json["entries"][1]["why"]["too_few"]["free"], 1);
    let long = ring.tool(1, "mpdtrace", &["-l"]).output();
    assert!(long.code(0).out().lines().all(|line| line.ends_with(" 2 slots")), "{}", long.out());
    assert!(!waiting.has_ended());
    drop(holder.stdin());
    holder.wait().code(0);
    waiting.wait().code(0).says(&["a1@d2 has "]);
    ring.all_is_free(2);
}

#[test]
fn each_of_twenty_outstanding_requests_runs_its_command_once() {
    let ring = Members::with_slots(2, 2);
    let request = |number: usize| {
        let (line, slots) = (format!("echo {number} >> done"), (number % 4 + 1).to_string());
        ring.alloc(number % 2 + 1, &["-n", &slots, "sh", "-c", &line]).start()
    };
    let running: Vec<_> = (0..20).map(request).collect();
    for request in running {
        request.wait().code(0);
    }
    let mut done: Vec<usize> = fs::read_to_string(ring.suite.path("work/done"))
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    done.sort_unstable();
    assert_eq!(done, (0..20).collect::<Vec<_>>());
    ring.all_is_free(1);
}

#[test]
fn a_hard_request_waits_for_all_its_slots_and_a_soft_one_takes_what_is_free() {
    let ring = Members::with_slots(2, 5);
    let mut holder = ring.alloc(2, &["-n", "2", "--hosts", "d2", "cat"]).input_pipe().start();
    holder.tells("a1@d2 has d2:2");
    let print = |number: &'static str| ["-n", "10", number, "mpirun", "-print-rank-map", "true"];
    let soft = ring.alloc(1, &print("-soft")).output();
    soft.code(0).prints("(d1:0-4)(d2:5-7)\n");
    wait_until("these slots are free", || ring.slots(1) == ["d1 5 0 5", "d2 5 2 3"]);
    let even = ["-n", "10", "-soft", "1:7:3", "mpirun", "-print-rank-map", "true"];
    ring.alloc(1, &even).output().code(0).prints("(d1:0-4)(d2:5-6)\n");
    let mut hard = ring.alloc(1, &print("-hard")).start();
    hard.tells("waits: 8 of its slots are free");
    assert!(!hard.has_ended());
    drop(holder.stdin());
    holder.wait().code(0);
    hard.wait().code(0).prints("(d1:0-4)(d2:5-9)\n");
    ring.all_is_free(1);
}

#[test]
fn each_slot_is_on_a_host_that_its_pattern_names() {
    let ring = Members::with_slots(3, 2);
    let on = |patterns: &'static str| {
        let words = ["-n", "4", "--hosts", patterns, "mpirun", "-print-rank-map", "true"];
        let output = ring.alloc(1, &words).output();
        output.code(0);
        output.err().split_once(" has ").unwrap().1.trim_end().to_owned()
    };
    assert_eq!(on("d1,*,d3,*"), "d1:2 d3:1 d2:1");
    assert_eq!(on("^d1"), "d2:2 d3:2");
    assert_eq!(on("^d[1-1]"), "d2:2 d3:2");
    assert_eq!(on("d[1,3]"), "d1:1 d3:1 d1:1 d3:1");
    assert_eq!(on("d1,d3"), "d1:1 d3:1 d1:1 d3:1");
    let arch = ring.alloc(1, &["-n", "1", "--arch", "no_such", "true"]).start();
    arch.tells("waits: the ring has 0 slots that it may use, 1 is wanted");
    drop(arch);
    ring.all_is_free(1);
}

#[test]
fn a_job_waits_for_free_slots_if_it_is_asked_to() {
    let ring = Members::with_slots(2, 2);
    let mut holder = ring.alloc(1, &["-n", "3", "cat"]).input_pipe().start();
    holder.tells("a1@d1 has d1:2 d2:1");
    let waiting = ring.mpirun(2, &["-wait", "-n", "2", "echo", "ran"]).start();
    waiting.tells("waits: 1 of its slots is free");
    drop(holder.stdin());
    holder.wait().code(0);
    let output = waiting.wait();
    output.code(0).prints("ran\nran\n");
    ring.all_is_free(1);
}

#[test]
fn slots_with_ranks_of_a_job_without_an_allocation_are_not_free() {
    let ring = Members::with_slots(2, 2);
    let job = ring.mpirun(1, &["-n", "3", "sleep", "600"]).start();
    wait_until("the ranks run", || ring.suite.running("sleep").len() == 3);
    wait_until("they are known", || ring.slots(2) == ["d2 2 1 1", "d1 2 2 0"]);
    // A rank in an allocation counts once. The ranks hold nothing, so the allocation gets the slots.
    let held = ring.alloc(1, &["-q", "-n", "1", "--hosts", "d2", "mpirun", "sleep", "601"]).start();
    wait_until("the rank runs", || ring.suite.running("sleep").len() == 4);
    wait_until("its slot is used", || ring.slots(2) == ["d2 2 2 0", "d1 2 2 0"]);
    held.send(nix::sys::signal::Signal::SIGTERM);
    held.wait();
    job.send(nix::sys::signal::Signal::SIGTERM);
    job.wait();
    ring.all_is_free(1);
}

#[test]
fn a_request_that_must_not_wait_is_refused() {
    let ring = Members::with_slots(2, 1);
    let mut holder = ring.alloc(1, &["-n", "1", "cat"]).input_pipe().start();
    holder.tells("a1@d1 has d1:1");
    let refused = |output: &crate::run::Output, why: &str| {
        output.code(125).prints("").says(&["the slots are not free now", why]);
    };
    refused(&ring.alloc(1, &["-n", "2", "-now", "echo", "ran"]).output(), "1 of its slots is free");
    let job = ring.mpirun(2, &["-wait", "-now", "-n", "2", "echo", "ran"]).output();
    refused(&job, "1 of its slots is free");
    let many = ring.alloc(2, &["-n", "3", "--now", "echo", "ran"]).output();
    refused(&many, "the ring has 2 slots, 3 are wanted");
    ring.alloc(2, &["-n", "1", "-now", "echo", "ran"]).output().code(0).prints("ran\n");
    ring.mpirun(2, &["-wait", "-now", "-n", "1", "echo", "ran"]).output().code(0).prints("ran\n");
    drop(holder.stdin());
    holder.wait().code(0);
    ring.all_is_free(1);
}

#[test]
fn a_soft_request_without_any_slot_ends_and_a_hard_one_waits_and_says_why() {
    let ring = Members::with_slots(2, 1);
    let soft = ring.alloc(1, &["-n", "2", "-soft", "--arch", "nosuch", "true"]).output();
    soft.code(1).says(&["the ring has no slots that it may use"]).brief();
    let values = ring.alloc(2, &["-n", "5", "-soft", "4,5", "true"]).output();
    values.code(1).says(&["the ring has no slots"]).brief();
    let hard = ring.alloc(1, &["-n", "3", "true"]).start();
    hard.tells("waits: the ring has 2 slots, 3 are wanted");
    hard.send(nix::sys::signal::Signal::SIGTERM);
    hard.wait();
    ring.all_is_free(1);
}

#[test]
fn each_rank_of_an_allocation_has_its_own_string_of_the_scheduler() {
    let ring = Members::with_slots(2, 2);
    let script = "echo \"[$MPD_ALLOC_LOCAL]\"; mpirun -l sh -c 'echo \"$MPD_ALLOC_GLOBAL [$MPD_ALLOC_LOCAL]\"'";
    let words = ["-q", "-n", "4", "--info", "all", "--info-each", "a,b c,,d", "sh", "-c", script];
    let output = ring.alloc(1, &words).output();
    let own = ["0: all [a]", "1: all [b c]", "2: all []", "3: all [d]"];
    // The command has all of them, one per line.
    assert_eq!(output.code(0).sorted_lines()[1..5], own, "{output}");
    assert!(output.out().starts_with("[a\nb c\n\nd]\n"), "{output}");
    ring.all_is_free(1);
}

#[test]
fn an_allocation_can_be_used_from_another_shell() {
    let ring = Members::with_slots(2, 2);
    let mut holder = ring.alloc(1, &["-n", "2", "--hosts", "d2", "cat"]).input_pipe().start();
    holder.tells("a1@d1 has d2:2");
    let map = |alloc: &'static str| ["-alloc", alloc, "-print-rank-map", "true"];
    for alloc in ["a1", "a1@d1"] {
        ring.mpirun(1, &map(alloc)).output().code(0).prints("(d2:0-1)\n");
    }
    ring.mpirun(2, &map("a1@d1")).output().code(0).prints("(d2:0-1)\n");
    drop(holder.stdin());
    holder.wait().code(0);
    wait_until("the allocation is over", || ring.queue(1).is_empty());
    let over = ring.mpirun(1, &map("a1")).output();
    over.code(125).says(&["-alloc: there is no allocation a1@d1"]).brief();
    ring.all_is_free(1);
}

#[test]
fn a_job_without_an_allocation_avoids_held_slots() {
    let ring = Members::with_slots(2, 2);
    let hold = |patterns: &'static str| {
        let holder = ring.alloc(1, &["-n", "2", "--hosts", patterns, "cat"]).input_pipe().start();
        holder.tells(" has ");
        holder
    };
    let first = hold("d1");
    let map = |index: usize, count: &'static str| {
        ring.mpirun(index, &["-n", count, "-print-rank-map", "true"]).output()
    };
    map(1, "2").code(0).prints("(d2:0-1)\n").quiet();
    // The other daemon gets a report. Slots without a hold are shared before held ones are used.
    wait_until("d2 avoids d1", || map(2, "3").out() == "(d2:0-2)\n");
    let second = hold("d2");
    let shared = map(1, "3");
    shared.code(0).prints("(d1:0-1)(d2:2)\n").says(&["allocations hold all slots", "d1, d2"]);
    first.wait().code(0);
    second.wait().code(0);
    ring.all_is_free(1);
    wait_until("all slots count again", || map(2, "4").out() == "(d2:0-1)(d1:2-3)\n");
}

#[test]
fn a_farm_in_an_allocation_uses_its_slots() {
    let ring = Members::with_slots(2, 4);
    // Each task writes how many tasks run on its host.
    let script = "for i in 1 2 3 4 5 6 7 8; do echo 'mkdir run.$MPD_FARM_TASK; ls -d run.* | wc -l; sleep 0.1; \
                  rmdir run.$MPD_FARM_TASK'; done | mpdfarm --joblog log";
    let output = ring.alloc(1, &["-q", "-n", "2", "--hosts", "d2", "sh", "-c", script]).output();
    output.code(0);
    assert!(output.out().lines().all(|line| ["1", "2"].contains(&line)), "{}", output.out());
    let log = fs::read_to_string(ring.suite.path("work/log")).unwrap();
    assert!(log.lines().skip(1).all(|line| line.split('\t').nth(1) == Some("d2")), "{log}");
    ring.all_is_free(1);
}
