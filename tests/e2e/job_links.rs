//! Job links: connections between managers through a daemon's port.

use std::io::Write as _;
use std::net::TcpStream;

use mpd_io::network::conn::{Conn, Filled};
use mpd_wire::message::ManagerOrder;

use crate::attacker::{Claim, JOB_LINK, M2, connect, key_in, rest};
use crate::manager::{KEY, MANAGER, Orphaned, order};

/// A job link to the manager of this instance, after its hello was sent.
fn link(host: &Orphaned, key: [u8; 32], manager: [u8; 16]) -> TcpStream {
    numbered_link(host, key, manager, 0)
}

/// The same with a number in its hello. A repeated number looks like a recording.
fn numbered_link(host: &Orphaned, key: [u8; 32], manager: [u8; 16], number: u8) -> TcpStream {
    let mut claim = Claim::new(key, JOB_LINK, 3);
    claim.hello.to = manager;
    claim.hello.nonce[0] ^= number;
    let mut stream = connect(host.member.address);
    stream.write_all(&claim.m1()).expect("it listens");
    stream
}

/// Waits for a link; returns its hello and the connection.
fn passed(manager: &mut Conn) -> (Vec<u8>, TcpStream) {
    let ManagerOrder::Link { hello } = order(manager) else { panic!("another order") };
    let byte = |i: usize| u8::from_str_radix(&hello[2 * i..2 * i + 2], 16).expect("digits");
    let hello = (0..hello.len() / 2).map(byte).collect();
    (hello, manager.take_descriptor().expect("its connection").into())
}

#[test]
fn a_daemon_passes_a_job_link_with_its_hello_to_the_manager() {
    let host = Orphaned::new("7@elsewhere", 1);
    let mut manager = host.register();
    let mut far = link(&host, KEY, MANAGER);
    let (hello, mut near) = passed(&mut manager);
    let mut claim = Claim::new(KEY, JOB_LINK, 3);
    claim.hello.to = MANAGER;
    assert_eq!(hello, claim.m1());
    near.write_all(&[7; M2]).expect("it is open");
    drop(near);
    assert_eq!(rest(&mut far), [7; M2], "the daemon has neither spoken nor closed");
}

#[test]
fn a_job_link_waits_until_its_manager_registers() {
    let host = Orphaned::new("7@elsewhere", 1);
    let links = [0, 1, 2].map(|number| numbered_link(&host, KEY, MANAGER, number));
    host.ring.lap(1);
    let mut manager = host.register();
    for _ in &links {
        passed(&mut manager);
    }
}

#[test]
fn a_replayed_hello_of_a_job_link_is_not_passed_on() {
    let host = Orphaned::new("7@elsewhere", 1);
    let mut manager = host.register();
    let _first = link(&host, KEY, MANAGER);
    passed(&mut manager);
    assert!(rest(&mut link(&host, KEY, MANAGER)).is_empty());
    let log = host.ring.log(1);
    assert!(log.contains("received before: it may be a replay"), "{log}");
}

#[test]
fn a_job_link_with_a_wrong_key_gets_no_byte_and_reaches_no_manager() {
    let host = Orphaned::new("7@elsewhere", 1);
    let mut manager = host.register();
    assert!(rest(&mut link(&host, [9; 32], MANAGER)).is_empty());
    let ring_key = key_in(&host.ring.suite.path("home/key"));
    assert!(rest(&mut link(&host, ring_key, MANAGER)).is_empty(), "the ring's key is another one");
    assert_eq!(manager.fill().expect("a daemon"), Filled::Empty);
}
