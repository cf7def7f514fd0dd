//! Outsiders that connect to the managers of a running job.

use std::io::Write as _;

use nix::sys::signal::Signal;

use crate::across::ring;
use crate::attacker::{Claim, JOB_LINK, connect, key_in, rest};

#[test]
fn managers_of_a_running_job_send_no_byte_to_an_outsider() {
    let ring = ring();
    let (recorders, job) = ring.recorders(8, &[], "d");
    let ring_key = key_in(&ring.suite.path("home/key"));
    let mut outsiders = Vec::new();
    for index in 1..=4 {
        for (key, manager) in [([9; 32], [7; 16]), (ring_key, [7; 16]), (ring_key, [0; 16])] {
            let mut claim = Claim::new(key, JOB_LINK, 3);
            claim.hello.to = manager;
            let mut stream = connect(ring.member(index).address);
            stream.write_all(&claim.m1()).expect("it listens");
            outsiders.push(stream);
        }
    }
    // No manager refuses a connection at once, so that the outsider does not learn which process listens.
    assert!(outsiders.iter_mut().all(|stream| rest(stream).is_empty()), "a manager has answered");
    job.send(Signal::SIGUSR1);
    recorders.wait_until_ranks_got(Signal::SIGUSR1);
    recorders.stop();
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}
