//! The channel between hosts, with an attacker on the network that may change all bytes.

use crypto::rand::SystemRandom;
use mpd_channel::handshake::{InitiatorOutput, Opening, Reception, ResponderOutput};
use mpd_channel::{
    Established, Initiator, Instance, Key, Keys, Opened, Opener, Purpose, Responder, Sealer,
};
use mpd_sansio::Time;

use super::{Bytes, in_pieces};

const KEY: [u8; 32] = *b"the key that all daemons hold...";

fn key() -> Key {
    Key::from_bytes(KEY)
}

fn instance(byte: u8) -> Instance {
    Instance::from_bytes([byte; 16]).expect("not all zero")
}

fn new_initiator(purpose: Purpose, peer: Option<Instance>) -> Initiator {
    let deadline = Time::from_micros(5_000_000);
    let opening = Opening { key: key(), me: instance(1), peer, purpose, nonce: [1; 32], deadline };
    Initiator::new(opening, &SystemRandom::new()).expect("the system has random bytes")
}

fn new_responder(manager: bool) -> Responder {
    let deadline = Time::from_micros(5_000_000);
    let reception = Reception { me: instance(2), nonce: [2; 32], deadline };
    if manager {
        Responder::for_manager(key(), reception)
    } else {
        Responder::for_daemon(Keys::from(key()), reception)
    }
}

/// The outputs of a machine.
#[derive(Default)]
struct Outputs {
    sent: Vec<u8>,
    established: Option<Box<Established>>,
    closed: bool,
}

impl Outputs {
    fn join(&mut self, later: Self) {
        self.sent.extend(later.sent);
        self.established = self.established.take().or(later.established);
        self.closed |= later.closed;
    }
}

fn initiator_outputs(machine: &mut Initiator) -> Outputs {
    let mut outputs = Outputs::default();
    while let Some(output) = machine.poll_output() {
        match output {
            InitiatorOutput::Send(flight) => outputs.sent.extend_from_slice(&flight),
            InitiatorOutput::Established(established) => outputs.established = Some(established),
            InitiatorOutput::Close(_) => outputs.closed = true,
        }
    }
    outputs
}

fn responder_outputs(machine: &mut Responder) -> Outputs {
    let mut outputs = Outputs::default();
    while let Some(output) = machine.poll_output() {
        match output {
            ResponderOutput::Send(flight) => outputs.sent.extend_from_slice(&flight),
            ResponderOutput::FindManager(_) => machine.manager_key(Some(&key())),
            ResponderOutput::Admit(_) => machine.admit(true, &SystemRandom::new()),
            ResponderOutput::PassOn { .. } => outputs.closed = true,
            ResponderOutput::Established(established) => outputs.established = Some(established),
            ResponderOutput::Close(_) => outputs.closed = true,
        }
    }
    outputs
}

/// Changes bytes of a message. Returns whether the message differs now.
fn edit(message: &mut [u8], bytes: &mut Bytes<'_>) -> bool {
    let before = message.to_vec();
    for _ in 0..bytes.below(4) {
        let at = usize::from(bytes.byte()) % message.len().max(1);
        if let Some(byte) = message.get_mut(at) {
            *byte ^= bytes.byte();
        }
    }
    before != message
}

fn send_to_responder(machine: &mut Responder, message: &[u8], cuts: &[u8]) -> Outputs {
    let mut outputs = Outputs::default();
    in_pieces(message, Bytes::new(cuts), |piece| {
        machine.receive(piece, &SystemRandom::new());
        outputs.join(responder_outputs(machine));
    });
    outputs
}

/// The responder gets any bytes, or a handshake with changed messages.
pub(crate) fn responder(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut machine = new_responder(bytes.byte() & 1 == 1);
    if bytes.byte() & 1 == 0 {
        let cuts = bytes.some();
        let outputs = send_to_responder(&mut machine, bytes.rest(), cuts);
        assert!(outputs.established.is_none(), "a peer without the key was accepted");
        assert!(outputs.sent.is_empty(), "a peer without the key got an answer");
        assert_eq!(machine.x25519_operations(), 0, "a peer without the key caused an agreement");
    } else {
        handshake_with_changes(&mut machine, &mut bytes);
    }
    machine.peer_closed();
    machine.handle_timeout(Time::from_micros(6_000_000));
    responder_outputs(&mut machine);
}

/// Runs a handshake whose messages may be changed. It completes only if no message is changed.
fn handshake_with_changes(machine: &mut Responder, bytes: &mut Bytes<'_>) {
    let purposes = [Purpose::Ring, Purpose::Join, Purpose::Chord, Purpose::JobLink, Purpose::Probe];
    let purpose = purposes[bytes.below(purposes.len())];
    let mut peer = new_initiator(purpose, Some(instance(2)));
    let cuts = bytes.some();
    let mut m1 = initiator_outputs(&mut peer).sent;
    let mut edited = edit(&mut m1, bytes);
    let mut m2 = send_to_responder(machine, &m1, cuts).sent;
    assert!(!edited || m2.is_empty(), "an answer to a hello that was changed");
    edited |= edit(&mut m2, bytes);
    peer.receive(&m2);
    let outputs = initiator_outputs(&mut peer);
    assert!(!edited || outputs.established.is_none(), "the initiator took a changed answer");
    let mut m3 = outputs.sent;
    edited |= edit(&mut m3, bytes);
    let established = send_to_responder(machine, &m3, cuts).established;
    assert!(!edited || established.is_none(), "the responder took a changed proof");
}

/// The initiator gets any bytes, or a handshake with changed messages.
pub(crate) fn initiator(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    if bytes.byte() & 1 == 1 {
        return handshake_with_changes(&mut new_responder(false), &mut bytes);
    }
    let mut machine = new_initiator(Purpose::Ring, None);
    assert_eq!(initiator_outputs(&mut machine).sent.len(), 136);
    let cuts = bytes.some();
    let mut outputs = Outputs::default();
    in_pieces(bytes.rest(), Bytes::new(cuts), |piece| {
        machine.receive(piece);
        outputs.join(initiator_outputs(&mut machine));
    });
    machine.peer_closed();
    outputs.join(initiator_outputs(&mut machine));
    machine.handle_timeout(Time::from_micros(6_000_000));
    outputs.join(initiator_outputs(&mut machine));
    assert!(outputs.established.is_none() && outputs.closed, "a peer without the key was accepted");
    assert!(outputs.sent.is_empty());
}

/// Two ends of a channel: one seals, the other opens.
fn channel() -> (Sealer, Opener) {
    let (mut alice, mut bob) = (new_initiator(Purpose::Ring, None), new_responder(false));
    let m1 = initiator_outputs(&mut alice).sent;
    let m2 = send_to_responder(&mut bob, &m1, &[]).sent;
    alice.receive(&m2);
    let outputs = initiator_outputs(&mut alice);
    let theirs = send_to_responder(&mut bob, &outputs.sent, &[]).established.expect("a channel");
    (outputs.established.expect("a channel").sealer, theirs.opener)
}

/// Frames are sealed. Then some of them are changed, dropped, doubled or swapped, and other bytes are inserted. The
/// opened frames are the first of the sealed frames, without a gap.
pub(crate) fn sealed_frames(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let (mut sealer, mut opener) = channel();
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for _ in 0..bytes.below(6) {
        let text = bytes.some();
        if !text.is_empty() {
            let mut frame = Vec::new();
            sealer.seal(&[text], &mut frame).expect("a few frames");
            texts.push(text.to_vec());
            frames.push(frame);
        }
    }
    let mut bye = Vec::new();
    sealer.bye(&mut bye);
    frames.push(bye);
    for _ in 0..bytes.below(3) {
        tamper(&mut frames, &mut bytes);
    }
    let cuts = bytes.some();
    let mut stream: Vec<u8> = frames.concat();
    stream.extend_from_slice(bytes.rest());
    let mut opened: Vec<Vec<u8>> = Vec::new();
    in_pieces(&stream, Bytes::new(cuts), |piece| {
        opener.push(piece);
        while let Ok(Some(frame)) = opener.next_frame() {
            if let Opened::Frame(text) = frame {
                opened.push(text.to_vec());
            }
        }
    });
    assert!(texts.starts_with(&opened), "a changed frame was opened");
    if opener.peer_closed().is_ok() {
        assert_eq!(opened, texts, "a stream without its end counts as whole");
    }
}

fn tamper(frames: &mut Vec<Vec<u8>>, bytes: &mut Bytes<'_>) {
    let at = bytes.below(frames.len().max(1));
    let other = bytes.below(frames.len().max(1));
    if frames.is_empty() {
        return;
    }
    match bytes.below(5) {
        0 => {
            edit(&mut frames[at], bytes);
        }
        1 => drop(frames.remove(at)),
        2 => frames.insert(at, frames[other].clone()),
        3 => frames.swap(at, other),
        _ => frames.insert(at, bytes.some().to_vec()),
    }
}
