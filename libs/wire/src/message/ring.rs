//! Between daemons, on every link of the ring. docs/ring.md describes the exchanges.

use std::fmt;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::binary;
use crate::bounded::at_most;
use crate::digest::Fnv;
use crate::names::NameRecord;
use crate::{DaemonName, Instance, MAX_MEMBERS, Record, Seat};

/// Most records in one message: that many of the largest size fit a frame.
pub const LIST_CHUNK: usize = 128;
/// Most names in a lap. With the names of all members, the bytes that a lap moves would grow with the square of their
/// number.
const MAX_LAP_NAMES: usize = 1024;

/// Daemon to daemon, either direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RingMessage {
    /// The sender lives, and this is the digest of its list.
    Pulse {
        /// Digest of the sender's list.
        digest: u64,
    },
    /// A part of the sender's whole list.
    List {
        /// At most [`crate::message::LIST_CHUNK`] records.
        #[serde(serialize_with = "serialize_shared", deserialize_with = "at_most_shared")]
        records: Vec<Arc<Record>>,
    },
    /// Records that changed.
    Update {
        /// At most [`crate::message::LIST_CHUNK`] records.
        #[serde(serialize_with = "serialize_shared", deserialize_with = "at_most_shared")]
        records: Vec<Arc<Record>>,
    },
    /// Published names: all of them after the last [`RingMessage::List`], else only changed name records.
    Names {
        /// At most [`crate::names::MAX_NAME_RECORD`] bytes of text in all.
        #[serde(deserialize_with = "at_most::<_, _, MAX_MEMBERS>")]
        name_records: Vec<NameRecord>,
    },
    /// Act on this, and forward it to a range of the ring.
    Scatter(Scatter),
    /// The answers from a range of the ring.
    Gathered(Gathered),
    /// Forward this to the rhs; the origin takes it off the ring.
    Lap(Lap),
}

fn serialize_shared<S: Serializer>(
    records: &[Arc<Record>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(records.iter().map(|record| &**record))
}

fn at_most_shared<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Arc<Record>>, D::Error> {
    let records: Vec<Record> = at_most::<_, _, LIST_CHUNK>(deserializer)?;
    Ok(records.into_iter().map(Arc::new).collect())
}

impl RingMessage {
    /// A list of these records.
    pub fn list(records: impl IntoIterator<Item = Record>) -> Self {
        Self::List { records: records.into_iter().map(Arc::new).collect() }
    }

    /// An update of these records.
    pub fn update(records: impl IntoIterator<Item = Record>) -> Self {
        Self::Update { records: records.into_iter().map(Arc::new).collect() }
    }
}

/// The identity of a scatter, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScatterId {
    /// The daemon that began it.
    pub origin: Instance,
    /// Counted by that daemon from 1.
    pub sequence: u64,
}

/// A message to a range of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scatter {
    /// Each member acts on it once.
    pub id: ScatterId,
    /// 0 at first; each repetition counts one up.
    pub round: u32,
    /// The receiver's seat as the sender knows it. The receiver's range begins after it.
    pub after: Seat,
    /// The end of the range, exclusive.
    pub until: Seat,
    /// The members that act and answer; empty means all.
    #[serde(deserialize_with = "at_most::<_, _, MAX_MEMBERS>")]
    pub only: Vec<DaemonName>,
    /// Forwarding steps so far, this one included.
    pub hops: u32,
    /// How long the receiver may wait for the answers of its range.
    pub patience_ms: u32,
    /// The order, opaque to the ring. Empty if `naming` is present.
    pub payload: Payload,
    /// The question whether this name may belong to its owner. The ring machine itself answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naming: Option<Box<Naming>>,
}

/// A name that a daemon wants to publish, and everything that it has published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Naming {
    pub name: String,
    /// The owner's name record, including the name.
    pub name_record: NameRecord,
}

/// The answers of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    pub id: ScatterId,
    pub round: u32,
    /// The members that answered, with their answers.
    #[serde(deserialize_with = "at_most::<_, _, MAX_MEMBERS>")]
    pub answers: Vec<Answer>,
    /// The members that could not be reached or did not answer in time.
    #[serde(deserialize_with = "at_most::<_, _, MAX_MEMBERS>")]
    pub lost: Vec<DaemonName>,
    /// The most forwarding steps from the origin to any member of the range.
    pub depth: u32,
}

/// One member's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The member.
    pub name: DaemonName,
    /// The answer, opaque to the ring.
    pub answer: Payload,
}

/// A message once round the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lap {
    /// The daemon that started it.
    pub origin: Instance,
    /// Counted by that daemon from 1.
    pub sequence: u64,
    /// Forwarding steps so far, this one included.
    pub hops: u32,
    /// Whether members append their names.
    pub trace: bool,
    /// With `trace`, a digest of the names so far, in their order.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub way: u64,
    /// With `trace`, the first names.
    #[serde(deserialize_with = "at_most::<_, _, MAX_LAP_NAMES>")]
    pub names: Vec<DaemonName>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Lap {
    /// Notes a member on the way of a lap with `trace`.
    pub fn visit(&mut self, name: &DaemonName) {
        self.way = Self::way_over(self.way, [name]);
        if self.names.len() < MAX_LAP_NAMES {
            self.names.push(name.clone());
        }
    }

    /// The digest of a way that continues over these members.
    pub fn way_over<'a>(way: u64, names: impl IntoIterator<Item = &'a DaemonName>) -> u64 {
        names.into_iter().fold(way, |way, name| {
            let mut sum = Fnv::default();
            sum.add(&way.to_be_bytes());
            sum.add(name.as_str().as_bytes());
            sum.spread()
        })
    }
}

/// Opaque bytes: a byte string between hosts, and base 64 in JSON. Cheap to copy.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<[u8]>);

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(&String::from(self.clone())),
            false => serializer.serialize_bytes(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => String::deserialize(deserializer)?.try_into().map_err(D::Error::custom),
            false => Ok(Self(binary::deserialize::<Vec<u8>, D>(deserializer)?.into())),
        }
    }
}

impl Payload {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The text is not base 64.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not base 64")]
pub struct InvalidPayload;

impl From<Payload> for String {
    fn from(payload: Payload) -> Self {
        let mut text = Self::with_capacity(payload.0.len().div_ceil(3) * 4);
        for chunk in payload.0.chunks(3) {
            let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for i in 0..4 {
                if i <= chunk.len() {
                    text.push(char::from(DIGITS[(bits >> (18 - 6 * i) & 63) as usize]));
                } else {
                    text.push('=');
                }
            }
        }
        text
    }
}

impl TryFrom<String> for Payload {
    type Error = InvalidPayload;
    fn try_from(text: String) -> Result<Self, InvalidPayload> {
        let text = text.as_bytes();
        if !text.len().is_multiple_of(4) {
            return Err(InvalidPayload);
        }
        let digits = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
        let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
        for chunk in digits.chunks(4) {
            let mut bits = 0;
            for i in 0..4 {
                bits = bits << 6 | chunk.get(i).map_or(Ok(0), |&digit| value(digit))?;
            }
            let [_, whole @ ..] = bits.to_be_bytes();
            let used = chunk.len() * 6 / 8;
            if whole[used..].iter().any(|&b| b != 0) {
                return Err(InvalidPayload);
            }
            bytes.extend_from_slice(&whole[..used]);
        }
        Ok(Self(bytes.into()))
    }
}

fn value(digit: u8) -> Result<u32, InvalidPayload> {
    match digit {
        b'A'..=b'Z' => Ok(u32::from(digit - b'A')),
        b'a'..=b'z' => Ok(u32::from(digit - b'a') + 26),
        b'0'..=b'9' => Ok(u32::from(digit - b'0') + 52),
        b'+' => Ok(62),
        b'/' => Ok(63),
        _ => Err(InvalidPayload),
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base_64_is_the_standard_one_and_other_texts_are_refused() {
        let text = |bytes: &[u8]| String::from(Payload::from(bytes));
        assert_eq!(text(b""), "");
        assert_eq!(text(b"f"), "Zg==");
        assert_eq!(text(b"fo"), "Zm8=");
        assert_eq!(text(b"foobar"), "Zm9vYmFy");
        for bad in ["Z", "Zg=", "Zh==", "Z===", "====", "Zg==Zg==", "Zm9 "] {
            assert_eq!(Payload::try_from(bad.to_owned()), Err(InvalidPayload), "{bad}");
        }
    }

    #[test]
    fn the_digest_of_a_way_is_that_of_the_example_and_depends_on_the_order() {
        let names = ["h2", "h3"].map(|name| DaemonName::new(name).unwrap());
        assert_eq!(Lap::way_over(0, &names), 9_425_568_675_306_717_962);
        assert_ne!(Lap::way_over(0, names.iter().rev()), Lap::way_over(0, &names));
    }

    proptest! {
        #[test]
        fn a_payload_reads_back_what_it_prints(bytes: Vec<u8>) {
            let payload = Payload::from(bytes.as_slice());
            let text = String::from(payload.clone());
            prop_assert_eq!(Payload::try_from(text), Ok(payload));
        }
    }
}
