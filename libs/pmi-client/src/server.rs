//! What a process manager does for its client, whichever version of PMI carries it.
//!
//! One implementation for each version, and one for a process without a manager. What they are
//! given has been checked; what one of them cannot do, it leaves to the default.

use pmi_proto::SpawnRequest;

use crate::error::Error;

/// A key or service, and what it stands for.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The place of a process in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Counted from 0.
    pub rank: u32,
    /// How many ranks the job has.
    pub size: u32,
    /// Which of the job's programs this is; -1 if nobody says.
    pub appnum: i32,
    /// Whether another job has spawned this one.
    pub is_spawned: bool,
    /// The name of the job, and of its key-value space.
    pub job: Vec<u8>,
}

/// How long things may be, in bytes, each with C's terminating zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The name of a job.
    pub job: usize,
    /// A key.
    pub key: usize,
    /// A value.
    pub value: usize,
}

/// A job that was spawned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// Its name, if the process manager tells.
    pub job: Option<Vec<u8>>,
    /// For each process, in order, 0 or why it was not started; empty: all were.
    pub codes: Vec<i32>,
}

/// The requests of a client.
pub(crate) trait Server: Send + Sync {
    /// What can be carried.
    fn limits(&self) -> Limits;

    /// Whether texts must keep to one line.
    fn is_of_lines(&self) -> bool;

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error>;

    /// `None`: there is no such key, as far as this server tells.
    fn get(&self, from: Source<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    fn entry(&self, _index: usize) -> Result<Option<Pair>, Error> {
        Err(Error::Unsupported("a pair by its index"))
    }

    fn fence(&self) -> Result<(), Error>;

    fn universe_size(&self) -> Result<Option<u32>, Error>;

    fn job_attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    fn node_attribute(&self, _name: &[u8], _wait: bool) -> Result<Option<Vec<u8>>, Error> {
        Err(Error::Unsupported("an attribute of the node"))
    }

    fn put_node_attribute(&self, _name: &[u8], _value: &[u8]) -> Result<(), Error> {
        Err(Error::Unsupported("an attribute of the node"))
    }

    fn publish(&self, service: &[u8], port: &[u8]) -> Result<(), Error>;

    fn lookup(&self, service: &[u8]) -> Result<Vec<u8>, Error>;

    fn unpublish(&self, service: &[u8]) -> Result<(), Error>;

    fn spawn(&self, _request: &SpawnRequest) -> Result<Spawned, Error> {
        Err(Error::Unsupported("spawning"))
    }

    fn connect_job(&self, _job: &[u8]) -> Result<(), Error> {
        Err(Error::Unsupported("connecting to a job"))
    }

    fn disconnect_job(&self, _job: &[u8]) -> Result<(), Error> {
        Err(Error::Unsupported("connecting to a job"))
    }

    fn ring(&self, _value: &[u8]) -> Result<Ring, Error> {
        Err(Error::Unsupported("the exchange in a ring"))
    }

    fn signal_rank(&self, rank: u32, signal: i32) -> Result<(), Error>;

    /// Returns when the request is on its way; nobody answers it.
    fn abort(&self, code: i32, message: &[u8]) -> Result<(), Error>;

    fn finalize(&self) -> Result<(), Error>;
}

/// Whose key is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Source<'a> {
    /// Another job than one's own.
    pub job: Option<&'a [u8]>,
    /// Who may have put it; a hint.
    pub rank: Option<u32>,
}

/// What comes of an exchange in a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// The place in the ring, which need not be the rank.
    pub process_info: u32,
    /// How many are in it.
    pub size: u32,
    /// What the neighbour before gave.
    pub left: Vec<u8>,
    /// What the neighbour behind gave.
    pub right: Vec<u8>,
}
