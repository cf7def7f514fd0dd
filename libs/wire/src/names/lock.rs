//! Keys of published names: a name published with a key is found only with that key.
//!
//! The passphrase stays in the manager that read it. The manager sends its daemon a [`NameKey`],
//! derived from the passphrase and the name. All members hold a [`Lock`]: a salt and a MAC by the
//! key. A reader of name records can still try passphrases, so a passphrase should be hard to guess.

use std::fmt;

use crypto::hmac;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroizing;

use crate::hex;

/// Bytes of the random salt of a lock.
pub const SALT: usize = 16;

const MAC: usize = 32;

/// Separates this use of HMAC from every other.
const LABEL: &[u8] = b"mpd1 name\0";

/// The key of one name. Comparison takes constant time; `Debug` does not print it.
#[derive(Clone)]
pub struct NameKey(Zeroizing<[u8; MAC]>);

impl NameKey {
    /// The key of a name and a passphrase.
    pub fn new(name: &str, words: &[u8]) -> Self {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, words));
        context.update(LABEL);
        context.update(name.as_bytes());
        Self(Zeroizing::new(bytes(&context.sign())))
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0[..])
    }
}

impl PartialEq for NameKey {
    fn eq(&self, other: &Self) -> bool {
        hmac::verify(&self.hmac(), LABEL, hmac::sign(&other.hmac(), LABEL).as_ref()).is_ok()
    }
}

impl Eq for NameKey {}

impl fmt::Debug for NameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameKey(..)")
    }
}

impl Serialize for NameKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = Zeroizing::new(hex::encode(&self.0[..]));
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for NameKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        let mut bytes = Zeroizing::new([0; MAC]);
        hex::decode(&text, &mut bytes[..])
            .ok_or_else(|| de::Error::custom("the key of a name has 64 hexadecimal digits"))?;
        Ok(Self(bytes))
    }
}

/// The verifier of a published name's key. On the wire 96 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lock([u8; Self::BYTES]);

impl Lock {
    pub(crate) const BYTES: usize = SALT + MAC;

    /// The lock of a key. The salt must be random.
    pub fn new(salt: [u8; SALT], key: &NameKey) -> Self {
        let mut lock = [0; Self::BYTES];
        lock[..SALT].copy_from_slice(&salt);
        lock[SALT..].copy_from_slice(hmac::sign(&key.hmac(), &salt).as_ref());
        Self(lock)
    }

    /// Whether this is the lock of `key`.
    pub fn opens_with(&self, key: &NameKey) -> bool {
        let (salt, mac) = self.0.split_at(SALT);
        hmac::verify(&key.hmac(), salt, mac).is_ok()
    }

    /// The lock of another key with the same salt. Its sheet has the same digest.
    #[must_use]
    pub fn rekeyed(&self, key: &NameKey) -> Self {
        let mut salt = [0; SALT];
        salt.copy_from_slice(self.salt());
        Self::new(salt, key)
    }

    /// Random: two locks with one salt are one lock.
    pub(crate) fn salt(&self) -> &[u8] {
        &self.0[..SALT]
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock(..)")
    }
}

impl Serialize for Lock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Lock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; Self::BYTES];
        hex::decode(&text, &mut bytes)
            .ok_or_else(|| de::Error::custom("a lock has 96 hexadecimal digits"))?;
        Ok(Self(bytes))
    }
}

fn bytes(tag: &hmac::Tag) -> [u8; MAC] {
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_opens_only_with_its_own_passphrase_and_name() {
        let key = NameKey::new("ocean", b"deep");
        let lock = Lock::new([7; SALT], &key);
        assert!(lock.opens_with(&key));
        assert!(key == NameKey::new("ocean", b"deep"));
        for (name, words) in [("ocean", &b"Deep"[..]), ("air", b"deep"), ("ocea", b"ndeep")] {
            let other = NameKey::new(name, words);
            assert!(!lock.opens_with(&other) && other != key, "{name}");
        }
        let stranger = NameKey::new("ocean", b"shallow");
        let rekeyed = lock.rekeyed(&stranger);
        assert!(rekeyed.opens_with(&stranger) && !rekeyed.opens_with(&key));
        assert_eq!(rekeyed.salt(), lock.salt());
        let salted = Lock::new([8; SALT], &key);
        assert!(salted.opens_with(&key) && salted.0[SALT..] != lock.0[SALT..]);
    }

    #[test]
    fn keys_and_locks_read_back_and_are_not_printed() {
        let key = NameKey::new("ocean", b"deep");
        let lock = Lock::new([0xa5; SALT], &key);
        let (key_text, lock_text) =
            (serde_json::to_string(&key).unwrap(), serde_json::to_string(&lock).unwrap());
        assert_eq!((key_text.len(), lock_text.len()), (66, 98));
        assert!(!lock_text.contains(key_text.trim_matches('"')));
        assert!(serde_json::from_str::<NameKey>(&key_text).unwrap() == key);
        assert_eq!(serde_json::from_str::<Lock>(&lock_text).unwrap(), lock);
        assert_eq!(format!("{key:?} {lock:?}"), "NameKey(..) Lock(..)");
        for bad in ["", "a5", &"é".repeat(48)] {
            let bad = format!("\"{bad}\"");
            assert!(serde_json::from_str::<NameKey>(&bad).is_err(), "{bad}");
            assert!(serde_json::from_str::<Lock>(&bad).is_err(), "{bad}");
        }
    }

    /// The values are the HMAC-SHA256 of another implementation.
    #[test]
    fn keys_and_locks_are_as_the_protocol_defines() {
        let key = NameKey::new("ocean", b"deep");
        assert_eq!(hex::encode(&key.0[..]), KEY);
        assert_eq!(hex::encode(&Lock::new([0; SALT], &key).0[SALT..]), MAC_OF_ZEROS);
    }

    const KEY: &str = "33ea6999adb1a073aaff622a18ad1cc6efaaf6efceb74aeddac06493fda60d2c";
    const MAC_OF_ZEROS: &str = "7ec0f6fb60c8d01c5d4f9231a0d7c7a2a65c8ca209bb37ea0c89410d5a47ee5f";
}
