//! The authenticated channel: what every TCP connection of the suite begins with and speaks.
//!
//! A handshake of three messages proves to both sides that the other holds the same key, and gives
//! each direction a fresh key for its frames. There is no plaintext mode, nothing is negotiated, and
//! a stranger gets no byte. PROTOCOL.md specifies every byte, `tests/vectors/channel.txt` has test
//! vectors, and a second implementation written from that text lives in `tests/channel/naive.rs`.
//!
//! | module | subject |
//! |---|---|
//! | [`key`] | the shared key, its short id, the old secret word |
//! | [`keytext`] | the text of a key file |
//! | [`hello`] | the first message: instances and purposes; the refusal of another version |
//! | [`handshake`] | the machines of both sides |
//! | [`repeats`] | first messages that were answered once |
//! | [`seal`] | frames: sealing, opening, the end of a stream |
//!
//! What is protected is what two holders of one key say to each other. Holders can pose as one
//! another, and traffic analysis is out of scope. `ring` does not wipe its own copies of keys, so a
//! process that holds keys should not be dumpable.
//!
//! **Users.** `mpd-io`, which drives it over sockets; `mpdboot`, which makes keys and key files.
//!
//! **Must not know.** What is said in the frames, sockets, and files. Randomness comes in as a value.
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
