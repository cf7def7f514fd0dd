//! The key of a job: made by the daemon that accepted it, known to the daemons of its hosts and to its
//! managers, and shown to nobody.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroizing;

use crate::channel::key::{KEY_LENGTH, Key};
use crate::hex;

/// 32 random bytes under which the managers of one job speak to each other. On the wire 64 hexadecimal
/// digits, in messages that travel under another key only.
#[derive(Clone, PartialEq, Eq)]
pub struct JobKey(Zeroizing<[u8; KEY_LENGTH]>);

impl JobKey {
    /// The key of these bytes, which must be random.
    pub fn from_bytes(bytes: [u8; KEY_LENGTH]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The key for the channel.
    pub fn key(&self) -> Key {
        Key::from_bytes(*self.0)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_key_reads_back_and_does_not_show_itself() {
        let key = JobKey::from_bytes([0xa5; KEY_LENGTH]);
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(json, format!("\"{}\"", "a5".repeat(32)));
        assert_eq!(serde_json::from_str::<JobKey>(&json).unwrap(), key);
        assert!(!format!("{key:?}").contains("a5"));
        assert!(serde_json::from_str::<JobKey>("\"a5\"").is_err());
        assert!(serde_json::from_str::<JobKey>(&format!("\"{}\"", "é".repeat(32))).is_err());
    }
}
