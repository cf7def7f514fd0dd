//! The authenticated channel of every TCP connection of the suite.
//!
//! A handshake of three messages proves to both sides that the other holds the same key. It gives
//! each direction a fresh key for its frames. There is no plaintext mode and no negotiation. A peer
//! without the key receives no byte. docs/PROTOCOL.md specifies every byte, and
//! `libs/channel/tests/vectors/channel.txt` has test vectors. `libs/channel/tests/channel/naive.rs`
//! is a second implementation, written from that text.
//!
//! | module | subject |
//! |---|---|
//! | [`key`] | the shared key, its short id |
//! | [`keytext`] | the text of a key file |
//! | [`hello`] | the first message: instances and purposes; the refusal of another version |
//! | [`handshake`] | the machines of both sides |
//! | [`repeats`] | first messages that were already answered |
//! | [`seal`] | frames: sealing, opening, the end of a stream |
//! | `schedule` | the derivation of all secrets from a key and an agreement |
//!
//! The channel protects the messages between two holders of one key. A holder can impersonate
//! another holder, and traffic analysis is out of scope. The library `ring` does not wipe its own
//! copies of keys. Therefore a process that holds keys should not be dumpable.
//!
//! **Users.** `mpd-io`, which drives the channel over sockets, `mpd`, and `mpdboot`, which makes keys and
//! key files.
//!
//! **Must not know.** The content of frames, sockets, and files. Randomness comes in as a value.
#![forbid(unsafe_code)]

pub mod handshake;
pub mod hello;
pub mod key;
pub mod keytext;
pub mod repeats;
mod schedule;
pub mod seal;

pub use handshake::{Established, HandshakeError, Initiator, Responder};
pub use hello::{Instance, Purpose};
pub use key::{Key, KeyId, Keys};
pub use keytext::KeyText;
pub use repeats::Repeats;
pub use seal::{ChannelError, Opened, Opener, Sealer};

/// Has the crypto library detect the features of the CPU, which takes long on virtual machines. Copies of this process
/// have the result.
pub fn prepare() {
    crypto::digest::digest(&crypto::digest::SHA256, &[]);
}
