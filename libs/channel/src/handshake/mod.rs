//! The handshake: three messages that prove to both sides that the other holds the key.
//!
//! ```text
//! Initiator                                    Responder
//!    |  M1 hello: purpose, instances, MAC  -->  ExpectHello     MAC wrong: close, not a byte
//! ExpectAnswer  <--  M2 answer with proof  ----    |            another version: refusal, close
//!    |  M3 proof                           -->  ExpectProof
//! Established                                  Established
//! ```
//!
//! The owner's contract for both machines: pass received bytes to `receive`, which returns how many
//! it used. The rest belongs to the [`Opener`]. Pass the end of the stream to `peer_closed`, and
//! call `handle_timeout` at the time of `poll_timeout`. After each call, drain `poll_output`. Reads
//! of at most `wanted()` bytes never read beyond the handshake. Before a correct MAC the machine
//! allocates nothing and computes no X25519. The owner limits the number of concurrent handshakes.

mod initiator;
mod responder;

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crypto::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey, X25519};
use crypto::rand::SecureRandom;

pub use initiator::{Initiator, InitiatorOutput, Opening};
pub use responder::{Reception, Responder, ResponderOutput};

use super::hello::{HELLO, Instance, Purpose};
use super::key::{KeyId, NoRandomness};
use super::schedule::{HandshakeSecrets, Secret, Tag};
use super::seal::{Opener, Sealer};

/// How long a whole handshake may take, from accept or connect to its end.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Both sides have proven the key. All further bytes go through `sealer` and `opener`.
#[derive(Debug)]
pub struct Established {
    /// Seals sent frames.
    pub sealer: Sealer,
    /// Opens received frames.
    pub opener: Opener,
    /// The process on the other side.
    pub peer: Instance,
    /// The initiator's purpose.
    pub purpose: Purpose,
    pub key: KeyId,
}

/// The reason why a handshake ended without a channel. The owner closes the connection; messages for the peer
/// were among the outputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The peer does not hold the key, or its bytes were changed in transit.
    #[error("the peer does not prove that it holds the key")]
    Stranger,
    /// The peer closed after our hello without an answer: the hello does not match its key.
    #[error(
        "the peer closed without an answer: it has another key than ours ({0}), or it is another \
         process than expected"
    )]
    Silence(KeyId),
    /// The peer closed before the end of the handshake.
    #[error("the peer closed during the handshake")]
    Closed,
    /// The handshake took too long.
    #[error("the handshake took too long")]
    TimedOut,
    /// The peer holds the key and speaks another version. It has received a refusal.
    #[error("the peer speaks version {0} of the protocol")]
    Version(u8),
    /// The peer refused our hello, because it speaks another version.
    #[error("refused: {text} (version {version})")]
    Refused {
        /// The peer's version.
        version: u8,
        /// The peer's text, printable.
        text: String,
    },
    /// The peer holds the key, but its hello is invalid here.
    #[error("the peer's hello is malformed")]
    Malformed,
    /// The same hello arrived before. The peer holds the key, or has recorded a holder.
    #[error("its first message was received before: it may be a replay")]
    Repeated,
    /// The peer is this process.
    #[error("connected to itself")]
    Reflected,
    /// The peer expects another process, or is not the expected process.
    #[error("it is another process than expected")]
    AnotherInstance,
    /// The peer's X25519 key gives an all-zero secret.
    #[error("the peer's public key is weak")]
    WeakPublicKey,
    /// No key pair can be made.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// A message of the handshake, ready to be written.
#[derive(Clone)]
pub struct Flight {
    bytes: [u8; HELLO],
    length: usize,
}

impl Flight {
    fn new(message: &[u8]) -> Self {
        let mut bytes = [0; HELLO];
        bytes[..message.len()].copy_from_slice(message);
        Self { bytes, length: message.len() }
    }
}

impl Deref for Flight {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flight({} bytes)", self.length)
    }
}

/// Collects the bytes of a message of fixed size.
struct Collector<const N: usize> {
    bytes: [u8; N],
    filled: usize,
}

impl<const N: usize> Collector<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], filled: 0 }
    }

    /// Takes the missing bytes, and no more.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.wanted());
        self.bytes[self.filled..][..count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        count
    }

    const fn wanted(&self) -> usize {
        N - self.filled
    }

    fn whole(&self) -> Option<&[u8; N]> {
        (self.filled == N).then_some(&self.bytes)
    }
}

/// One side's X25519 key pair, for one agreement. Counts the operations.
struct KeyPair {
    private: EphemeralPrivateKey,
    public: Tag,
}

impl KeyPair {
    fn generate(random: &dyn SecureRandom, operations: &mut u32) -> Result<Self, NoRandomness> {
        let private = EphemeralPrivateKey::generate(&X25519, random).map_err(|_| NoRandomness)?;
        *operations += 1;
        let public = private.compute_public_key().map_err(|_| NoRandomness)?;
        let public = public.as_ref().try_into().expect("an X25519 public key has 32 bytes");
        Ok(Self { private, public })
    }

    fn agree(
        self,
        peer: &[u8],
        psk: &Secret,
        transcript: Tag,
        operations: &mut u32,
    ) -> Result<HandshakeSecrets, HandshakeError> {
        *operations += 1;
        let peer = UnparsedPublicKey::new(&X25519, peer);
        agreement::agree_ephemeral(self.private, &peer, |dh| {
            HandshakeSecrets::derive(psk, dh, transcript)
        })
        .map_err(|_| HandshakeError::WeakPublicKey)
    }
}
