//! The secrets of a job: its key and its cookie. The daemon that accepted the job makes them. The
//! daemons and managers of its hosts know them. They must not occur in logs, arguments or names.

use std::fmt;

use crypto::hmac;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroizing;

use crate::hex;

/// Bytes of a key of the channel: 256 bits, never less.
pub const KEY_LENGTH: usize = 32;

/// The 32 random bytes that secure the connections among the managers of one job. On the wire 64
/// hexadecimal digits, only in messages that are encrypted under another key.
#[derive(Clone)]
pub struct JobKey(Zeroizing<[u8; KEY_LENGTH]>);

impl JobKey {
    /// The key of these bytes, which must be random.
    pub fn from_bytes(bytes: [u8; KEY_LENGTH]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for the channel.
    pub fn expose(&self) -> &[u8; KEY_LENGTH] {
        &self.0
    }

    /// The secret part of the job's PMIx namespaces: 128 bits as hexadecimal digits, equal on all hosts of the job.
    /// The ranks have it in their environment. It does not reveal the key.
    pub fn pmix_secret(&self) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0[..]);
        hex::encode(&hmac::sign(&key, b"mpd1 pmix namespace\0").as_ref()[..16])
    }
}

/// What daemons may know of [`JobKey::pmix_secret`] to find its job: a digest, as hexadecimal digits.
pub fn namespace_mark(secret: &str) -> String {
    mark(b"mpd1 pmix mark", secret)
}

/// A digest of the members of a meeting of several jobs, as hexadecimal digits. The names of the members are secret.
pub fn members_mark(members: &str) -> String {
    mark(b"mpd1 pmix members", members)
}

fn mark(purpose: &[u8], text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, purpose);
    hex::encode(hmac::sign(&key, text.as_bytes()).as_ref())
}

/// Whether two secrets are equal. The time of the comparison does not depend on the number of equal bytes.
pub fn same_secret(one: &[u8], other: &[u8]) -> bool {
    let key = |secret: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, secret);
    const LABEL: &[u8] = b"mpd1 same";
    hmac::verify(&key(one), LABEL, hmac::sign(&key(other), LABEL).as_ref()).is_ok()
}

impl PartialEq for JobKey {
    fn eq(&self, other: &Self) -> bool {
        same_secret(&self.0[..], &other.0[..])
    }
}

impl Eq for JobKey {}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

impl Serialize for JobKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = Zeroizing::new(hex::encode(&self.0[..]));
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for JobKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        let mut bytes = Zeroizing::new([0; KEY_LENGTH]);
        hex::decode(&text, &mut bytes[..])
            .ok_or_else(|| de::Error::custom("a job's key has 64 hexadecimal digits"))?;
        Ok(Self(bytes))
    }
}

/// Bytes of a cookie.
const COOKIE_LENGTH: usize = 16;

/// The 16 random bytes that mark the environment of every process of the job, see [`Cookie::at`].
/// On the wire 32 hexadecimal digits.
#[derive(Clone)]
pub struct Cookie([u8; COOKIE_LENGTH]);

impl Cookie {
    /// The cookie of these bytes, which must be random.
    pub const fn from_bytes(bytes: [u8; COOKIE_LENGTH]) -> Self {
        Self(bytes)
    }

    /// The mark of the processes at `tree_index`. One machine can act as several hosts of a job. The
    /// clean-up of one place then spares the processes of the others.
    pub fn at(&self, tree_index: u32) -> String {
        format!("{}-{tree_index}", hex::encode(&self.0))
    }
}

impl PartialEq for Cookie {
    fn eq(&self, other: &Self) -> bool {
        same_secret(&self.0, &other.0)
    }
}

impl Eq for Cookie {}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(..)")
    }
}

impl Serialize for Cookie {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Cookie {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; COOKIE_LENGTH];
        hex::decode(&text, &mut bytes)
            .ok_or_else(|| de::Error::custom("a job's cookie has 32 hexadecimal digits"))?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_hexadecimal_differs_by_tree_index_and_is_not_printed() {
        let cookie = Cookie::from_bytes([0x5a; COOKIE_LENGTH]);
        let json = serde_json::to_string(&cookie).unwrap();
        assert_eq!(serde_json::from_str::<Cookie>(&json).unwrap(), cookie);
        assert_eq!(cookie.at(17), format!("{}-17", "5a".repeat(16)));
        assert_ne!(cookie.at(1), cookie.at(11));
        assert!(cookie != Cookie::from_bytes([0x5b; COOKIE_LENGTH]));
        assert!(!format!("{cookie:?}").contains("5a"));
        for bad in ["precious", "../../../../home/alice/precious1", "5a", ""] {
            assert!(serde_json::from_str::<Cookie>(&format!("\"{bad}\"")).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_job_key_reads_back_and_is_not_printed() {
        let key = JobKey::from_bytes([0xa5; KEY_LENGTH]);
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(json, format!("\"{}\"", "a5".repeat(32)));
        assert_eq!(serde_json::from_str::<JobKey>(&json).unwrap(), key);
        assert!(!format!("{key:?}").contains("a5"));
        assert!(serde_json::from_str::<JobKey>("\"a5\"").is_err());
        assert!(serde_json::from_str::<JobKey>(&format!("\"{}\"", "é".repeat(32))).is_err());
    }

    #[test]
    fn the_secret_of_pmix_depends_on_the_key_and_does_not_show_it() {
        let secret = JobKey::from_bytes([0xa5; KEY_LENGTH]).pmix_secret();
        assert_eq!(secret.len(), 32);
        assert!(!secret.contains("a5a5"));
        assert_ne!(secret, JobKey::from_bytes([0xa6; KEY_LENGTH]).pmix_secret());
    }

    #[test]
    fn secrets_are_the_same_only_if_all_their_bytes_and_lengths_are() {
        assert!(same_secret(b"abc", b"abc") && same_secret(b"", b""));
        for other in [&b"abd"[..], b"ab", b"abcd", b"bbc", b""] {
            assert!(!same_secret(b"abc", other) && !same_secret(other, b"abc"), "{other:?}");
        }
    }
}
