//! Draining hosts get no new processes unless a user names them, and every daemon knows which hosts drain.

use std::time::Duration;

use mpd_wire::DaemonName;
use mpd_wire::message::{ConsoleReply, RingRequest};

use crate::across::{ring, roomy};
use crate::members::Members;
use crate::run::comes_true;

/// Asks `from` to start or to end the draining of `hosts`.
fn drain(ring: &Members, from: usize, hosts: &[usize], draining: bool) {
    let name = |host: &usize| DaemonName::new(&format!("d{host}")).expect("a name");
    let request = RingRequest::Drain { members: hosts.iter().map(name).collect(), draining };
    match ring.ask(from, request) {
        Ok(ConsoleReply::Done { missing }) => assert!(missing.is_empty(), "{missing:?}"),
        other => panic!("d{from} refuses to drain: {other:?}"),
    }
    // The asked daemon knows it when it answers, the other daemons shortly afterwards.
    let known = |of: usize| {
        let all = hosts.iter().map(|host| ring.record(of, &format!("d{host}")));
        all.into_iter().all(|record| record.is_some_and(|record| record.draining == draining))
    };
    assert!(known(from));
    let indices = ring.indices();
    let by_all = || indices.iter().all(|&of| known(of));
    assert!(comes_true(Duration::from_secs(10), by_all), "not every daemon knows about {hosts:?}");
}

/// The rank map of a job.
fn map(ring: &Members, from: usize, arguments: &[&str]) -> String {
    let output = ring.mpirun(from, &["-print-rank-map"]).args(arguments).arg("true").output();
    output.code(0).quiet().out()
}

#[test]
fn a_draining_host_gets_no_ranks_until_it_is_released() {
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
fn a_new_member_knows_the_draining_hosts_and_a_restarted_daemon_does_not_drain() {
    let ring = roomy().with(3);
    drain(&ring, 1, &[2], true);
    ring.start(4);
    ring.agree();
    assert_eq!(map(&ring, 4, &["-n", "6"]), "(d4:0-1)(d1:2-3)(d3:4-5)\n");
    ring.kill(2);
    ring.start_again(2);
    ring.agree();
    let drains = |of| ring.record(of, "d2").is_none_or(|record| record.draining);
    let no_daemon_reports_it = || ring.indices().into_iter().all(|of| !drains(of));
    assert!(comes_true(Duration::from_secs(10), no_daemon_reports_it));
    let members = vec![DaemonName::new("d9").expect("a name")];
    let problem = ring.refusal(1, RingRequest::Drain { members, draining: true });
    assert!(problem.contains("no daemon d9"), "{problem}");
    ring.only_daemons_are_left();
}
