//! Job links: the daemon checks and passes them on, the manager answers.

use super::*;

const MANAGER: [u8; 16] = [0xc3; 16];

fn job_opening() -> Opening {
    let peer = Some(instance(MANAGER));
    Opening { key: Key::from_bytes(OTHER_KEY), peer, purpose: Purpose::JobLink, ..opening() }
}

fn manager(me: [u8; 16]) -> Responder {
    Responder::for_manager(Key::from_bytes(OTHER_KEY), reception(me))
}

#[test]
fn a_job_link_passes_through_the_daemon_to_its_manager() {
    let (mut alice, mut bob) = (initiator(job_opening()), daemon(BOB));
    let m1 = initiator_outputs(&mut alice).sent;
    let outputs = send_responder(&mut bob, &m1);
    assert_eq!(outputs.wanted_manager, Some(instance(MANAGER)));
    assert!(outputs.sent.is_empty() && bob.wanted() == 0);
    bob.manager_key(Some(&Key::from_bytes(OTHER_KEY)));
    let hello = responder_outputs(&mut bob).passed_on.unwrap();
    assert_eq!((&hello, bob.x25519_operations()), (&m1, 0));
    assert_eq!(bob.poll_timeout(), None);

    let mut manager = manager(MANAGER);
    let m2 = send_responder(&mut manager, &hello).sent;
    let outputs = send_initiator(&mut alice, &m2);
    let manager = send_responder(&mut manager, &outputs.sent).established.unwrap();
    assert_eq!((manager.peer, manager.purpose), (instance(ALICE), Purpose::JobLink));
    assert_eq!(outputs.established.unwrap().peer, instance(MANAGER));
}

#[test]
fn a_job_link_without_a_manager_or_the_jobs_key_gets_no_answer() {
    for (hello_key, job_key) in [(OTHER_KEY, None), (KEY, Some(Key::from_bytes(OTHER_KEY)))] {
        let key = Key::from_bytes(hello_key);
        let mut alice = initiator(Opening { key, ..job_opening() });
        let mut bob = daemon(BOB);
        send_responder(&mut bob, &initiator_outputs(&mut alice).sent);
        bob.manager_key(job_key.as_ref());
        let outputs = responder_outputs(&mut bob);
        assert_eq!(outputs.closed, Some(HandshakeError::Stranger));
        assert!(outputs.sent.is_empty() && outputs.passed_on.is_none());
    }
}

#[test]
fn a_manager_found_after_the_time_limit_changes_nothing() {
    let (mut alice, mut bob) = (initiator(job_opening()), daemon(BOB));
    send_responder(&mut bob, &initiator_outputs(&mut alice).sent);
    bob.handle_timeout(Time::from_micros(5));
    assert_eq!(responder_outputs(&mut bob).closed, Some(HandshakeError::TimedOut));
    bob.manager_key(Some(&Key::from_bytes(OTHER_KEY)));
    assert!(bob.poll_output().is_none());
}

#[test]
fn a_manager_refuses_links_for_another_manager_and_links_of_the_ring() {
    let mut alice = initiator(job_opening());
    let outputs = send_responder(&mut manager([0xc4; 16]), &initiator_outputs(&mut alice).sent);
    assert_eq!(outputs.closed, Some(HandshakeError::AnotherInstance));
    assert!(outputs.sent.is_empty());

    for purpose in [Purpose::Ring, Purpose::Join, Purpose::Chord, Purpose::Probe] {
        let mut alice = initiator(Opening { purpose, ..job_opening() });
        let outputs = send_responder(&mut manager(MANAGER), &initiator_outputs(&mut alice).sent);
        assert_eq!(outputs.closed, Some(HandshakeError::Malformed));
        assert!(outputs.sent.is_empty());
    }
}

#[test]
fn a_job_link_without_a_manager_is_malformed_for_the_daemon_too() {
    let mut alice = initiator(Opening { key: key(), peer: None, ..job_opening() });
    let outputs = send_responder(&mut daemon(BOB), &initiator_outputs(&mut alice).sent);
    assert_eq!(outputs.closed, Some(HandshakeError::Malformed));
    assert!(outputs.sent.is_empty());
}

#[test]
fn the_purpose_and_the_expected_peer_reach_the_other_side() {
    for purpose in [Purpose::Ring, Purpose::Join, Purpose::Chord, Purpose::Probe] {
        let mut alice = initiator(Opening { purpose, peer: Some(instance(BOB)), ..opening() });
        let mut bob = daemon(BOB);
        let m2 = send_responder(&mut bob, &initiator_outputs(&mut alice).sent).sent;
        let m3 = send_initiator(&mut alice, &m2).sent;
        assert_eq!(send_responder(&mut bob, &m3).established.unwrap().purpose, purpose);
    }
}
