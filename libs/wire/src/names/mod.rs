//! Published names on the wire: what each daemon has published for the jobs it serves.
//!
//! All names of one daemon stand on one [`Sheet`], which its owner alone changes and whose versions it counts. A
//! sheet belongs to one life of its owner. The ring decides which of two claims of one name counts.

mod lock;

use serde::{Deserialize, Serialize};

pub use lock::{Lock, NameKey, SALT};

use crate::digest::Fnv;
use crate::{DaemonName, Instance, JobId};

/// Most bytes in a published name.
pub const MAX_NAME: usize = 256;
/// Most bytes in what a name stands for: a port with its zero fits the `MPI_MAX_PORT_NAME` of MPI programs.
pub const MAX_VALUE: usize = 255;
/// Most names that one daemon publishes.
pub const MAX_CLAIMS: usize = 512;
/// Most names that one job publishes through a daemon: others are to have room beside it.
pub const MAX_CLAIMS_OF_JOB: usize = 128;
/// Most bytes of these, counted as on a sheet.
const MAX_BYTES_OF_JOB: usize = MAX_SHEET / 2;
/// Most bytes on one sheet, its words counted: JSON makes up to six of one, and a frame holds them.
pub const MAX_SHEET: usize = 96 * 1024;
/// What a job hears that has its share.
pub const TOO_MANY_OF_JOB: &str = "the job has its share of names here already, 128 or 48 KiB";

/// A name that a job has published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The name, 1 to [`MAX_NAME`] bytes.
    pub name: String,
    /// What it stands for, at most [`MAX_VALUE`] bytes.
    pub value: String,
    /// The job it vanishes with.
    pub job: JobId,
    /// What the key of whoever asks is tried on; without one it is found without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
}

impl Claim {
    /// What is wrong with it, if anything.
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

    /// Whether who asks with that key, or without any, finds it. Who has a key finds nothing that
    /// was published without one: anybody could have published that.
    pub fn opens_with(&self, key: Option<&NameKey>) -> bool {
        match (&self.lock, key) {
            (None, None) => true,
            (Some(lock), Some(key)) => lock.opens_with(key),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether its job has room for it beside what it has published already, which is among `others`.
    pub fn is_within_share<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> bool {
        let others = others.into_iter().filter(|other| other.job == self.job);
        let (count, bytes) =
            others.fold((1, self.bytes()), |(count, sum), other| (count + 1, sum + other.bytes()));
        count <= MAX_CLAIMS_OF_JOB && bytes <= MAX_BYTES_OF_JOB
    }

    fn bytes(&self) -> usize {
        // Digits are never written as six bytes, so half of them count.
        let lock = self.lock.as_ref().map_or(0, |_| Lock::BYTES);
        self.name.len() + self.value.len() + String::from(self.job.clone()).len() + lock
    }
}

/// Everything that one life of a daemon has published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// Whose.
    pub owner: DaemonName,
    /// Which life of it.
    pub instance: Instance,
    /// Counted up by the owner with every change.
    pub version: u64,
    /// In order of the names, each once; at most [`MAX_CLAIMS`], of [`MAX_SHEET`] bytes in all.
    pub claims: Vec<Claim>,
}

impl Sheet {
    /// The first, empty sheet of that life.
    pub const fn new(owner: DaemonName, instance: Instance) -> Self {
        Self { owner, instance, version: 0, claims: Vec::new() }
    }

    /// Where the claim of that name stands, or belongs.
    ///
    /// # Errors
    /// The place where it belongs.
    pub fn place(&self, name: &str) -> Result<usize, usize> {
        self.claims.binary_search_by(|claim| claim.name.as_str().cmp(name))
    }

    /// The claim of that name.
    pub fn claim(&self, name: &str) -> Option<&Claim> {
        self.place(name).ok().map(|at| &self.claims[at])
    }

    /// Bytes of its words.
    pub fn bytes(&self) -> usize {
        self.claims.iter().map(Claim::bytes).sum()
    }

    /// Whether it is within the bounds, in order, and can be counted on.
    pub fn is_sound(&self) -> bool {
        let sorted = self.claims.windows(2).all(|two| two[0].name < two[1].name);
        let sound = self.claims.iter().all(|claim| claim.problem().is_none());
        let few = self.claims.len() <= MAX_CLAIMS && self.bytes() <= MAX_SHEET;
        few && sorted && sound && self.version < u64::MAX / 2
    }

    /// 64 bits of its content; the digest of all sheets is the sum of these.
    pub fn digest(&self) -> u64 {
        let mut sum = Fnv::default();
        sum.add(self.owner.as_str().as_bytes());
        sum.add(&self.instance.to_bytes());
        sum.add(&self.version.to_be_bytes());
        for Claim { name, value, job, lock } in &self.claims {
            sum.add(name.as_bytes());
            sum.add(value.as_bytes());
            sum.add(String::from(job.clone()).as_bytes());
            sum.add(lock.as_ref().map_or(&[], Lock::as_bytes));
        }
        sum.spread()
    }
}
