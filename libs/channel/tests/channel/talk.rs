//! Successful exchanges between the product's two sides, and with the naive implementation.

use std::time::Duration;

use super::*;

const PRIVATE: [u8; 32] = [0x77; 32];

fn naive_hello() -> naive::Hello {
    naive::Hello {
        magic: *b"MPDr",
        version: 1,
        purpose: 1,
        reserved: [0; 2],
        from: ALICE,
        to: BOB,
        nonce: [9; 32],
        ephemeral: naive::public(&PRIVATE),
    }
}

#[test]
fn the_products_initiator_talks_to_the_naive_responder() {
    let mut alice = initiator(Opening { peer: Some(instance(BOB)), ..opening() });
    let m1 = initiator_outputs(&mut alice).sent;
    let (m2, secrets) = naive::answer(&KEY, &m1, &BOB, &[8; 32], &PRIVATE).unwrap();
    let outputs = send_initiator(&mut alice, &m2);
    assert_eq!(outputs.sent, secrets.mac_i);
    let mut alice = outputs.established.unwrap();
    assert_eq!(alice.peer, instance(BOB));
    exchange(&mut alice, &secrets.key_i, &secrets.key_r);
}

#[test]
fn the_naive_initiator_talks_to_the_products_responder() {
    let mut bob = daemon(BOB);
    let m1 = naive_hello().m1(&KEY);
    let m2 = send_responder(&mut bob, &m1).sent;
    let secrets = naive::received_answer(&KEY, &m1, &m2, &PRIVATE).unwrap();
    let mut bob = send_responder(&mut bob, &secrets.mac_i).established.unwrap();
    assert_eq!((bob.peer, bob.purpose), (instance(ALICE), Purpose::Ring));
    exchange(&mut bob, &secrets.key_r, &secrets.key_i);
}

/// Frames both ways between the product and the naive implementation.
fn exchange(product: &mut Established, outgoing: &[u8; 32], incoming: &[u8; 32]) {
    let mut bytes = Vec::new();
    product.sealer.seal(&[b"to the ", b"naive"], &mut bytes).unwrap();
    product.sealer.seal(&[&[0xee; 70_000]], &mut bytes).unwrap();
    let (text, rest) = naive::open(outgoing, 0, &bytes);
    assert_eq!(text, b"to the naive");
    let (text, rest) = naive::open(outgoing, 1, rest);
    assert_eq!(text, [0xee; 70_000]);
    assert!(rest.is_empty());

    let mut bytes = naive::seal(incoming, 0, b"to the product");
    bytes.extend(naive::seal(incoming, 1, &[0xdd; 70_000]));
    bytes.extend(naive::seal(incoming, 2, b""));
    let (texts, end) = receive(&mut product.opener, &bytes, 1000);
    assert_eq!(texts, [b"to the product".to_vec(), vec![0xdd; 70_000]]);
    assert_eq!(end, Ok(()));
}

#[test]
fn every_chunking_of_the_handshake_gives_a_channel() {
    for chunk in 1..=137 {
        let (mut alice, mut bob) = (initiator(opening()), daemon(BOB));
        let mut received = Outputs::default();
        for piece in initiator_outputs(&mut alice).sent.chunks(chunk) {
            received = send_responder(&mut bob, piece);
        }
        let mut outputs = Outputs::default();
        for piece in received.sent.chunks(chunk) {
            outputs = send_initiator(&mut alice, piece);
        }
        assert_eq!(outputs.established.unwrap().peer, instance(BOB));
        for piece in outputs.sent.chunks(chunk) {
            received = send_responder(&mut bob, piece);
        }
        assert_eq!(received.established.unwrap().peer, instance(ALICE));
    }
}

#[test]
fn bytes_after_the_proof_are_left_for_the_channel() {
    let (mut alice, mut bob) = (initiator(opening()), daemon(BOB));
    let m2 = send_responder(&mut bob, &initiator_outputs(&mut alice).sent).sent;
    let outputs = send_initiator(&mut alice, &m2);
    let mut bytes = outputs.sent;
    outputs.established.unwrap().sealer.seal(&[b"at once"], &mut bytes).unwrap();
    assert_eq!(bob.wanted(), 32);
    let used = bob.receive(&bytes, &SystemRandom::new());
    assert_eq!((used, bob.wanted()), (32, 0));
    let mut bob = responder_outputs(&mut bob).established.unwrap();
    assert_eq!(receive(&mut bob.opener, &bytes[used..], 7).0, [b"at once"]);
}

#[test]
fn while_keys_are_changed_the_old_and_the_new_one_are_accepted() {
    let (old, new) = (key(), Key::from_bytes(OTHER_KEY));
    for connect in [&old, &new] {
        let keys = Keys::new(new.clone(), Some(old.clone()));
        let mut bob = Responder::for_daemon(keys, reception(BOB));
        let mut alice = initiator(Opening { key: connect.clone(), ..opening() });
        let m2 = send_responder(&mut bob, &initiator_outputs(&mut alice).sent).sent;
        let m3 = send_initiator(&mut alice, &m2).sent;
        let bob = send_responder(&mut bob, &m3).established.unwrap();
        assert_eq!(bob.key, connect.id());
    }
}

#[test]
fn both_sides_give_up_a_handshake_after_the_time_limit() {
    let (mut alice, mut bob) = (initiator(opening()), daemon(BOB));
    let m1 = initiator_outputs(&mut alice).sent;
    let due = Time::from_micros(5);
    assert_eq!((alice.poll_timeout(), bob.poll_timeout()), (Some(due), Some(due)));
    alice.handle_timeout(Time::from_micros(4));
    bob.handle_timeout(Time::from_micros(4));
    assert!(alice.poll_output().is_none() && bob.poll_output().is_none());

    let m2 = send_responder(&mut bob, &m1).sent;
    bob.handle_timeout(due);
    alice.handle_timeout(due + Duration::from_secs(1));
    assert_eq!(responder_outputs(&mut bob).closed, Some(HandshakeError::TimedOut));
    assert_eq!(initiator_outputs(&mut alice).closed, Some(HandshakeError::TimedOut));
    let late = send_initiator(&mut alice, &m2);
    assert!(late.sent.is_empty() && late.established.is_none());
    assert_eq!((alice.poll_timeout(), bob.poll_timeout()), (None, None));
}

#[test]
fn an_initiator_without_an_answer_reports_the_id_of_its_own_key() {
    let mut alice = initiator(opening());
    initiator_outputs(&mut alice);
    alice.peer_closed();
    let error = initiator_outputs(&mut alice).closed.unwrap();
    assert_eq!(error, HandshakeError::Silence(key().id()));
    assert!(error.to_string().contains(&naive::id(&KEY)), "{error}");

    let mut alice = initiator(opening());
    initiator_outputs(&mut alice);
    send_initiator(&mut alice, &[0; 111]);
    alice.peer_closed();
    assert_eq!(initiator_outputs(&mut alice).closed, Some(HandshakeError::Closed));
}

#[test]
fn another_version_gets_a_refusal_with_the_key_and_no_answer_without_it() {
    for version in [0, 2, 255] {
        let hello = naive::Hello { version, ..naive_hello() };
        let m1 = hello.m1(&KEY);
        let mut bob = daemon(BOB);
        let outputs = send_responder(&mut bob, &m1);
        assert_eq!(outputs.closed, Some(HandshakeError::Version(version)));
        assert_eq!(bob.x25519_operations(), 0);
        let words = outputs.sent[8..80].iter().take_while(|&&byte| byte != 0).copied();
        let words = String::from_utf8(words.collect()).unwrap();
        assert!(words.ends_with(&format!("speaks protocol 1, you speak {version}")), "{words}");
        assert_eq!(outputs.sent, naive::refusal(&KEY, &m1, 1, words.as_bytes()));

        let mut bob = daemon(BOB);
        let outputs = send_responder(&mut bob, &hello.m1(&OTHER_KEY));
        assert_eq!(outputs.closed, Some(HandshakeError::Stranger));
        assert!(outputs.sent.is_empty());
    }
}

#[test]
fn a_refusal_is_made_printable_and_a_forged_one_is_ignored() {
    let mut alice = initiator(opening());
    let m1 = initiator_outputs(&mut alice).sent;
    let refusal = naive::refusal(&KEY, &m1, 3, b"install\x1b[31m mpd 3");
    let text = "install?[31m mpd 3".to_owned();
    let refused = HandshakeError::Refused { version: 3, text };
    assert_eq!(send_initiator(&mut alice, &refusal).closed, Some(refused));

    let mut alice = initiator(opening());
    let m1 = initiator_outputs(&mut alice).sent;
    let forged = naive::refusal(&OTHER_KEY, &m1, 3, b"go away");
    assert_eq!(send_initiator(&mut alice, &forged).closed, Some(HandshakeError::Stranger));
    let mut alice = initiator(opening());
    initiator_outputs(&mut alice);
    assert_eq!(send_initiator(&mut alice, &refusal).closed, Some(HandshakeError::Stranger));
}
