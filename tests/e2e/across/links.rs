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
    for index in 1..=4 {
        for key in [[9; 32], ring_key] {
            for manager in [[0; 16], [7; 16]] {
                let mut claim = Claim::new(key, JOB_LINK, 3);
                claim.hello.to = manager;
                let mut stream = connect(ring.member(index).address);
                stream.write_all(&claim.m1()).expect("it listens");
                assert!(rest(&mut stream).is_empty(), "d{index} has answered");
            }
        }
    }
    job.send(Signal::SIGUSR1);
    recorders.wait_until_ranks_got(Signal::SIGUSR1);
    recorders.stop();
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}
