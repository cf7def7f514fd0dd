//! The connecting side.

use std::mem;

use crypto::rand::SecureRandom;

use super::{Collector, Established, Flight, HandshakeError, KeyPair};
use crate::hello::{ANSWER, Claims, Hello, Instance, PROOF, Purpose};
use crate::key::{Key, NoRandomness};
use crate::schedule::{HandshakeSecrets, Tag};
use crate::seal::{Opener, Sealer};
use crate::{hello, schedule};
use mpd_sansio::{Time, UNDRAINED};

/// The data of one outgoing connection.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The key to connect with.
    pub key: Key,
    /// This process.
    pub me: Instance,
    /// The expected process; `None` if only its address is known. A job link needs it.
    pub peer: Option<Instance>,
    pub purpose: Purpose,
    /// 32 random bytes, never reused.
    pub nonce: [u8; 32],
    /// The time limit: [`PATIENCE`](super::PATIENCE) from now.
    pub deadline: Time,
}

/// An action for the owner.
#[derive(Debug)]
pub enum InitiatorOutput {
    /// Write this.
    Send(Flight),
    /// The channel is open.
    Established(Box<Established>),
    /// Close the connection.
    Close(HandshakeError),
}

/// The machine of the connecting side.
pub struct Initiator {
    state: State,
    deadline: Time,
    send: Option<Flight>,
    then: Option<InitiatorOutput>,
    operations: u32,
}

enum State {
    ExpectAnswer(Box<ExpectAnswer>),
    Over,
}

struct ExpectAnswer {
    key: Key,
    me: Instance,
    peer: Option<Instance>,
    purpose: Purpose,
    pair: KeyPair,
    hello: Hello,
    answer: Collector<ANSWER>,
}

impl Initiator {
    /// Begins a handshake on a new connection.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn new(opening: Opening, random: &dyn SecureRandom) -> Result<Self, NoRandomness> {
        let Opening { key, me, peer, purpose, nonce, deadline } = opening;
        let mut operations = 0;
        let pair = KeyPair::generate(random, &mut operations)?;
        let claims = Claims { purpose, from: me, to: peer };
        let hello = Hello::new(&key, &claims, &nonce, &pair.public);
        let send = Some(Flight::new(hello.bytes()));
        let answer = Collector::new();
        let expect = ExpectAnswer { key, me, peer, purpose, pair, hello, answer };
        let state = State::ExpectAnswer(Box::new(expect));
        Ok(Self { state, deadline, send, then: None, operations })
    }

    /// The most bytes to read now; 0 when the handshake is over.
    pub const fn wanted(&self) -> usize {
        match &self.state {
            State::ExpectAnswer(expect) => expect.answer.wanted(),
            State::Over => 0,
        }
    }

    /// Takes received bytes, and returns how many belonged to the handshake.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        debug_assert!(self.send.is_none() && self.then.is_none(), "{UNDRAINED}");
        match mem::replace(&mut self.state, State::Over) {
            State::ExpectAnswer(mut expect) => {
                let taken = expect.answer.take(bytes);
                match expect.answer.whole().copied() {
                    None => self.state = State::ExpectAnswer(expect),
                    Some(answer) => self.received_answer(*expect, &answer),
                }
                taken
            }
            State::Over => 0,
        }
    }

    fn received_answer(&mut self, expect: ExpectAnswer, answer: &[u8; ANSWER]) {
        self.then = Some(match self.finish(expect, answer) {
            Ok(established) => InitiatorOutput::Established(Box::new(established)),
            Err(error) => InitiatorOutput::Close(error),
        });
    }

    fn finish(
        &mut self,
        expect: ExpectAnswer,
        answer: &[u8; ANSWER],
    ) -> Result<Established, HandshakeError> {
        let ExpectAnswer { key, me, peer: expected, purpose, pair, hello, answer: _ } = expect;
        if let Some((version, text)) = hello::read_refusal(&key, &hello, answer) {
            return Err(HandshakeError::Refused { version, text });
        }
        let (peer, ephemeral) = hello::read_answer(answer);
        let transcript = schedule::hash(&[hello.bytes(), &answer[..ANSWER - PROOF]]);
        // Nothing is proven yet: a peer without the key may have chosen the public key.
        let session = pair
            .agree(ephemeral, &key.root().psk, transcript, &mut self.operations)
            .map_err(|_| HandshakeError::Stranger)?;
        let proof: &Tag = answer.last_chunk().expect("an answer ends with a proof");
        if !session.verify_responder(proof) {
            return Err(HandshakeError::Stranger);
        }
        let peer = peer.ok_or(HandshakeError::Malformed)?;
        if peer == me {
            return Err(HandshakeError::Reflected);
        }
        if expected.is_some_and(|expected| expected != peer) {
            return Err(HandshakeError::AnotherInstance);
        }
        self.send = Some(Flight::new(&session.prove_as_initiator(proof)));
        let HandshakeSecrets { initiator_key, responder_key, .. } = session;
        let (sealer, opener) = (Sealer::new(initiator_key), Opener::new(responder_key));
        Ok(Established { sealer, opener, peer, purpose, key: key.id() })
    }

    /// The stream ended.
    pub fn peer_closed(&mut self) {
        match mem::replace(&mut self.state, State::Over) {
            State::ExpectAnswer(expect) => {
                let silent = expect.answer.wanted() == ANSWER;
                let silence = HandshakeError::Silence(expect.key.id());
                let error = if silent { silence } else { HandshakeError::Closed };
                self.then = Some(InitiatorOutput::Close(error));
            }
            State::Over => {}
        }
    }

    /// When [`Initiator::handle_timeout`] is due.
    pub const fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::ExpectAnswer(_) => Some(self.deadline),
            State::Over => None,
        }
    }

    /// Gives up if the time limit has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_some_and(|deadline| deadline <= now) {
            self.state = State::Over;
            self.then = Some(InitiatorOutput::Close(HandshakeError::TimedOut));
        }
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Option<InitiatorOutput> {
        self.send.take().map(InitiatorOutput::Send).or_else(|| self.then.take())
    }

    /// The number of X25519 operations of this handshake.
    pub const fn x25519_operations(&self) -> u32 {
        self.operations
    }
}
