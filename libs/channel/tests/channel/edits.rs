//! An attacker between the two sides edits their messages: each single bit (A3), and every kind of
//! edit of whole messages. After any edit, the receiver gets a true prefix of the sent texts, and
//! then closes.

use proptest::prelude::*;

use super::*;

const FORWARD: [&[u8]; 3] = [b"alice says one", b"two", b"three"];
const BACKWARD: [&[u8]; 3] = [b"bob says one", b"b", b"and three"];

/// The number of a message in its direction. To Bob: 0 M1, 1 M3, then frames and bye. To Alice: 0
/// M2, then the same.
const TO_BOB: usize = 6;
const TO_ALICE: usize = 5;

#[derive(Clone, Debug)]
enum Edit {
    Flip { message: usize, bit: usize },
    Drop { message: usize },
    Duplicate { message: usize },
    SwapWithNext { message: usize },
    Shorten { message: usize, by: usize },
    Insert { message: usize, at: usize, byte: u8 },
}

impl Edit {
    /// The direction as it arrives; `messages` are all messages sent in it, in order.
    fn apply(&self, messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut messages = messages.to_vec();
        let count = messages.len();
        match *self {
            Self::Flip { message, bit } => {
                if let Some(bytes) = messages.get_mut(message) {
                    let bit = bit % (8 * bytes.len());
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
            }
            Self::Drop { message } if message < count => drop(messages.remove(message)),
            Self::Duplicate { message } if message < count => {
                messages.insert(message, messages[message].clone());
            }
            Self::SwapWithNext { message } => {
                if message + 1 < count {
                    messages.swap(message, message + 1);
                } else if message < count {
                    // Its successor has not been sent, so it is held back.
                    messages.truncate(message);
                }
            }
            Self::Shorten { message, by } => {
                if let Some(bytes) = messages.get_mut(message) {
                    let by = 1 + by % bytes.len();
                    bytes.truncate(bytes.len() - by);
                }
            }
            Self::Insert { message, at, byte } => {
                if let Some(bytes) = messages.get_mut(message) {
                    let at = at % (bytes.len() + 1);
                    bytes.insert(at, byte);
                }
            }
            Self::Drop { .. } | Self::Duplicate { .. } => {}
        }
        messages
    }
}

/// The result for one side. `clean`: the channel was opened and ended with bye.
#[derive(Debug, Default)]
struct Outcome {
    texts: Vec<Vec<u8>>,
    clean: bool,
}

/// What a side sends once its channel is open.
fn speech(mut established: Established, texts: [&[u8]; 3]) -> (Vec<Vec<u8>>, Opener) {
    let seal = |text: &&[u8]| {
        let mut frame = Vec::new();
        established.sealer.seal(&[text], &mut frame).unwrap();
        frame
    };
    let mut messages = texts.iter().map(seal).collect::<Vec<_>>();
    let mut bye = Vec::new();
    established.sealer.bye(&mut bye);
    messages.push(bye);
    (messages, established.opener)
}

/// One side: the bytes sent so far, the bytes received so far, and its machines.
struct Side<M> {
    machine: M,
    sent: Vec<Vec<u8>>,
    given: usize,
    opener: Option<Opener>,
    received: Vec<u8>,
    dead: bool,
}

impl<M> Side<M> {
    fn new(machine: M) -> Self {
        Self { machine, sent: vec![], given: 0, opener: None, received: vec![], dead: false }
    }

    fn take(&mut self, outputs: Outputs, texts: [&[u8]; 3]) {
        if !outputs.sent.is_empty() {
            self.sent.push(outputs.sent);
        }
        if let Some(established) = outputs.established {
            let (messages, opener) = speech(*established, texts);
            self.sent.extend(messages);
            self.opener = Some(opener);
        }
        self.dead |= outputs.closed.is_some();
    }

    /// Passes newly arrived bytes to the machine, and the rest to the channel.
    fn receive(
        &mut self,
        arrived: &[u8],
        texts: [&[u8]; 3],
        send: impl Fn(&mut M, &[u8]) -> (usize, Outputs),
    ) {
        if self.dead || arrived.len() < self.given {
            return;
        }
        let mut bytes = &arrived[self.given..];
        self.given = arrived.len();
        if self.opener.is_none() {
            let (used, outputs) = send(&mut self.machine, bytes);
            self.take(outputs, texts);
            bytes = &bytes[used..];
        }
        self.received.extend_from_slice(bytes);
    }

    fn outcome(self) -> Outcome {
        let Some(mut opener) = self.opener else { return Outcome::default() };
        let (texts, end) = receive(&mut opener, &self.received, 11);
        Outcome { texts, clean: end.is_ok() }
    }
}

/// Runs Alice and Bob with `edit` on the messages to Bob or to Alice. An edited message is
/// delivered once its direction has come that far. A side that still waits is closed at the end.
fn relay(edit: &Edit, to_bob: bool) -> (Outcome, Outcome) {
    let (mut alice, mut bob) = (Side::new(initiator(opening())), Side::new(daemon(BOB)));
    let outputs = initiator_outputs(&mut alice.machine);
    alice.take(outputs, FORWARD);
    for _ in 0..4 {
        let edited = |sent: &[Vec<u8>], here| if here { edit.apply(sent) } else { sent.to_vec() };
        let arrived = edited(&alice.sent, to_bob).concat();
        bob.receive(&arrived, BACKWARD, |machine, bytes| {
            (machine.receive(bytes, &SystemRandom::new()), responder_outputs(machine))
        });
        let arrived = edited(&bob.sent, !to_bob).concat();
        alice.receive(&arrived, FORWARD, |machine, bytes| {
            (machine.receive(bytes), initiator_outputs(machine))
        });
    }
    (alice.outcome(), bob.outcome())
}

/// The receiver of the edited direction must not end cleanly. No side receives a text that was not
/// sent.
fn check(edit: &Edit, to_bob: bool) {
    let (alice, bob) = relay(edit, to_bob);
    for (outcome, spoken) in [(&alice, BACKWARD), (&bob, FORWARD)] {
        let true_beginning =
            outcome.texts.iter().zip(spoken).all(|(received, sent)| received == sent);
        assert!(true_beginning && outcome.texts.len() <= 3, "{edit:?}: {outcome:?}");
    }
    let receiver = if to_bob { bob } else { alice };
    assert!(!receiver.clean, "{edit:?} of what goes to {}", if to_bob { "bob" } else { "alice" });
}

#[test]
fn without_an_edit_all_texts_arrive() {
    let nothing = Edit::Drop { message: 99 };
    for to_bob in [true, false] {
        let (alice, bob) = relay(&nothing, to_bob);
        assert_eq!(
            (alice.texts.as_slice(), alice.clean),
            (&BACKWARD.map(<[u8]>::to_vec)[..], true)
        );
        assert_eq!((bob.texts.as_slice(), bob.clean), (&FORWARD.map(<[u8]>::to_vec)[..], true));
    }
}

#[test]
fn the_edit_of_any_single_bit_is_detected() {
    let frames = |texts: [&[u8]; 3]| texts.map(|text| text.len() + 20);
    let (forward, backward) = (frames(FORWARD), frames(BACKWARD));
    let to_bob = [136, 32, forward[0], forward[1], forward[2], 20];
    let to_alice = [112, backward[0], backward[1], backward[2], 20];
    for (bytes, to_bob) in [(&to_bob[..], true), (&to_alice[..], false)] {
        for (message, length) in bytes.iter().enumerate() {
            for bit in 0..8 * length {
                check(&Edit::Flip { message, bit }, to_bob);
            }
        }
    }
}

fn edit(messages: usize) -> impl Strategy<Value = Edit> {
    let message = 0..messages;
    prop_oneof![
        (message.clone(), any::<usize>()).prop_map(|(message, bit)| Edit::Flip { message, bit }),
        message.clone().prop_map(|message| Edit::Drop { message }),
        message.clone().prop_map(|message| Edit::Duplicate { message }),
        message.clone().prop_map(|message| Edit::SwapWithNext { message }),
        (message.clone(), any::<usize>()).prop_map(|(message, by)| Edit::Shorten { message, by }),
        (message, any::<usize>(), any::<u8>()).prop_map(|(message, at, byte)| Edit::Insert {
            message,
            at,
            byte
        }),
    ]
}

proptest! {
    #[test]
    fn every_edit_towards_bob_is_detected(edit in edit(TO_BOB)) {
        check(&edit, true);
    }

    #[test]
    fn every_edit_towards_alice_is_detected(edit in edit(TO_ALICE)) {
        check(&edit, false);
    }
}
