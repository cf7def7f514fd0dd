//! The channel between two sides: against another implementation, published vectors, and attackers
//! in between.

mod attacks;
mod edits;
mod frames;
mod naive;
mod routes;
mod talk;
mod vectors;

use crypto::rand::SystemRandom;
use mpd_channel::handshake::{InitiatorOutput, Opening, Reception, ResponderOutput};
use mpd_channel::{
    ChannelError, Established, HandshakeError, Initiator, Instance, Key, Keys, Opened, Opener,
    Purpose, Responder,
};
use mpd_sansio::Time;

const KEY: [u8; 32] = *b"the key that everybody here has!";
const OTHER_KEY: [u8; 32] = *b"a key that nobody here has heard";
const ALICE: [u8; 16] = [0xa1; 16];
const BOB: [u8; 16] = [0xb2; 16];

fn key() -> Key {
    Key::from_bytes(KEY)
}

fn instance(bytes: [u8; 16]) -> Instance {
    Instance::from_bytes(bytes).unwrap()
}

/// Alice requests a ring link to any instance.
fn opening() -> Opening {
    Opening {
        key: key(),
        me: instance(ALICE),
        peer: None,
        purpose: Purpose::Ring,
        nonce: [1; 32],
        deadline: Time::from_micros(5),
    }
}

/// Bob, or another responder, accepts.
fn reception(me: [u8; 16]) -> Reception {
    Reception { me: instance(me), nonce: [2; 32], deadline: Time::from_micros(5) }
}

fn initiator(opening: Opening) -> Initiator {
    Initiator::new(opening, &SystemRandom::new()).unwrap()
}

fn daemon(me: [u8; 16]) -> Responder {
    Responder::for_daemon(Keys::from(key()), reception(me))
}

/// The outputs of a machine: bytes to send, and its end, if it has ended.
#[derive(Debug, Default)]
struct Outputs {
    sent: Vec<u8>,
    established: Option<Box<Established>>,
    closed: Option<HandshakeError>,
    wanted_manager: Option<Instance>,
    passed_on: Option<Vec<u8>>,
}

fn initiator_outputs(machine: &mut Initiator) -> Outputs {
    let mut outputs = Outputs::default();
    while let Some(output) = machine.poll_output() {
        match output {
            InitiatorOutput::Send(flight) => outputs.sent.extend_from_slice(&flight),
            InitiatorOutput::Established(established) => outputs.established = Some(established),
            InitiatorOutput::Close(error) => outputs.closed = Some(error),
        }
    }
    outputs
}

fn responder_outputs(machine: &mut Responder) -> Outputs {
    let mut outputs = Outputs::default();
    while let Some(output) = machine.poll_output() {
        match output {
            ResponderOutput::Send(flight) => outputs.sent.extend_from_slice(&flight),
            ResponderOutput::FindManager(manager) => outputs.wanted_manager = Some(manager),
            ResponderOutput::Admit(_) => machine.admit(true, &SystemRandom::new()),
            ResponderOutput::PassOn { hello, .. } => outputs.passed_on = Some(hello.to_vec()),
            ResponderOutput::Established(established) => outputs.established = Some(established),
            ResponderOutput::Close(error) => outputs.closed = Some(error),
        }
    }
    outputs
}

fn send_initiator(machine: &mut Initiator, bytes: &[u8]) -> Outputs {
    machine.receive(bytes);
    initiator_outputs(machine)
}

fn send_responder(machine: &mut Responder, bytes: &[u8]) -> Outputs {
    machine.receive(bytes, &SystemRandom::new());
    responder_outputs(machine)
}

/// The three messages of an undisturbed handshake, and both ends of it.
struct Handshake {
    m1: Vec<u8>,
    m2: Vec<u8>,
    m3: Vec<u8>,
    alice: Established,
    bob: Established,
}

fn handshake() -> Handshake {
    let (mut alice, mut bob) = (initiator(opening()), daemon(BOB));
    let m1 = initiator_outputs(&mut alice).sent;
    let m2 = send_responder(&mut bob, &m1).sent;
    let outputs = send_initiator(&mut alice, &m2);
    let m3 = outputs.sent;
    let bob = *send_responder(&mut bob, &m3).established.unwrap();
    Handshake { m1, m2, m3, alice: *outputs.established.unwrap(), bob }
}

/// A stream as received: the texts, and its end.
type Received = (Vec<Vec<u8>>, Result<(), ChannelError>);

fn receive(opener: &mut Opener, bytes: &[u8], chunk: usize) -> Received {
    let mut texts = Vec::new();
    for chunk in bytes.chunks(chunk) {
        opener.push(chunk);
        loop {
            match opener.next_frame() {
                Ok(Some(Opened::Frame(text))) => texts.push(text.to_vec()),
                Ok(Some(Opened::Bye)) => {}
                Ok(None) => break,
                Err(error) => return (texts, Err(error)),
            }
        }
    }
    (texts, opener.peer_closed())
}
