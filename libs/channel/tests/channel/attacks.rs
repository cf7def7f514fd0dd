//! Attacks A1, A2, A4, A15 of the threat model: the results for peers without the key, for replays
//! and for relays.

use super::*;

fn stranger_hello() -> naive::Hello {
    naive::Hello {
        magic: *b"MPDr",
        version: 1,
        purpose: 1,
        reserved: [0; 2],
        from: ALICE,
        to: [0; 16],
        nonce: [9; 32],
        ephemeral: naive::public(&[0x77; 32]),
    }
}

/// The responder sent nothing, computed nothing, and reports this error.
fn assert_silent(bob: &mut Responder, m1: &[u8], error: &HandshakeError) {
    let outputs = send_responder(bob, m1);
    assert_eq!(outputs.closed.as_ref(), Some(error));
    assert!(outputs.sent.is_empty() && outputs.established.is_none());
    assert_eq!(bob.x25519_operations(), 0);
}

#[test]
fn two_thousand_peers_without_the_key_get_no_byte_and_cost_no_x25519() {
    let mut m1 = stranger_hello().m1(&OTHER_KEY);
    for i in 0..2000_usize {
        m1[40 + i % 96] ^= (i % 255) as u8 + 1;
        assert_silent(&mut daemon(BOB), &m1, &HandshakeError::Stranger);
    }
    assert_silent(&mut daemon(BOB), &[0; 136], &HandshakeError::Stranger);
    let text = "GET / HTTP/1.1\r\n".repeat(9);
    assert_silent(&mut daemon(BOB), text.as_bytes(), &HandshakeError::Stranger);
    let mut bob = daemon(BOB);
    assert!(send_responder(&mut bob, &m1[..135]).sent.is_empty());
    bob.peer_closed();
    assert_eq!(responder_outputs(&mut bob).closed, Some(HandshakeError::Closed));
}

#[test]
fn an_invalid_hello_with_the_key_gets_no_byte_either() {
    let malformed = [
        naive::Hello { magic: *b"MPDn", ..stranger_hello() },
        naive::Hello { reserved: [0, 1], ..stranger_hello() },
        naive::Hello { purpose: 0, ..stranger_hello() },
        naive::Hello { purpose: 6, ..stranger_hello() },
        naive::Hello { from: [0; 16], ..stranger_hello() },
    ];
    for hello in malformed {
        assert_silent(&mut daemon(BOB), &hello.m1(&KEY), &HandshakeError::Malformed);
    }
    let elsewhere = naive::Hello { to: [0xcc; 16], ..stranger_hello() };
    assert_silent(&mut daemon(BOB), &elsewhere.m1(&KEY), &HandshakeError::AnotherInstance);
}

#[test]
fn a_public_key_without_a_secret_is_refused_by_both_sides() {
    let m1 = naive::Hello { ephemeral: [0; 32], ..stranger_hello() }.m1(&KEY);
    let outputs = send_responder(&mut daemon(BOB), &m1);
    assert_eq!(outputs.closed, Some(HandshakeError::WeakPublicKey));
    assert!(outputs.sent.is_empty());

    let mut alice = initiator(opening());
    initiator_outputs(&mut alice);
    let outputs = send_initiator(&mut alice, &[[0xb2; 48].as_slice(), &[0; 64]].concat());
    assert_eq!(outputs.closed, Some(HandshakeError::Stranger));
}

#[test]
fn a_daemon_does_not_talk_to_itself_directly_or_through_a_relay() {
    // A relay needs no separate test: it can only deliver the same bytes.
    let mut alice = initiator(opening());
    let m1 = initiator_outputs(&mut alice).sent;
    assert_silent(&mut daemon(ALICE), &m1, &HandshakeError::Reflected);

    // An answer with the key and with our own instance does not come from a peer.
    let (m2, _) = naive::answer(&KEY, &m1, &ALICE, &[3; 32], &[4; 32]).unwrap();
    let outputs = send_initiator(&mut alice, &m2);
    assert_eq!(outputs.closed, Some(HandshakeError::Reflected));
    assert!(outputs.sent.is_empty());
}

#[test]
fn a_relay_cannot_deliver_a_hello_to_another_member_than_it_names() {
    let mut alice = initiator(Opening { peer: Some(instance(BOB)), ..opening() });
    let m1 = initiator_outputs(&mut alice).sent;
    let carol = [0xc3; 16];
    assert_silent(&mut daemon(carol), &m1, &HandshakeError::AnotherInstance);

    let (m2, _) = naive::answer(&KEY, &m1, &carol, &[3; 32], &[4; 32]).unwrap();
    let outputs = send_initiator(&mut alice, &m2);
    assert_eq!(outputs.closed, Some(HandshakeError::AnotherInstance));
    assert!(outputs.sent.is_empty(), "no proof for the wrong one");

    let mut alice = initiator(opening());
    let m1 = initiator_outputs(&mut alice).sent;
    let (m2, _) = naive::answer(&KEY, &m1, &[0; 16], &[3; 32], &[4; 32]).unwrap();
    assert_eq!(send_initiator(&mut alice, &m2).closed, Some(HandshakeError::Malformed));
}

#[test]
fn a_reflected_message_proves_nothing() {
    let mut alice = initiator(opening());
    let m1 = initiator_outputs(&mut alice).sent;
    let outputs = send_initiator(&mut alice, &m1[..112]);
    assert_eq!(outputs.closed, Some(HandshakeError::Stranger));
    assert!(outputs.sent.is_empty());

    let mut bob = daemon(BOB);
    let m2 = send_responder(&mut bob, &m1).sent;
    let outputs = send_responder(&mut bob, &m2[80..]);
    assert_eq!(outputs.closed, Some(HandshakeError::Stranger));

    let mut all = handshake();
    let mut frame = Vec::new();
    all.alice.sealer.seal(&[b"mine"], &mut frame).unwrap();
    let received = receive(&mut all.alice.opener, &frame, 100);
    assert_eq!(received, (vec![], Err(ChannelError::Forged)));
}

#[test]
fn no_replay_of_a_recorded_message_is_accepted() {
    let mut recorded = handshake();
    let mut frames = Vec::new();
    recorded.alice.sealer.seal(&[b"start a job"], &mut frames).unwrap();

    for _ in 0..2000 {
        // To a responder: the hello looks fresh to it, but the recorded proof is useless.
        let mut bob = daemon(BOB);
        let m2 = send_responder(&mut bob, &recorded.m1).sent;
        assert_ne!(m2, recorded.m2);
        let outputs = send_responder(&mut bob, &recorded.m3);
        assert_eq!(outputs.closed, Some(HandshakeError::Stranger));
        assert!(outputs.sent.is_empty() && outputs.established.is_none());
        // To an initiator.
        let mut alice = initiator(opening());
        initiator_outputs(&mut alice);
        let outputs = send_initiator(&mut alice, &recorded.m2);
        assert_eq!(outputs.closed, Some(HandshakeError::Stranger));
        assert!(outputs.sent.is_empty());
    }

    let received = receive(&mut recorded.bob.opener, &frames.repeat(2), 100);
    assert_eq!(received, (vec![b"start a job".to_vec()], Err(ChannelError::Forged)));
    for _ in 0..2000 {
        let mut other = handshake();
        let received = receive(&mut other.bob.opener, &frames, 100);
        assert_eq!(received, (vec![], Err(ChannelError::Forged)));
    }
}

#[test]
fn repeated_randomness_on_one_side_gives_new_keys_if_the_other_side_is_fresh() {
    let (one, other) = (handshake(), handshake());
    assert_ne!(one.m1[72..104], other.m1[72..104], "X25519 keys are never reused");
    assert_ne!(one.m2[48..], other.m2[48..]);
    assert_ne!(one.m3, other.m3);
}
