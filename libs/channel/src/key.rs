//! The key that two sides share: that of a ring, or of a job.
//!
//! A [`Key`] is 32 random bytes and the secrets that the channel derives from them. `Debug` does
//! not print it; people compare keys by [`KeyId`]. Clones share one copy, which is wiped when the
//! last clone is dropped.

use std::fmt;
use std::sync::Arc;

use crypto::rand::SecureRandom;
use zeroize::Zeroizing;

use mpd_wire::job::{JobKey, KEY_LENGTH};

use super::schedule::{Root, Secret};

/// A key shared by all peers that may communicate.
#[derive(Clone)]
pub struct Key(Arc<Secrets>);

struct Secrets {
    raw: Secret,
    root: Root,
}

/// The system provides no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

impl Key {
    /// The key of these bytes, which must be random.
    pub fn from_bytes(bytes: [u8; KEY_LENGTH]) -> Self {
        Self::from_secret(Zeroizing::new(bytes))
    }

    pub(super) fn from_secret(raw: Secret) -> Self {
        let root = Root::derive(&raw);
        Self(Arc::new(Secrets { raw, root }))
    }

    /// A new key.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn generate(random: &dyn SecureRandom) -> Result<Self, NoRandomness> {
        let mut raw = Zeroizing::new([0; KEY_LENGTH]);
        random.fill(&mut raw[..]).map_err(|_| NoRandomness)?;
        Ok(Self::from_secret(raw))
    }

    /// The bytes, for transfer to a host over a channel or over ssh.
    pub fn expose(&self) -> &[u8; KEY_LENGTH] {
        &self.0.raw
    }

    /// A short id, for comparison by people.
    pub fn id(&self) -> KeyId {
        KeyId(self.0.root.id)
    }

    pub(super) fn root(&self) -> &Root {
        &self.0.root
    }
}

impl From<&JobKey> for Key {
    fn from(key: &JobKey) -> Self {
        Self::from_bytes(*key.expose())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// Eight hexadecimal digits that distinguish keys and do not reveal them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId([u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// The keys of one side: one to connect with, and a second accepted one while keys are being
/// changed.
#[derive(Clone, Debug)]
pub struct Keys {
    connect: Key,
    also: Option<Key>,
}

impl Keys {
    /// These keys.
    pub const fn new(connect: Key, also: Option<Key>) -> Self {
        Self { connect, also }
    }

    pub const fn connect(&self) -> &Key {
        &self.connect
    }

    /// The keys to accept, at most two.
    pub fn accept(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.connect).chain(&self.also)
    }
}

impl From<Key> for Keys {
    fn from(key: Key) -> Self {
        Self::new(key, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_prints_only_its_id() {
        let key = Key::from_bytes([0xa5; 32]);
        assert_eq!(format!("{key:?}"), format!("Key({})", key.id()));
        assert_eq!(key.id().to_string().len(), 8);
        assert!(!format!("{:?}", Keys::from(key)).contains("a5a5"));
    }

    #[test]
    fn two_generated_keys_differ() {
        let random = crypto::rand::SystemRandom::new();
        let one = Key::generate(&random).unwrap();
        assert_ne!(one.expose(), Key::generate(&random).unwrap().expose());
    }
}
