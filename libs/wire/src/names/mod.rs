//! Published names on the wire: the names that a daemon has published for its jobs.
//!
//! All names of one daemon are on one [`NameRecord`]. Only its owner changes the name record and counts its
//! versions. A name record belongs to one instance of its owner. The ring decides between two claims to
//! one name.

mod lock;
mod of_pmix;
mod refusal;

use serde::{Deserialize, Serialize};

pub use lock::{Lock, NameKey, SALT};
pub use of_pmix::{Content, PmixValue, scoped_name, split_name};
pub use refusal::{KeyFault, Refusal};

use crate::digest::Fnv;
use crate::{DaemonName, Instance, JobId};

/// Most bytes in a published name.
///
/// A key of PMIx has up to 511. A host or a job follows it if only their processes may find it.
pub const MAX_NAME: usize = 1024;
/// Most bytes in the value of a name.
///
/// A program of Open MPI publishes a list of its ranks with about 45 bytes for each. Clients of PMI have a lower limit of
/// their own, since the ports of MPI programs are short.
pub const MAX_VALUE: usize = 32 * 1024;
/// Most names that one daemon publishes.
pub const MAX_CLAIMS: usize = 512;
/// Most names that one job publishes through a daemon, so that other jobs have room.
pub const MAX_CLAIMS_OF_JOB: usize = 128;
/// Most bytes of the names of one job, counted as on a name record.
const MAX_BYTES_OF_JOB: usize = MAX_NAME_RECORD / 2;
/// Most bytes of text on one name record. JSON writes one byte as up to six; the result fits a frame.
pub const MAX_NAME_RECORD: usize = 96 * 1024;
/// Most names of one daemon that stay after their jobs.
pub const MAX_KEPT: usize = 64;
/// The error for a job that has used its share.
pub const TOO_MANY_OF_JOB: &str =
    "the share of names is used: 128 or 48 KiB of a job, or 64 that stay after their jobs";

/// How long a name stays, and which jobs may take it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Only its job takes it back. It ends with the job.
    #[default]
    Job,
    /// Any job takes it back. It ends with its job.
    Shared,
    /// Any job takes it back. It stays after the end of its job, as long as its daemon runs.
    Kept,
}

impl Hold {
    /// Whether this is the hold of most names.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    pub(crate) const fn is_usual(&self) -> bool {
        matches!(self, Self::Job)
    }
}

/// A name that a job has published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// The name, 1 to [`MAX_NAME`] bytes.
    pub name: String,
    /// The value, at most [`MAX_VALUE`] bytes.
    pub value: String,
    /// The job that published it.
    pub job: JobId,
    /// The verifier of the key. Without a lock the name is found without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Hold::is_usual")]
    pub hold: Hold,
}

impl Claim {
    /// Why the claim is invalid, if it is.
    pub const fn problem(&self) -> Option<&'static str> {
        if self.name.is_empty() {
            Some("the name is empty")
        } else if self.name.len() > MAX_NAME {
            Some("the name is too long")
        } else if self.value.len() > MAX_VALUE {
            Some("the value is too long")
        } else {
            None
        }
    }

    /// Whether a lookup with this key, or without a key, finds the claim. A lookup with a key does
    /// not find a claim without a lock: any job could have published that.
    pub fn opens_with(&self, key: Option<&NameKey>) -> bool {
        match (&self.lock, key) {
            (None, None) => true,
            (Some(lock), Some(key)) => lock.opens_with(key),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether this job may take the claim back with this key, or without a key.
    pub fn may_be_taken_back(&self, job: &JobId, key: Option<&NameKey>) -> bool {
        (self.job == *job || self.hold != Hold::Job) && self.opens_with(key)
    }

    /// Whether the claim fits the share of its job, given the published claims `others`. Claims that stay after their
    /// jobs have a share of their own.
    pub fn is_within_share<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> bool {
        let others: Vec<&Self> = others.into_iter().collect();
        let kept = others.iter().filter(|other| other.hold == Hold::Kept).count();
        if self.hold == Hold::Kept && kept >= MAX_KEPT {
            return false;
        }
        let others = others.into_iter().filter(|other| other.job == self.job);
        let (count, bytes) =
            others.fold((1, self.bytes()), |(count, sum), other| (count + 1, sum + other.bytes()));
        count <= MAX_CLAIMS_OF_JOB && bytes <= MAX_BYTES_OF_JOB
    }

    fn bytes(&self) -> usize {
        // Hexadecimal digits are never escaped as six bytes, so half of them count.
        let lock = self.lock.as_ref().map_or(0, |_| Lock::BYTES);
        self.name.len() + self.value.len() + String::from(self.job.clone()).len() + lock
    }
}

/// All names that one instance of a daemon has published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameRecord {
    pub owner: DaemonName,
    pub instance: Instance,
    /// The owner increases it with every change.
    pub version: u64,
    /// Sorted by name, each name once; at most [`MAX_CLAIMS`] with [`MAX_NAME_RECORD`] bytes in all.
    pub claims: Vec<Claim>,
}

impl NameRecord {
    /// The first, empty name record of an instance.
    pub const fn new(owner: DaemonName, instance: Instance) -> Self {
        Self { owner, instance, version: 0, claims: Vec::new() }
    }

    /// The index of the claim to `name`.
    ///
    /// # Errors
    /// The index at which such a claim belongs.
    pub fn place(&self, name: &str) -> Result<usize, usize> {
        self.claims.binary_search_by(|claim| claim.name.as_str().cmp(name))
    }

    /// The claim to `name`.
    pub fn claim(&self, name: &str) -> Option<&Claim> {
        self.place(name).ok().map(|at| &self.claims[at])
    }

    /// Bytes of its text.
    pub fn bytes(&self) -> usize {
        self.claims.iter().map(Claim::bytes).sum()
    }

    /// Whether the name record is sorted and within the bounds.
    pub fn is_sound(&self) -> bool {
        let sorted = self.claims.windows(2).all(|two| two[0].name < two[1].name);
        let sound = self.claims.iter().all(|claim| claim.problem().is_none());
        let few = self.claims.len() <= MAX_CLAIMS && self.bytes() <= MAX_NAME_RECORD;
        few && sorted && sound && self.version < u64::MAX / 2
    }

    /// 64 bits of digest. The digest of all name records is the sum of these. A lock counts by its salt.
    pub fn digest(&self) -> u64 {
        let mut sum = Fnv::default();
        sum.add(self.owner.as_str().as_bytes());
        sum.add(&self.instance.to_bytes());
        sum.add(&self.version.to_be_bytes());
        for Claim { name, value, job, lock, hold } in &self.claims {
            sum.add(name.as_bytes());
            sum.add(value.as_bytes());
            sum.add(String::from(job.clone()).as_bytes());
            sum.add(lock.as_ref().map_or(&[], Lock::salt));
            if !hold.is_usual() {
                sum.add(&[*hold as u8]);
            }
        }
        sum.spread()
    }
}
