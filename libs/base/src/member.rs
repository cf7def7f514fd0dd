//! One member of the ring as the others know it: its name, its instance, its record.
//!
//! [`Record`] has the total order of rule R1. This module does not know links or time.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded::at_most;
use crate::digest::Fnv;

/// Most members of a ring, and so most records of a list. A frame holds a fraction of them, see
/// `LIST_CHUNK` of `mpd-wire`.
pub const MAX_MEMBERS: usize = 16_384;
/// Most bytes in the name of a daemon.
pub const MAX_DAEMON_NAME: usize = 255;
/// Most addresses in one record.
pub const MAX_ADDRESSES: usize = 8;
/// Most bytes in one address: an IPv6 address with its scope, brackets and port, or a host name.
pub const MAX_ADDRESS: usize = 280;

/// The text cannot be a name, an instance or an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not {wanted}")]
pub struct InvalidWord {
    wanted: &'static str,
}

/// Whether `name` may be the name of a daemon. Such a name is safe in ids, file names and messages.
pub fn is_daemon_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_DAEMON_NAME
        && !name.starts_with(['-', '.'])
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:".contains(&b))
}

/// The name of a daemon, unique in its ring. Cheap to copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DaemonName(Arc<str>);

impl DaemonName {
    /// Checks `text` by [`is_daemon_name`].
    ///
    /// # Errors
    /// The text is not a daemon's name.
    pub fn new(text: &str) -> Result<Self, InvalidWord> {
        if is_daemon_name(text) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidWord { wanted: "a daemon's name" })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DaemonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for DaemonName {
    type Error = InvalidWord;
    fn try_from(text: String) -> Result<Self, InvalidWord> {
        Self::new(&text)
    }
}

impl From<DaemonName> for String {
    fn from(name: DaemonName) -> Self {
        name.0.as_ref().into()
    }
}

/// One run of a daemon: 16 random bytes that it makes at its start. On the wire 32 hexadecimal
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance(u128);

impl Instance {
    /// The instance of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// The instance that follows this one after `steps`: each host of a job has one of a row.
    #[must_use]
    pub const fn plus(self, steps: u32) -> Self {
        Self(self.0.wrapping_add(steps as u128))
    }

    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Instance {
    type Err = InvalidWord;
    fn from_str(text: &str) -> Result<Self, InvalidWord> {
        let invalid = InvalidWord { wanted: "an instance (32 hexadecimal digits)" };
        let digits = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 32 || !text.bytes().all(digits) {
            return Err(invalid);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| invalid)
    }
}

// By hand and without the formatter, for speed: every message on the ring holds an instance.
impl Serialize for Instance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.to_bytes()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        serializer.serialize_str(std::str::from_utf8(&text).expect("digits"))
    }
}

impl<'de> Deserialize<'de> for Instance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The address of a daemon, as `HOST:PORT` or `[IPV6]:PORT`. Opaque to the ring.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(Arc<str>);

impl Address {
    /// Checks length and characters only.
    ///
    /// # Errors
    /// `text` is empty, too long, or has other characters than printable ASCII.
    pub fn new(text: &str) -> Result<Self, InvalidWord> {
        let fits = !text.is_empty() && text.len() <= MAX_ADDRESS;
        if fits && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidWord { wanted: "an address" })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the port.
    pub fn host(&self) -> &str {
        self.as_str().rsplit_once(':').map_or(self.as_str(), |(host, _)| host)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Address {
    type Error = InvalidWord;
    fn try_from(text: String) -> Result<Self, InvalidWord> {
        Self::new(&text)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.0.as_ref().into()
    }
}

/// A member's state. The order is that of R1: of two records of one incarnation the later state
/// wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is in the ring.
    Live,
    /// A member could not reach it. It may refute that.
    Dead,
    /// It left by command. The ring does not look for it.
    Departed,
}

/// A member's record. Of two records of one name the greater replaces the other (R1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The member.
    pub name: DaemonName,
    /// Only the member itself increases it (R2).
    pub incarnation: u64,
    /// Live, dead or departed.
    pub standing: Standing,
    /// The run of the daemon.
    pub instance: Instance,
    /// Its position on the circle, which R6 may change.
    pub position: u64,
    /// Its position in listings and placement; constant.
    pub ordinal: u64,
    /// Processes that it takes before another member is preferred.
    pub ncpus: u32,
    /// Whether it gets new processes only in jobs that name it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub draining: bool,
    #[serde(deserialize_with = "at_most::<_, _, MAX_ADDRESSES>")]
    pub addresses: Vec<Address>,
    /// The member that declared it dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<DaemonName>,
    /// Seconds since it died or left, as the sender knows. Not part of the order.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub age_s: u32,
}

/// A daemon that waits for the list of members: the part of its first record that it makes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newcomer {
    pub name: DaemonName,
    /// The run of the daemon.
    pub instance: Instance,
    /// Its position in listings and placement; `None` behind all others.
    pub ordinal: Option<u64>,
    /// Processes that it takes before another member is preferred.
    pub ncpus: u32,
    #[serde(deserialize_with = "at_most::<_, _, MAX_ADDRESSES>")]
    pub addresses: Vec<Address>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Record {
    /// Whether this record replaces `other`, a record of the same name (R1). Without `whole_order`,
    /// records of equal incarnation and standing do not replace each other; only the scenario of R1
    /// uses that.
    pub fn beats(&self, other: &Self, whole_order: bool) -> bool {
        let head = |r: &Self| (r.incarnation, r.standing);
        if !whole_order || head(self) != head(other) {
            return head(self) > head(other);
        }
        let tail = |r: &Self| (r.instance, r.position, r.ordinal, r.ncpus, r.draining);
        tail(self)
            .cmp(&tail(other))
            .then_with(|| self.addresses.cmp(&other.addresses))
            .then_with(|| self.by.cmp(&other.by))
            .is_gt()
    }

    /// Its seat on the circle.
    pub fn seat(&self) -> Seat {
        Seat { position: self.position, name: self.name.clone() }
    }

    /// Whether its seat lies strictly between `from` and `to`, see [`Seat::is_between`].
    pub fn is_between(&self, from: &Seat, to: &Seat) -> bool {
        let seat = |seat: &'_ Seat| (self.position, &self.name).cmp(&(seat.position, &seat.name));
        let (from_here, to_here) = (seat(from).is_gt(), seat(to).is_lt());
        if from < to { from_here && to_here } else { from_here || to_here }
    }

    /// Whether the record is within the bounds that the decoder does not check.
    pub fn is_sound(&self) -> bool {
        self.addresses.len() <= MAX_ADDRESSES && self.incarnation < u64::MAX / 2
    }

    /// 64 bits of digest. The digest of a list is the sum of these.
    pub fn digest(&self) -> u64 {
        let mut sum = Fnv::default();
        sum.add(self.name.as_str().as_bytes());
        sum.add(&self.incarnation.to_be_bytes());
        sum.add(&[match self.standing {
            Standing::Live => 0,
            Standing::Dead => 1,
            Standing::Departed => 2,
        }]);
        sum.add(&self.instance.to_bytes());
        sum.add(&self.position.to_be_bytes());
        sum.add(&self.ordinal.to_be_bytes());
        sum.add(&self.ncpus.to_be_bytes());
        sum.add(&[u8::from(self.draining)]);
        for address in &self.addresses {
            sum.add(address.as_str().as_bytes());
        }
        if let Some(by) = &self.by {
            sum.add(by.as_str().as_bytes());
        }
        sum.spread()
    }
}

/// A seat on the circle: ordered by position, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seat {
    /// See [`Record::position`].
    pub position: u64,
    /// The member that has the seat.
    pub name: DaemonName,
}

impl Seat {
    /// Whether this seat lies strictly between `from` and `to`, going round from `from`. If `from`
    /// equals `to`, every other seat lies between them.
    pub fn is_between(&self, from: &Self, to: &Self) -> bool {
        if from < to { from < self && self < to } else { self > from || self < to }
    }
}
