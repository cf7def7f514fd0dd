//! Hosts that are draining get no new processes, unless they are named, and all daemons know it.

use std::time::Duration;

use mpd_wire::DaemonName;
use mpd_wire::message::{ConsoleReply, RingRequest};

use crate::across::{ring, roomy};
use crate::members::Members;
use crate::run::comes_true;

/// Tells `from` that `hosts` are to be draining, or not to be.
fn drain(ring: &Members, from: usize, hosts: &[usize], draining: bool) {
    let name = |host: &usize| DaemonName::new(&format!("d{host}")).expect("a name");
    let request = RingRequest::Drain { members: hosts.iter().map(name).collect(), draining };
    match ring.ask(from, request) {
        Ok(ConsoleReply::Done { missing }) => assert!(missing.is_empty(), "{missing:?}"),
        other => panic!("d{from} drains nobody: {other:?}"),
    }
    // Whoever was asked knows it when it answers, the others very soon.
    let known = |of: usize| {
        let all = hosts.iter().map(|host| ring.record(of, &format!("d{host}")));
        all.into_iter().all(|record| record.is_some_and(|record| record.draining == draining))
    };
    assert!(known(from));
    let indices = ring.indices();
    let by_all = || indices.iter().all(|&of| known(of));
    assert!(comes_true(Duration::from_secs(10), by_all), "not everybody knows of {hosts:?}");
}

/// Where the ranks of a job run.
fn map(ring: &Members, from: usize, words: &[&str]) -> String {
    let output = ring.mpirun(from, &["-print-rank-map"]).args(words).arg("true").output();
    output.code(0).quiet().out()
}

#[test]
fn a_draining_host_gets_no_ranks_until_that_is_undone() {
    let ring = ring();
    drain(&ring, 1, &[2, 3], true);
    assert_eq!(map(&ring, 1, &["-n", "4"]), "(d1:0-1)(d4:2-3)\n");
    assert_eq!(map(&ring, 2, &["-n", "3"]), "(d4:0-1)(d1:2)\n", "its own host is draining");
    let named = ring.mpirun(1, &["-hosts", "d3,d4", "-n", "3", "hostname"]).output();
    named.code(0).says(&["draining", "d3"]).brief();
    drain(&ring, 4, &[2], false);
    assert_eq!(map(&ring, 1, &["-n", "4"]), "(d1:0-1)(d2:2-3)\n");
    drain(&ring, 1, &[1, 2, 4], true);
    let refused = ring.mpirun(1, &["-n", "1", "true"]).output();
    refused.code(125).says(&["d1, d2, d3, d4", "mpddrain"]).brief();
    drain(&ring, 3, &[1, 2, 3, 4], false);
    assert_eq!(map(&ring, 1, &["-n", "4"]), "(d1:0-1)(d2:2-3)\n");
    ring.only_daemons_are_left();
}

#[test]
fn newcomers_know_who_is_draining_and_a_daemon_that_starts_again_is_not() {
    let ring = roomy().with(3);
    drain(&ring, 1, &[2], true);
    ring.start(4);
    ring.agree();
    assert_eq!(map(&ring, 4, &["-n", "6"]), "(d4:0-1)(d1:2-3)(d3:4-5)\n");
    ring.kill(2);
    ring.start_again(2);
    ring.agree();
    let drains = |of| ring.record(of, "d2").is_none_or(|record| record.draining);
    let nobody_says_so = || ring.indices().into_iter().all(|of| !drains(of));
    assert!(comes_true(Duration::from_secs(10), nobody_says_so));
    let members = vec![DaemonName::new("d9").expect("a name")];
    let problem = ring.refusal(1, RingRequest::Drain { members, draining: true });
    assert!(problem.contains("no daemon d9"), "{problem}");
    ring.only_daemons_are_left();
}
