//! The channel between hosts, with somebody in between who may write anything.

use crypto::rand::SystemRandom;
use mpd_channel::handshake::{InitiatorOutput, Opening, Reception, ResponderOutput};
use mpd_channel::{
    Established, Initiator, Instance, Key, Keys, Opened, Opener, Purpose, Responder, Sealer,
};
use mpd_machine::Time;

use super::{Bytes, in_pieces};

const KEY: [u8; 32] = *b"the key that everybody here has!";

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

/// What a machine said.
#[derive(Default)]
struct Said {
    sent: Vec<u8>,
    established: Option<Box<Established>>,
    closed: bool,
}

impl Said {
    fn join(&mut self, later: Self) {
        self.sent.extend(later.sent);
        self.established = self.established.take().or(later.established);
        self.closed |= later.closed;
    }
}

fn initiator_said(machine: &mut Initiator) -> Said {
    let mut said = Said::default();
    while let Some(output) = machine.poll_output() {
        match output {
            InitiatorOutput::Send(flight) => said.sent.extend_from_slice(&flight),
            InitiatorOutput::Established(established) => said.established = Some(established),
            InitiatorOutput::Close(_) => said.closed = true,
        }
    }
    said
}

fn responder_said(machine: &mut Responder) -> Said {
    let mut said = Said::default();
    while let Some(output) = machine.poll_output() {
        match output {
            ResponderOutput::Send(flight) => said.sent.extend_from_slice(&flight),
            ResponderOutput::FindManager(_) => machine.manager_key(Some(&key())),
            ResponderOutput::Admit(_) => machine.admit(true, &SystemRandom::new()),
            ResponderOutput::PassOn { .. } => said.closed = true,
            ResponderOutput::Established(established) => said.established = Some(established),
            ResponderOutput::Close(_) => said.closed = true,
        }
    }
    said
}

/// Changes bytes of a message; whether anything is different now.
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

fn tell_responder(machine: &mut Responder, message: &[u8], cuts: &[u8]) -> Said {
    let mut said = Said::default();
    in_pieces(message, Bytes::new(cuts), |piece| {
        machine.receive(piece, &SystemRandom::new());
        said.join(responder_said(machine));
    });
    said
}

/// Anything at all is sent to the accepting side, or a hello of somebody with the key that was changed.
pub(crate) fn responder(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut machine = new_responder(bytes.byte() & 1 == 1);
    if bytes.byte() & 1 == 0 {
        let cuts = bytes.some();
        let said = tell_responder(&mut machine, bytes.rest(), cuts);
        assert!(said.established.is_none(), "a stranger got in");
        assert!(said.sent.is_empty(), "a stranger got an answer");
        assert_eq!(machine.x25519_operations(), 0, "a stranger cost us an agreement");
    } else {
        undisturbed_or_closed(&mut machine, &mut bytes);
    }
    machine.peer_closed();
    machine.handle_timeout(Time::from_micros(6_000_000));
    responder_said(&mut machine);
}

/// Each message of a handshake may be changed: it is completed only if none is.
fn undisturbed_or_closed(machine: &mut Responder, bytes: &mut Bytes<'_>) {
    let purposes = [Purpose::Ring, Purpose::Join, Purpose::Chord, Purpose::JobLink, Purpose::Probe];
    let purpose = purposes[bytes.below(purposes.len())];
    let mut peer = new_initiator(purpose, Some(instance(2)));
    let cuts = bytes.some();
    let mut m1 = initiator_said(&mut peer).sent;
    let mut edited = edit(&mut m1, bytes);
    let mut m2 = tell_responder(machine, &m1, cuts).sent;
    assert!(!edited || m2.is_empty(), "an answer to a hello that was changed");
    edited |= edit(&mut m2, bytes);
    peer.receive(&m2);
    let said = initiator_said(&mut peer);
    assert!(!edited || said.established.is_none(), "the initiator took a changed answer");
    let mut m3 = said.sent;
    edited |= edit(&mut m3, bytes);
    let established = tell_responder(machine, &m3, cuts).established;
    assert!(!edited || established.is_none(), "the responder took a changed proof");
}

/// Anything at all is sent to the connecting side, or an answer that was changed.
pub(crate) fn initiator(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    if bytes.byte() & 1 == 1 {
        return undisturbed_or_closed(&mut new_responder(false), &mut bytes);
    }
    let mut machine = new_initiator(Purpose::Ring, None);
    assert_eq!(initiator_said(&mut machine).sent.len(), 136);
    let cuts = bytes.some();
    let mut said = Said::default();
    in_pieces(bytes.rest(), Bytes::new(cuts), |piece| {
        machine.receive(piece);
        said.join(initiator_said(&mut machine));
    });
    machine.peer_closed();
    said.join(initiator_said(&mut machine));
    machine.handle_timeout(Time::from_micros(6_000_000));
    said.join(initiator_said(&mut machine));
    assert!(said.established.is_none() && said.closed, "who answered anything got in");
    assert!(said.sent.is_empty());
}

/// Two ends of a channel: one seals, the other opens.
fn channel() -> (Sealer, Opener) {
    let (mut alice, mut bob) = (new_initiator(Purpose::Ring, None), new_responder(false));
    let m1 = initiator_said(&mut alice).sent;
    let m2 = tell_responder(&mut bob, &m1, &[]).sent;
    alice.receive(&m2);
    let said = initiator_said(&mut alice);
    let theirs = tell_responder(&mut bob, &said.sent, &[]).established.expect("a channel");
    (said.established.expect("a channel").sealer, theirs.opener)
}

/// Frames are sealed, then some of them are changed, dropped, doubled or swapped, and other bytes put
/// between: what comes out is a beginning of what went in.
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
    assert!(texts.starts_with(&opened), "a frame that was not sealed so was opened");
    if opener.peer_closed().is_ok() {
        assert_eq!(opened, texts, "a stream that was cut counts as whole");
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
