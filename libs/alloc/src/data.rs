//! Allocations: slots that a user holds before any process runs on them.
//!
//! This module has the data of a request and of its answer. The other modules decide about them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use mpd_wire::bounded::at_most;
use mpd_wire::{DaemonName, Instance};

/// Most slots of one request.
pub const MAX_COUNT: u32 = 65_536;
/// Most patterns of one request.
pub const MAX_PATTERNS: usize = 256;
/// Most bytes in one pattern, and in the list of allowed numbers.
pub const MAX_PATTERN: usize = 512;
/// Most parts of an allocation.
pub const MAX_PARTS: usize = 4096;
/// Most hosts of an allocation in a listing.
pub const MAX_LISTED_HOSTS: usize = 4;
/// Most messages that travel together.
pub const MAX_MESSAGES: usize = 64;
/// Most ends of holds in the report of a host.
pub const MAX_ENDS: usize = 64;

/// Most bytes in one string for the scheduler.
pub const MAX_STRING: usize = 1024;
/// Most bytes in all strings of a request. An environment takes them twice.
pub const MAX_STRINGS: usize = 64 * 1024;

/// Precedes the number of an allocation, so that no job has the same name.
const MARK: char = 'a';

/// An allocation, or a request for one: `aNUMBER@DAEMON`. The daemon is that of the requester's host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllocId {
    number: u64,
    daemon: DaemonName,
}

/// The text is not `aNUMBER@DAEMON`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an allocation (aNUMBER@DAEMON)")]
pub struct InvalidAllocId;

impl AllocId {
    /// The `number`-th allocation of `daemon`.
    pub const fn new(number: u64, daemon: DaemonName) -> Self {
        Self { number, daemon }
    }

    /// The number alone.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The daemon that the requester asked.
    pub const fn daemon(&self) -> &DaemonName {
        &self.daemon
    }

    /// Parses `aNUMBER@DAEMON`, or `aNUMBER` for an allocation of the daemon `here`.
    ///
    /// # Errors
    /// The text is neither.
    pub fn parse_at(text: &str, here: &DaemonName) -> Result<Self, InvalidAllocId> {
        match text.contains('@') {
            true => text.parse(),
            false => Ok(Self::new(number_of(text)?, here.clone())),
        }
    }
}

fn number_of(text: &str) -> Result<u64, InvalidAllocId> {
    let digits = text.strip_prefix(MARK).ok_or(InvalidAllocId)?;
    // `parse()` would accept a plus sign.
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        return digits.parse().map_err(|_| InvalidAllocId);
    }
    Err(InvalidAllocId)
}

impl fmt::Display for AllocId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}@{}", self.number, self.daemon)
    }
}

impl FromStr for AllocId {
    type Err = InvalidAllocId;
    fn from_str(text: &str) -> Result<Self, InvalidAllocId> {
        let (number, daemon) = text.split_once('@').ok_or(InvalidAllocId)?;
        let daemon = DaemonName::new(daemon).map_err(|_| InvalidAllocId)?;
        Ok(Self::new(number_of(number)?, daemon))
    }
}

impl TryFrom<String> for AllocId {
    type Error = InvalidAllocId;
    fn try_from(text: String) -> Result<Self, InvalidAllocId> {
        text.parse()
    }
}

impl From<AllocId> for String {
    fn from(id: AllocId) -> Self {
        id.to_string()
    }
}

/// The hosts or architectures that one slot may have: `*`, `NAME`, `NAME*`, several of these with `+` between them, or
/// `^` and such a list for all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

/// The text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a pattern: *, NAME, NAME*, A+B or ^A+B")]
pub struct InvalidPattern(String);

impl Pattern {
    /// The pattern that fits everything.
    pub fn any() -> Self {
        Self("*".to_owned())
    }

    /// Whether the pattern names `name` without a wildcard and without a complement.
    pub fn names(&self, name: &str) -> bool {
        !self.0.starts_with('^')
            && self.0.split('+').any(|word| !word.ends_with('*') && is_alike(word, name))
    }

    /// Whether `name` fits.
    pub fn fits(&self, name: &str) -> bool {
        let (words, complement) = match self.0.strip_prefix('^') {
            Some(words) => (words, true),
            None => (self.0.as_str(), false),
        };
        let fits = |word: &str| match word.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => is_alike(word, name),
        };
        words.split('+').any(fits) != complement
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether two names can belong to one host: equal, or the first labels are and one has no further labels.
fn is_alike(one: &str, other: &str) -> bool {
    let label = |name: &str| name.split_once('.').map(|(label, _)| label.to_owned());
    one == other
        || match (label(one), label(other)) {
            (Some(one), None) => one == other,
            (None, Some(other)) => one == other,
            _ => false,
        }
}

impl FromStr for Pattern {
    type Err = InvalidPattern;
    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let words = text.strip_prefix('^').unwrap_or(text);
        let is_word = |word: &str| {
            let name = word.strip_suffix('*').unwrap_or(word);
            !word.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:".contains(&b))
        };
        if text.len() <= MAX_PATTERN && words.split('+').all(is_word) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidPattern(text.chars().take(80).collect()))
    }
}

impl TryFrom<String> for Pattern {
    type Error = InvalidPattern;
    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

/// A request for slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocRequest {
    /// The number of processes for which it wants slots, at least one.
    pub count: u32,
    /// The slots for each of them, on one host.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub width: u32,
    /// Whether fewer slots will do.
    pub hardness: Hardness,
    /// The host of each slot in turn; the list repeats. Empty: any host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "at_most::<_, _, MAX_PATTERNS>")]
    pub hosts: Vec<Pattern>,
    /// The architecture of each slot in turn, as `uname -m` prints it. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "at_most::<_, _, MAX_PATTERNS>")]
    pub arch: Vec<Pattern>,
    /// The number of seconds after which the allocation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<u32>,
    /// The user, by number.
    pub uid: u32,
    /// When it was made, in microseconds of wall-clock time.
    pub since_us: u64,
}

/// Strings about a request, for the scheduler of a site. MPD passes them on as they are, to the hook of the daemon and to
/// the processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strings {
    /// About the whole request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<String>,
    /// About each slot in turn; empty: there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "at_most::<_, _, MAX_PARTS>")]
    pub each: Vec<String>,
}

impl Strings {
    /// Checks the lengths. An environment takes them, so they have no NUL byte.
    ///
    /// # Errors
    /// [`InvalidRequest::String`] or [`InvalidRequest::Strings`].
    pub fn check(&self) -> Result<(), InvalidRequest> {
        let all = || self.global.iter().chain(&self.each);
        // A variable has one line for each process.
        if self.each.iter().any(|text| text.contains('\n')) {
            return Err(InvalidRequest::Newline);
        }
        if all().any(|text| text.len() > MAX_STRING || text.contains('\0')) {
            Err(InvalidRequest::String)
        } else if all().map(|text| text.len() + 1).sum::<usize>() > MAX_STRINGS {
            Err(InvalidRequest::Strings)
        } else {
            Ok(())
        }
    }
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Whether a request wants all its slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hardness {
    /// All slots, or wait.
    Hard,
    /// As many as are free, at least one.
    Soft,
    /// The largest of these numbers that is free, as `-soft` of MPI lists them.
    Values(String),
}

/// Why a request is not possible at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// No slot, or too many.
    #[error("the number of slots must be 1 to {MAX_COUNT}")]
    Count,
    /// The two lists of patterns do not go together.
    #[error("the patterns of hosts and of architectures must be equally many, or one")]
    Patterns,
    /// Too many slots, each with a host of its own.
    #[error("with several patterns the number of slots must be 1 to {MAX_PARTS}")]
    Parts,
    /// A string for the scheduler that is too long.
    #[error("a string for the scheduler has more than {MAX_STRING} bytes, or a NUL byte")]
    String,
    /// A string about a process that has several lines.
    #[error("a string for the scheduler about a process has a newline")]
    Newline,
    /// Strings for the scheduler that are too long together.
    #[error("the strings for the scheduler have more than {MAX_STRINGS} bytes together")]
    Strings,
    /// A list of numbers that is too long.
    #[error("the list of numbers is longer than {MAX_PATTERN} characters")]
    Values,
}

impl AllocRequest {
    /// All slots that it wants.
    pub const fn slots(&self) -> u32 {
        self.count.saturating_mul(self.width)
    }

    /// Checks the numbers. The list of allowed numbers is checked by its parser.
    ///
    /// # Errors
    /// [`InvalidRequest`].
    pub fn check(&self) -> Result<(), InvalidRequest> {
        let (hosts, arch) = (self.hosts.len(), self.arch.len());
        let is_count = |number: u32| (1..=MAX_COUNT).contains(&number);
        if !is_count(self.count) || !is_count(self.width) || !is_count(self.slots()) {
            Err(InvalidRequest::Count)
        } else if hosts > 1 && arch > 1 && hosts != arch {
            Err(InvalidRequest::Patterns)
        } else if hosts.max(arch) > 1 && self.count as usize > MAX_PARTS {
            Err(InvalidRequest::Parts)
        } else if matches!(&self.hardness, Hardness::Values(text) if text.len() > MAX_PATTERN) {
            Err(InvalidRequest::Values)
        } else {
            Ok(())
        }
    }
}

/// Consecutive slots of an allocation on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub host: DaemonName,
    /// How many.
    pub slots: u32,
}

/// One term of a dispenser. Hosts refuse older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Grows with every term.
    pub number: u64,
    /// The dispenser's ordinal: of two with the same number, the lower one wins.
    pub ordinal: u64,
    /// The dispenser's instance.
    pub instance: Instance,
}

/// A time by the clock of one run of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// When this run began, in microseconds of wall-clock time.
    pub life: u64,
    /// Microseconds since then.
    pub at: u64,
}

/// The slots of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostState {
    /// All of them.
    pub slots: u32,
    /// Those without a hold and without a reservation.
    pub free: u32,
    /// Its architecture.
    pub arch: String,
    /// For holds with a time limit: the time that is left in milliseconds, and the slots; the first ones to end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "at_most::<_, _, MAX_ENDS>")]
    pub ends: Vec<(u64, u32)>,
}

/// Why a request waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The dispenser has not answered yet.
    Asking,
    /// An earlier request is first.
    Behind,
    /// Too few slots are free.
    TooFew {
        /// Slots that are free and may be used.
        free: u32,
    },
    /// The ring has too few slots.
    TooFewExist {
        slots: u32,
        /// Those that are wanted.
        wanted: u32,
    },
    /// Too few slots of the ring are on hosts that the request may use.
    TooFewFit {
        /// Slots on these hosts.
        slots: u32,
        /// Those that are wanted.
        wanted: u32,
    },
    /// Its slots are being reserved.
    Reserving,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asking => f.write_str("the ring has not answered yet"),
            Self::Behind => f.write_str("an earlier request is first"),
            Self::TooFew { free: 1 } => f.write_str("1 of its slots is free"),
            Self::TooFew { free } => write!(f, "{free} of its slots are free"),
            Self::TooFewExist { slots, wanted } => {
                write!(f, "the ring has {}, {}", counted(*slots), are_wanted(*wanted))
            }
            Self::TooFewFit { slots, wanted } => {
                let (slots, wanted) = (counted(*slots), are_wanted(*wanted));
                write!(f, "the ring has {slots} that it may use, {wanted}")
            }
            Self::Reserving => f.write_str("its slots are being reserved"),
        }
    }
}

fn counted(slots: u32) -> String {
    if slots == 1 { "1 slot".to_owned() } else { format!("{slots} slots") }
}

fn are_wanted(slots: u32) -> String {
    if slots == 1 { "1 is wanted".to_owned() } else { format!("{slots} are wanted") }
}

/// A message between the daemons about slots. Each may be lost, and may arrive twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocMessage {
    /// Requester to dispenser: queue this request.
    Submit {
        /// The request's name.
        id: AllocId,
        request: Box<AllocRequest>,
        /// The number that an earlier dispenser gave it; smaller ones are first.
        ticket: Option<u64>,
    },
    /// Requester to dispenser: this request is withdrawn.
    Cancel {
        /// The request.
        id: AllocId,
    },
    /// Requester to dispenser: the slots of this request are held.
    Taken {
        /// The request.
        id: AllocId,
    },
    /// Dispenser to requester: the request is queued.
    Queued {
        /// The request.
        id: AllocId,
        ticket: u64,
        /// Why it waits.
        why: Why,
    },
    /// Dispenser to requester: these slots are reserved; confirm them to their hosts.
    Offer {
        /// The request.
        id: AllocId,
        /// The slots.
        #[serde(deserialize_with = "at_most::<_, _, MAX_PARTS>")]
        parts: Vec<Part>,
    },
    /// Dispenser to requester: is this request still wanted?
    Wanted {
        /// The request.
        id: AllocId,
    },
    /// Dispenser to host: report your slots, now and at each change.
    Hello {
        /// The dispenser's term.
        epoch: Epoch,
    },
    /// Dispenser to host: reserve these slots for 2 s.
    Reserve {
        /// The dispenser's term.
        epoch: Epoch,
        /// The request.
        id: AllocId,
        /// How many.
        slots: u32,
    },
    /// Dispenser to host: the reservation is no longer wanted.
    Unreserve {
        /// The dispenser's term.
        epoch: Epoch,
        /// The request.
        id: AllocId,
    },
    /// Host to dispenser: its slots.
    State {
        /// The number of the dispenser's term.
        number: u64,
        /// The slots.
        host: HostState,
    },
    /// Host to dispenser: the answer to a reservation.
    Reserved {
        /// The number of the dispenser's term.
        number: u64,
        /// The request.
        id: AllocId,
        /// Whether the slots are reserved.
        done: bool,
        /// The slots afterwards.
        host: HostState,
    },
    /// Host to dispenser: the term is older than this one.
    Stale {
        /// The newest term that the host knows.
        epoch: Epoch,
    },
    /// Requester to host: hold these slots, or continue to hold them.
    Confirm {
        /// The allocation.
        id: AllocId,
        /// How many.
        slots: u32,
        /// When it was sent; the answer repeats it.
        stamp: Stamp,
        /// Milliseconds until the allocation ends, if it has a time limit.
        left_ms: Option<u64>,
    },
    /// Requester to host: the slots are free again.
    Release {
        /// The allocation.
        id: AllocId,
        /// When it was sent.
        stamp: Stamp,
    },
    /// Host to requester: the slots are held.
    Held {
        /// The allocation.
        id: AllocId,
        /// The stamp of the order.
        stamp: Stamp,
    },
    /// Host to requester: the slots are not held, and cannot be.
    NotHeld {
        /// The allocation.
        id: AllocId,
        /// The stamp of the order.
        stamp: Stamp,
    },
    /// Host to requester: the slots are free.
    Released {
        /// The allocation.
        id: AllocId,
        /// The stamp of the order.
        stamp: Stamp,
    },
}

/// News of a request, for its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocNews {
    Waiting {
        /// The request.
        id: AllocId,
        /// Its number in the queue, once it has one.
        ticket: Option<u64>,
        /// Why it waits.
        why: Why,
    },
    /// It has its slots.
    Granted {
        /// The allocation.
        id: AllocId,
        /// The slots, in order.
        #[serde(deserialize_with = "at_most::<_, _, MAX_PARTS>")]
        parts: Vec<Part>,
    },
    /// The allocation has lost the slots of a host.
    Lost {
        /// The allocation.
        id: AllocId,
        host: DaemonName,
    },
    Over {
        /// The request or allocation.
        id: AllocId,
        /// Why.
        end: AllocEnd,
    },
}

/// How a request or an allocation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocEnd {
    /// A user cancelled it.
    Cancelled,
    /// Its time limit is over.
    Expired,
    /// All its slots are lost.
    Lost,
    /// Another connection is its owner now.
    Replaced,
    /// It wants what is free, and no slot of the ring can ever be for it.
    Impossible,
}

/// One request or allocation in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocEntry {
    /// Its name.
    pub id: AllocId,
    /// The user, by number.
    pub uid: u32,
    /// The number of slots that it asked for.
    pub count: u32,
    /// When it was made, in microseconds of wall-clock time.
    pub since_us: u64,
    /// Its number in the queue.
    pub ticket: Option<u64>,
    /// Why it waits; `None` for an allocation.
    pub why: Option<Why>,
    /// The slots that an allocation has.
    pub slots: Option<u32>,
    /// The hosts of an allocation, at most [`MAX_LISTED_HOSTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "at_most::<_, _, MAX_LISTED_HOSTS>")]
    pub hosts: Vec<Part>,
    /// When it ends, if it has a time limit and runs.
    pub ends_us: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn an_allocation_reads_back_what_it_prints_and_is_no_job() {
        let id: AllocId = "a31@h1".parse().unwrap();
        assert_eq!(id.to_string(), "a31@h1");
        assert!("a31@h1".parse::<mpd_wire::JobId>().is_err());
        for bad in ["", "a", "a1", "1@h1", "a@h1", "a+1@h1", "a1@", "a1@-x", "b1@h1"] {
            assert_eq!(bad.parse::<AllocId>(), Err(InvalidAllocId), "{bad}");
        }
        let here = DaemonName::new("h7").unwrap();
        assert_eq!(AllocId::parse_at("a3", &here).unwrap().to_string(), "a3@h7");
        assert_eq!(AllocId::parse_at("a3@h1", &here).unwrap().to_string(), "a3@h1");
    }

    #[test]
    fn strings_for_a_scheduler_have_bounds() {
        let strings = |each: &[String]| Strings { global: Some("g".into()), each: each.to_vec() };
        assert_eq!(strings(&["a b, ü".into()]).check(), Ok(()));
        let lines = Strings { global: Some("a\nb".into()), each: Vec::new() };
        assert_eq!(lines.check(), Ok(()));
        assert_eq!(strings(&["a\nb".into()]).check(), Err(InvalidRequest::Newline));
        for bad in ["x".repeat(MAX_STRING + 1), "a\0b".to_owned()] {
            assert_eq!(strings(&[bad]).check(), Err(InvalidRequest::String));
        }
        let many = vec!["x".repeat(MAX_STRING); MAX_STRINGS / MAX_STRING];
        assert_eq!(strings(&many).check(), Err(InvalidRequest::Strings));
    }

    #[test]
    fn a_pattern_fits_a_name_a_prefix_one_of_several_or_all_others() {
        for (text, fitting, unfit) in [
            ("*", &["h1", "x"][..], &[][..]),
            ("h1", &["h1", "h1.a.b"], &["h10", "h2"]),
            ("h1.a", &["h1.a", "h1"], &["h1.b"]),
            ("n*", &["n", "n17"], &["m1"]),
            ("h1+h2", &["h1", "h2"], &["h3"]),
            ("^h1", &["h2"], &["h1", "h1.a"]),
            ("^h1+n*", &["h2"], &["h1", "n1"]),
        ] {
            assert!(fitting.iter().all(|name| pattern(text).fits(name)), "{text}");
            assert!(!unfit.iter().any(|name| pattern(text).fits(name)), "{text}");
        }
        assert!(pattern("h1+h2").names("h2") && !pattern("h*").names("h1"));
        assert!(!pattern("^h1").names("h2"));
        for bad in ["", "^", "a+", "+a", "a b", "a/b", "*a", "^^a", &"x".repeat(MAX_PATTERN + 1)] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad}");
        }
    }
}
