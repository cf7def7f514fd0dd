//! The published vectors, against both implementations.

use std::collections::BTreeMap;

use crypto::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey, X25519};
use crypto::rand::SecureRandom;
use mpd_channel::{Opened, Sealer};

use super::*;

/// The values of the file by name.
struct Vectors(BTreeMap<&'static str, &'static str>);

impl Vectors {
    fn read() -> Self {
        let text = include_str!("../vectors/channel.txt");
        Self(text.lines().filter_map(|line| line.split_once(" = ")).collect())
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let digits = self.0[name].as_bytes();
        let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn array<const N: usize>(&self, name: &str) -> [u8; N] {
        self.bytes(name).try_into().unwrap()
    }
}

/// A generator that returns these bytes: `ring` accepts private keys in no other way.
#[expect(deprecated, reason = "for tests, as its documentation says")]
fn fixed(bytes: [u8; 32]) -> impl SecureRandom {
    crypto::test::rand::FixedSliceRandom { bytes: Box::leak(Box::new(bytes)) }
}

/// The handshake of the file, by the product.
fn product_handshake(v: &Vectors) -> Handshake {
    let (random_i, random_r) = (fixed(v.array("private_i")), fixed(v.array("private_r")));
    let key = Key::from_bytes(v.array("key"));
    let peer = Some(instance(v.array("inst_r")));
    let (me, nonce) = (instance(v.array("inst_i")), v.array("nonce_i"));
    let opening = Opening { key: key.clone(), me, peer, nonce, ..opening() };
    let mut alice = Initiator::new(opening, &random_i).unwrap();
    let reception = Reception { nonce: v.array("nonce_r"), ..reception(v.array("inst_r")) };
    let mut bob = Responder::for_daemon(key.into(), reception);

    let m1 = initiator_outputs(&mut alice).sent;
    bob.receive(&m1, &random_r);
    assert!(matches!(bob.poll_output(), Some(ResponderOutput::Admit(_))));
    bob.admit(true, &random_r);
    let m2 = responder_outputs(&mut bob).sent;
    let outputs = send_initiator(&mut alice, &m2);
    let m3 = outputs.sent;
    bob.receive(&m3, &random_r);
    let bob = *responder_outputs(&mut bob).established.unwrap();
    Handshake { m1, m2, m3, alice: *outputs.established.unwrap(), bob }
}

fn sealed(sealer: &mut Sealer, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    sealer.seal(&[text.as_bytes()], &mut out).unwrap();
    out
}

#[test]
fn the_product_makes_every_message_of_the_file() {
    let v = Vectors::read();
    assert_eq!(Key::from_bytes(v.array("key")).id().to_string(), v.0["id"]);
    let Handshake { m1, m2, m3, mut alice, mut bob } = product_handshake(&v);
    assert_eq!(m1, v.bytes("m1"));
    assert_eq!(m2, v.bytes("m2"));
    assert_eq!(m3, v.bytes("m3"));
    assert_eq!(sealed(&mut alice.sealer, v.0["text_i0"]), v.bytes("frame_i0"));
    assert_eq!(sealed(&mut alice.sealer, v.0["text_i1"]), v.bytes("frame_i1"));
    let mut bye = Vec::new();
    alice.sealer.bye(&mut bye);
    assert_eq!(bye, v.bytes("bye_i2"));
    assert_eq!(sealed(&mut bob.sealer, v.0["text_r0"]), v.bytes("frame_r0"));
}

#[test]
fn both_sides_change_the_key_after_2_to_the_20_frames() {
    let v = Vectors::read();
    let Handshake { mut alice, mut bob, .. } = product_handshake(&v);
    let mut frame = Vec::new();
    for _ in 0..1 << 20 {
        frame.clear();
        alice.sealer.seal(&[b"x"], &mut frame).unwrap();
        bob.opener.push(&frame);
        assert_eq!(bob.opener.next_frame(), Ok(Some(Opened::Frame(b"x"))));
    }
    let text = v.0["text_i1048576"];
    let frame = sealed(&mut alice.sealer, text);
    assert_eq!(frame, v.bytes("frame_i1048576"));
    bob.opener.push(&frame);
    assert_eq!(bob.opener.next_frame(), Ok(Some(Opened::Frame(text.as_bytes()))));
}

#[test]
fn the_naive_implementation_makes_every_message_of_the_file() {
    let v = Vectors::read();
    let key = v.array("key");
    for (label, name) in [("hello", "k_hello"), ("psk", "k_psk"), ("refuse", "k_refuse")] {
        assert_eq!(naive::derived(&key, &format!("mpd1 {label}")), v.array(name));
    }
    assert_eq!(naive::id(&key), v.0["id"]);
    let hello = naive::Hello {
        magic: *b"MPDr",
        version: 1,
        purpose: 1,
        reserved: [0; 2],
        from: v.array("inst_i"),
        to: v.array("inst_r"),
        nonce: v.array("nonce_i"),
        ephemeral: naive::public(&v.array("private_i")),
    };
    let m1 = hello.m1(&key);
    assert_eq!(m1, v.bytes("m1"));
    let (inst_r, nonce_r) = (v.array("inst_r"), v.array("nonce_r"));
    let (m2, secrets) = naive::answer(&key, &m1, &inst_r, &nonce_r, &v.array("private_r")).unwrap();
    assert_eq!(m2, v.bytes("m2"));
    assert_eq!(secrets.mac_i, v.array("m3"));
    assert_eq!(secrets.key_i, v.array("key_i"));
    assert_eq!(secrets.key_r, v.array("key_r"));
    let received = naive::received_answer(&key, &m1, &m2, &v.array("private_i")).unwrap();
    assert_eq!(received.mac_i, secrets.mac_i);
    for (text, frame, key, number) in [
        (v.0["text_i0"], "frame_i0", secrets.key_i, 0),
        (v.0["text_i1"], "frame_i1", secrets.key_i, 1),
        ("", "bye_i2", secrets.key_i, 2),
        (v.0["text_r0"], "frame_r0", secrets.key_r, 0),
        (v.0["text_i1048576"], "frame_i1048576", secrets.key_i, 1 << 20),
    ] {
        assert_eq!(naive::seal(&key, number, text.as_bytes()), v.bytes(frame), "{frame}");
    }
    let m1 = naive::Hello { version: 2, ..hello }.m1(&key);
    assert_eq!(m1, v.bytes("m1_version2"));
    let text = v.0["text_refusal"].as_bytes();
    assert_eq!(naive::refusal(&key, &m1, 1, text), v.bytes("refusal"));
}

#[test]
fn the_agreement_of_the_file_is_what_ring_computes() {
    let v = Vectors::read();
    let private = EphemeralPrivateKey::generate(&X25519, &fixed(v.array("private_i"))).unwrap();
    assert_eq!(private.compute_public_key().unwrap().as_ref(), v.bytes("eph_i"));
    let peer = UnparsedPublicKey::new(&X25519, v.bytes("eph_r"));
    let dh = agreement::agree_ephemeral(private, &peer, <[u8]>::to_vec).unwrap();
    assert_eq!(dh, v.bytes("dh"));
}
