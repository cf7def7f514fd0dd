//! The accepting side.
//!
//! A host has one port, that of its daemon. The daemon checks a hello for a manager with the key of
//! the manager's job, and passes hello and connection on. The manager completes the handshake with
//! a responder of its own.

use std::mem;

use crypto::rand::SecureRandom;

use super::{Collector, Established, Flight, HandshakeError, KeyPair};
use crate::hello::{ANSWER, Claims, HELLO, Hello, Instance, Mark, PROOF, Purpose, Unfit, VERSION};
use crate::key::{Key, KeyId, Keys};
use crate::schedule::{HandshakeSecrets, Tag};
use crate::seal::{Opener, Sealer};
use crate::{hello, schedule};
use mpd_sansio::{Time, UNDRAINED};

/// The data of one accepted connection.
#[derive(Clone, Debug)]
pub struct Reception {
    /// This process.
    pub me: Instance,
    /// 32 random bytes, never reused.
    pub nonce: [u8; 32],
    /// The time limit: [`PATIENCE`](super::PATIENCE) after the accept.
    pub deadline: Time,
}

/// An action for the owner.
#[derive(Debug)]
pub enum ResponderOutput {
    /// Write this.
    Send(Flight),
    /// Look up the key of this manager's job, and pass it to [`Responder::manager_key`].
    FindManager(Instance),
    /// The hello is proven: report to [`Responder::admit`] whether it is new.
    Admit(Mark),
    /// The hello is proven: pass the connection and these bytes to the manager.
    PassOn {
        manager: Instance,
        /// The first bytes for the manager's own [`Responder`].
        hello: [u8; HELLO],
    },
    /// The channel is open.
    Established(Box<Established>),
    /// Close the connection, after all pending messages are sent.
    Close(HandshakeError),
}

/// The machine of the accepting side.
pub struct Responder {
    reception: Reception,
    keys: Keys,
    serves: Serves,
    state: State,
    send: Option<Flight>,
    then: Option<ResponderOutput>,
    operations: u32,
}

#[derive(Clone, Copy)]
enum Serves {
    /// All purposes. Job links are passed on.
    Daemon,
    /// Job links to this instance only.
    Manager,
}

enum State {
    ExpectHello(Collector<HELLO>),
    ExpectManagerKey(Hello, Instance),
    ExpectAdmission(Box<(Hello, Key, Claims)>),
    ExpectProof(Box<ExpectProof>),
    Over,
}

struct ExpectProof {
    session: HandshakeSecrets,
    /// Our own proof.
    shown: Tag,
    peer: Instance,
    purpose: Purpose,
    key: KeyId,
    proof: Collector<PROOF>,
}

impl Responder {
    /// For a connection that a daemon accepted.
    pub const fn for_daemon(keys: Keys, reception: Reception) -> Self {
        Self::new(keys, reception, Serves::Daemon)
    }

    /// For a connection that a daemon passed to a manager of the job with this key.
    pub const fn for_manager(key: Key, reception: Reception) -> Self {
        Self::new(Keys::new(key, None), reception, Serves::Manager)
    }

    const fn new(keys: Keys, reception: Reception, serves: Serves) -> Self {
        let state = State::ExpectHello(Collector::new());
        Self { reception, keys, serves, state, send: None, then: None, operations: 0 }
    }

    /// The most bytes to read now; 0 when none are expected.
    pub const fn wanted(&self) -> usize {
        match &self.state {
            State::ExpectHello(hello) => hello.wanted(),
            State::ExpectProof(expect) => expect.proof.wanted(),
            State::ExpectManagerKey(..) | State::ExpectAdmission(_) | State::Over => 0,
        }
    }

    /// Takes received bytes, and returns how many belonged to the handshake.
    pub fn receive(&mut self, bytes: &[u8], random: &dyn SecureRandom) -> usize {
        debug_assert!(self.send.is_none() && self.then.is_none(), "{UNDRAINED}");
        let mut used = 0;
        while used < bytes.len() && self.wanted() > 0 {
            used += self.take(&bytes[used..], random);
        }
        used
    }

    fn take(&mut self, bytes: &[u8], random: &dyn SecureRandom) -> usize {
        match mem::replace(&mut self.state, State::Over) {
            State::ExpectHello(mut collector) => {
                let taken = collector.take(bytes);
                match collector.whole().copied() {
                    None => self.state = State::ExpectHello(collector),
                    Some(hello) => {
                        let next = self.received_hello(Hello::from_bytes(hello), random);
                        self.enter(next);
                    }
                }
                taken
            }
            State::ExpectProof(mut expect) => {
                let taken = expect.proof.take(bytes);
                match expect.proof.whole().copied() {
                    None => self.state = State::ExpectProof(expect),
                    Some(proof) => {
                        let next = self.received_proof(*expect, &proof);
                        self.enter(next);
                    }
                }
                taken
            }
            state @ (State::ExpectManagerKey(..) | State::ExpectAdmission(_) | State::Over) => {
                self.state = state;
                0
            }
        }
    }

    fn enter(&mut self, next: Result<State, HandshakeError>) {
        self.state = next.unwrap_or_else(|error| {
            self.then = Some(ResponderOutput::Close(error));
            State::Over
        });
    }

    fn received_hello(
        &mut self,
        hello: Hello,
        random: &dyn SecureRandom,
    ) -> Result<State, HandshakeError> {
        if let (Serves::Daemon, Some(manager)) = (self.serves, hello.wanted_manager()) {
            self.then = Some(ResponderOutput::FindManager(manager));
            return Ok(State::ExpectManagerKey(hello, manager));
        }
        let key = hello.opens(&self.keys).ok_or(HandshakeError::Stranger)?.clone();
        let claims = hello.claims().map_err(|unfit| self.refuse(&key, &hello, unfit))?;
        self.check(claims.purpose, claims.from, claims.to)?;
        match self.serves {
            Serves::Daemon => {
                self.then = Some(ResponderOutput::Admit(Mark::of(hello.bytes())));
                Ok(State::ExpectAdmission(Box::new((hello, key, claims))))
            }
            // The daemon has already checked that the hello is new.
            Serves::Manager => self.answer(&hello, &key, &claims, random),
        }
    }

    /// Answers [`ResponderOutput::Admit`]. A hello that is not new is a replay.
    pub fn admit(&mut self, is_new: bool, random: &dyn SecureRandom) {
        match mem::replace(&mut self.state, State::Over) {
            State::ExpectAdmission(proven) => {
                let (hello, key, claims) = *proven;
                let next = if is_new {
                    self.answer(&hello, &key, &claims, random)
                } else {
                    Err(HandshakeError::Repeated)
                };
                self.enter(next);
            }
            // The handshake timed out meanwhile.
            state => self.state = state,
        }
    }

    fn answer(
        &mut self,
        hello: &Hello,
        key: &Key,
        claims: &Claims,
        random: &dyn SecureRandom,
    ) -> Result<State, HandshakeError> {
        let operations = &mut self.operations;
        let pair = KeyPair::generate(random, operations)?;
        let body = hello::answer_body(self.reception.me, &self.reception.nonce, &pair.public);
        let transcript = schedule::hash(&[hello.bytes(), &body]);
        let session = pair.agree(hello.ephemeral(), &key.root().psk, transcript, operations)?;
        let shown = session.prove_as_responder();
        let mut answer = [0; ANSWER];
        answer[..body.len()].copy_from_slice(&body);
        answer[body.len()..].copy_from_slice(&shown);
        self.send = Some(Flight::new(&answer));
        Ok(State::ExpectProof(Box::new(ExpectProof {
            session,
            shown,
            peer: claims.from,
            purpose: claims.purpose,
            key: key.id(),
            proof: Collector::new(),
        })))
    }

    /// Only a holder of the key reaches this point. Only another version receives the reason.
    fn refuse(&mut self, key: &Key, hello: &Hello, unfit: Unfit) -> HandshakeError {
        match unfit {
            Unfit::Malformed => HandshakeError::Malformed,
            Unfit::Version(theirs) => {
                let text = format!(
                    "mpd {} here speaks protocol {VERSION}, you speak {theirs}",
                    env!("CARGO_PKG_VERSION")
                );
                self.send = Some(Flight::new(&hello::refusal(key, hello, &text)));
                HandshakeError::Version(theirs)
            }
        }
    }

    fn check(
        &self,
        purpose: Purpose,
        from: Instance,
        to: Option<Instance>,
    ) -> Result<(), HandshakeError> {
        let me = self.reception.me;
        if from == me {
            return Err(HandshakeError::Reflected);
        }
        let served = match (self.serves, purpose) {
            (Serves::Daemon, Purpose::Ring | Purpose::Join | Purpose::Chord | Purpose::Probe) => {
                to.is_none_or(|to| to == me)
            }
            (Serves::Manager, Purpose::JobLink) => to == Some(me),
            // A job link without a manager, or a ring's purpose under a job's key.
            (Serves::Daemon, Purpose::JobLink)
            | (Serves::Manager, Purpose::Ring | Purpose::Join | Purpose::Chord | Purpose::Probe) => {
                return Err(HandshakeError::Malformed);
            }
        };
        if served { Ok(()) } else { Err(HandshakeError::AnotherInstance) }
    }

    /// Answers [`ResponderOutput::FindManager`]: the key of that manager's job, or `None` without
    /// such a manager.
    pub fn manager_key(&mut self, key: Option<&Key>) {
        match mem::replace(&mut self.state, State::Over) {
            State::ExpectManagerKey(hello, manager) => {
                let proven = key.is_some_and(|key| hello.opens(&key.clone().into()).is_some());
                self.then = Some(if proven {
                    ResponderOutput::PassOn { manager, hello: *hello.bytes() }
                } else {
                    ResponderOutput::Close(HandshakeError::Stranger)
                });
            }
            // The handshake timed out meanwhile.
            state @ (State::ExpectHello(_)
            | State::ExpectAdmission(_)
            | State::ExpectProof(_)
            | State::Over) => {
                self.state = state;
            }
        }
    }

    fn received_proof(
        &mut self,
        expect: ExpectProof,
        proof: &Tag,
    ) -> Result<State, HandshakeError> {
        let ExpectProof { session, shown, peer, purpose, key, proof: _ } = expect;
        if !session.verify_initiator(&shown, proof) {
            return Err(HandshakeError::Stranger);
        }
        let HandshakeSecrets { initiator_key, responder_key, .. } = session;
        let (sealer, opener) = (Sealer::new(responder_key), Opener::new(initiator_key));
        let established = Established { sealer, opener, peer, purpose, key };
        self.then = Some(ResponderOutput::Established(Box::new(established)));
        Ok(State::Over)
    }

    /// The stream ended.
    pub fn peer_closed(&mut self) {
        self.give_up(HandshakeError::Closed);
    }

    /// When [`Responder::handle_timeout`] is due.
    pub const fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Over => None,
            State::ExpectHello(_)
            | State::ExpectManagerKey(..)
            | State::ExpectAdmission(_)
            | State::ExpectProof(_) => Some(self.reception.deadline),
        }
    }

    /// Gives up if the time limit has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.reception.deadline <= now {
            self.give_up(HandshakeError::TimedOut);
        }
    }

    fn give_up(&mut self, error: HandshakeError) {
        match mem::replace(&mut self.state, State::Over) {
            State::Over => {}
            State::ExpectHello(_)
            | State::ExpectManagerKey(..)
            | State::ExpectAdmission(_)
            | State::ExpectProof(_) => {
                self.then = Some(ResponderOutput::Close(error));
            }
        }
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Option<ResponderOutput> {
        self.send.take().map(ResponderOutput::Send).or_else(|| self.then.take())
    }

    /// The number of X25519 operations of this handshake: none for a peer without the key.
    pub const fn x25519_operations(&self) -> u32 {
        self.operations
    }
}
