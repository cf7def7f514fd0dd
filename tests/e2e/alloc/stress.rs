//! Random requests over a ring whose daemons die.

use std::fs;

use mpd_tests::slots::{COUNTING, was_made};
use nix::sys::signal::Signal;

use crate::members::Members;
use crate::run::sample;

const HOSTS: usize = 4;
const SLOTS: u32 = 3;

/// Pseudo-random numbers: the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn host(&mut self) -> usize {
        self.below(HOSTS as u64) as usize + 1
    }
}

#[test]
fn no_slot_is_held_twice_and_every_request_ends_although_daemons_die() {
    let ring = Members::with_slots(HOSTS, SLOTS);
    for host in 1..=HOSTS {
        fs::write(ring.suite.path(format!("work/used.d{host}")), "0\n").unwrap();
    }
    let mut numbers = Numbers(7);
    let mut running = Vec::new();
    let (count, mut ended) = (sample(30, 300), 0);
    for number in 0..count {
        let slots = (numbers.below(6) + 1).to_string();
        let pause = format!("0.0{}", numbers.below(10));
        let mut words = vec!["-q", "-n", &slots];
        let patterns = format!("d{},*", numbers.host());
        match numbers.below(4) {
            0 => words.push("-soft"),
            1 => words.extend(["--hosts", &patterns]),
            2 => words.extend(["-t", "60"]),
            _ => {}
        }
        let name = number.to_string();
        words.extend(["sh", "-c", COUNTING, "sh", &pause, &name]);
        let request = ring.alloc(numbers.host(), &words).env("SLOTS", SLOTS.to_string());
        running.push((number, request.deadline(120).start(), false));
        if numbers.below(8) == 0 {
            let chosen = numbers.below(running.len() as u64) as usize;
            running[chosen].1.send(Signal::SIGTERM);
            running[chosen].2 = true;
        }
        if numbers.below(12) == 0 {
            let host = numbers.host();
            ring.kill(host);
            ring.start_again(host);
        }
        if running.len() > 16 {
            ended += usize::from(ends(running.remove(0)));
        }
    }
    for request in running {
        ended += usize::from(ends(request));
    }
    let done = fs::read_to_string(ring.suite.path("work/done")).unwrap();
    let mut done: Vec<&str> = done.lines().collect();
    let lines = done.len();
    done.sort_unstable();
    done.dedup();
    assert_eq!(done.len(), lines, "a command ran twice");
    assert!(lines >= ended, "{lines} commands ended, and {ended} requests with success");
    assert!(!ring.suite.path("work/violations").exists(), "{:?}", violations(&ring));
    for host in 1..=HOSTS {
        assert_eq!(
            fs::read_to_string(ring.suite.path(format!("work/used.d{host}"))).unwrap(),
            "0\n"
        );
    }
    ring.agree();
    ring.all_is_free(1);
}

fn violations(ring: &Members) -> String {
    fs::read_to_string(ring.suite.path("work/violations")).unwrap_or_default()
}

/// Waits for the end of a request. Returns whether its command has run to its end.
fn ends((number, request, is_signalled): (usize, crate::run::Running, bool)) -> bool {
    let output = request.wait();
    let succeeded = output.exit_code() == Some(0);
    assert!(
        succeeded || is_signalled || !was_made(&output.err()),
        "request {number}: {:?} {}",
        output.exit_code(),
        output.err()
    );
    succeeded
}
