//! The first message of a handshake (M1), and the answer to another version.
//!
//! Both have fixed sizes, and every later version keeps their outline. For a hello the outline is
//! length, magic, version, purpose, peer and MAC; for a refusal length, magic, version, text and
//! MAC.

use std::fmt;

use super::key::{Key, Keys};
use super::schedule::{self, Tag};

/// Bytes of M1, initiator to responder.
pub const HELLO: usize = 136;
/// Bytes of M2, responder to initiator, and of a refusal.
pub const ANSWER: usize = 112;
/// Bytes of M3, initiator to responder.
pub const PROOF: usize = 32;

/// The only supported version.
pub const VERSION: u8 = 1;

/// One run of a process: 16 random bytes made at its start, never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance([u8; 16]);

impl Instance {
    /// The instance of these random bytes; `None` for zero, which means "any" on the wire.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Instance {
    /// The first eight digits, enough to distinguish instances in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance({self})")
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A link between ring neighbours.
    Ring,
    /// A newcomer asks its entry for admission to the ring.
    Join,
    /// A shortcut across the ring.
    Chord,
    /// A link between two managers of one job; the only purpose under the key of a job.
    JobLink,
    /// A check whether a daemon is present.
    Probe,
}

impl Purpose {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Ring => 1,
            Self::Join => 2,
            Self::Chord => 3,
            Self::JobLink => 4,
            Self::Probe => 5,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Ring),
            2 => Some(Self::Join),
            3 => Some(Self::Chord),
            4 => Some(Self::JobLink),
            5 => Some(Self::Probe),
            _ => None,
        }
    }
}

/// Identifies a first message: the beginning of its MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark([u8; 16]);

impl Mark {
    /// The mark of a message that ends with this MAC.
    pub fn of(hello: &[u8]) -> Self {
        let mac = &hello[hello.len() - 32..];
        Self(mac[..16].try_into().expect("16 of 32 bytes"))
    }
}

/// M1, whole. [`Hello::opens`] proves its claims.
pub(super) struct Hello([u8; HELLO]);

/// The fields of a hello of this version.
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) purpose: Purpose,
    pub(super) from: Instance,
    /// The instance that the sender expects; `None` if it knows an address only.
    pub(super) to: Option<Instance>,
}

/// Why a proven hello cannot be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    Version(u8),
    Malformed,
}

impl Hello {
    pub(super) fn new(key: &Key, claims: &Claims, nonce: &Tag, ephemeral: &Tag) -> Self {
        let mut bytes = [0; HELLO];
        bytes[MAGIC_AT].copy_from_slice(&MAGIC);
        bytes[VERSION_AT] = VERSION;
        bytes[PURPOSE_AT] = claims.purpose.code();
        bytes[FROM_AT].copy_from_slice(&claims.from.0);
        bytes[TO_AT].copy_from_slice(&claims.to.map_or([0; 16], |instance| instance.0));
        bytes[NONCE_AT].copy_from_slice(nonce);
        bytes[EPHEMERAL_AT].copy_from_slice(ephemeral);
        let mac = schedule::mac(&key.root().hello, &bytes[..MAC_FROM]);
        bytes[MAC_FROM..].copy_from_slice(&mac);
        Self(bytes)
    }

    pub(super) const fn from_bytes(bytes: [u8; HELLO]) -> Self {
        Self(bytes)
    }

    pub(super) const fn bytes(&self) -> &[u8; HELLO] {
        &self.0
    }

    /// The manager that it requests, if it is a job link. This field is not yet proven. It serves
    /// only to choose the key for the check.
    pub(super) fn wanted_manager(&self) -> Option<Instance> {
        let job_link = self.0[PURPOSE_AT] == Purpose::JobLink.code();
        job_link.then(|| instance(&self.0[TO_AT])).flatten()
    }

    /// The first of `keys` that made the MAC.
    pub(super) fn opens<'k>(&self, keys: &'k Keys) -> Option<&'k Key> {
        let (body, mac) = self.0.split_at(MAC_FROM);
        keys.accept().find(|key| schedule::verify(&key.root().hello, body, mac))
    }

    /// The claims of a proven hello.
    pub(super) fn claims(&self) -> Result<Claims, Unfit> {
        if self.0[MAGIC_AT] != MAGIC {
            return Err(Unfit::Malformed);
        }
        if self.0[VERSION_AT] != VERSION {
            return Err(Unfit::Version(self.0[VERSION_AT]));
        }
        if self.0[RESERVED_AT] != [0, 0] {
            return Err(Unfit::Malformed);
        }
        Ok(Claims {
            purpose: Purpose::from_code(self.0[PURPOSE_AT]).ok_or(Unfit::Malformed)?,
            from: instance(&self.0[FROM_AT]).ok_or(Unfit::Malformed)?,
            to: instance(&self.0[TO_AT]),
        })
    }

    /// The sender's X25519 public key.
    pub(super) fn ephemeral(&self) -> &[u8] {
        &self.0[EPHEMERAL_AT]
    }
}

/// M2 without its proof: the responder's contribution.
pub(super) fn answer_body(from: Instance, nonce: &Tag, ephemeral: &Tag) -> [u8; ANSWER - PROOF] {
    let mut bytes = [0; ANSWER - PROOF];
    bytes[..16].copy_from_slice(&from.0);
    bytes[16..48].copy_from_slice(nonce);
    bytes[ANSWER_EPHEMERAL_AT].copy_from_slice(ephemeral);
    bytes
}

/// Sender and X25519 public key in M2.
pub(super) fn read_answer(answer: &[u8; ANSWER]) -> (Option<Instance>, &[u8]) {
    (instance(&answer[..16]), &answer[ANSWER_EPHEMERAL_AT])
}

/// The answer to a holder of the key with another version, instead of M2.
pub(super) fn refusal(key: &Key, hello: &Hello, text: &str) -> [u8; ANSWER] {
    let mut bytes = [0; ANSWER];
    bytes[MAGIC_AT].copy_from_slice(&REFUSAL_MAGIC);
    bytes[VERSION_AT] = VERSION;
    for (byte, character) in bytes[8..REFUSAL_MAC_FROM].iter_mut().zip(text.bytes()) {
        *byte = character;
    }
    let mac = schedule::mac(&key.root().refuse, &refusal_input(hello, &bytes));
    bytes[REFUSAL_MAC_FROM..].copy_from_slice(&mac);
    bytes
}

/// The version and text of a refusal of this hello; `None` if `answer` is not one. Unprintable
/// characters of the text are replaced.
pub(super) fn read_refusal(
    key: &Key,
    hello: &Hello,
    answer: &[u8; ANSWER],
) -> Option<(u8, String)> {
    let mac = &answer[REFUSAL_MAC_FROM..];
    let proven = answer[MAGIC_AT] == REFUSAL_MAGIC
        && schedule::verify(&key.root().refuse, &refusal_input(hello, answer), mac);
    let printable = |&byte: &u8| if matches!(byte, b' '..=b'~') { byte as char } else { '?' };
    let text = answer[8..REFUSAL_MAC_FROM].iter().take_while(|&&byte| byte != 0).map(printable);
    proven.then(|| (answer[VERSION_AT], text.collect()))
}

fn refusal_input(hello: &Hello, answer: &[u8; ANSWER]) -> [u8; HELLO + REFUSAL_MAC_FROM] {
    let mut input = [0; HELLO + REFUSAL_MAC_FROM];
    input[..HELLO].copy_from_slice(&hello.0);
    input[HELLO..].copy_from_slice(&answer[..REFUSAL_MAC_FROM]);
    input
}

fn instance(bytes: &[u8]) -> Option<Instance> {
    bytes.try_into().ok().and_then(Instance::from_bytes)
}

const MAGIC: [u8; 4] = *b"MPDr";
const REFUSAL_MAGIC: [u8; 4] = *b"MPDn";

const MAGIC_AT: std::ops::Range<usize> = 0..4;
const VERSION_AT: usize = 4;
const PURPOSE_AT: usize = 5;
const RESERVED_AT: std::ops::Range<usize> = 6..8;
const FROM_AT: std::ops::Range<usize> = 8..24;
const TO_AT: std::ops::Range<usize> = 24..40;
const NONCE_AT: std::ops::Range<usize> = 40..72;
const EPHEMERAL_AT: std::ops::Range<usize> = 72..104;
const MAC_FROM: usize = 104;

const ANSWER_EPHEMERAL_AT: std::ops::Range<usize> = 48..80;
const REFUSAL_MAC_FROM: usize = 80;
