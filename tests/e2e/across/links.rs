//! Strangers who knock for the managers of a job that runs.

use std::io::Write as _;

use nix::sys::signal::Signal;

use crate::across::ring;
use crate::attacker::{Claim, JOB_LINK, connect, key_in, rest};

#[test]
fn strangers_get_no_byte_from_the_managers_of_a_running_job() {
    let ring = ring();
    let (recorders, job) = ring.recorders(8, &[], "d");
    let ring_key = key_in(&ring.suite.path("home/key"));
    let mut strangers = Vec::new();
    for index in 1..=4 {
        for (key, manager) in [([9; 32], [7; 16]), (ring_key, [7; 16]), (ring_key, [0; 16])] {
            let mut claim = Claim::new(key, JOB_LINK, 3);
            claim.hello.to = manager;
            let mut stream = connect(ring.member(index).address);
            stream.write_all(&claim.m1()).expect("it listens");
            strangers.push(stream);
        }
    }
    // Nobody is told at once, lest he learn who is there.
    assert!(strangers.iter_mut().all(|stream| rest(stream).is_empty()), "somebody has answered");
    job.send(Signal::SIGUSR1);
    recorders.wait_until_ranks_got(Signal::SIGUSR1);
    recorders.stop();
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}
