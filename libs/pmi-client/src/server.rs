//! The requests of a client to a process manager, independent of the version of PMI.
//!
//! Each version of PMI has an implementation, and a process without a process manager has one. The
//! client has checked all arguments. A default method is a request that is not supported.

use pmi_proto::SpawnRequest;

use crate::error::Error;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The rank of a process, and its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The rank, counted from 0.
    pub rank: u32,
    /// The number of ranks of the job.
    pub size: u32,
    /// The number of this program in the job, counted from 0; -1 if it is unknown.
    pub appnum: i32,
    /// Whether another job has spawned this one.
    pub is_spawned: bool,
    /// The name of the job and of its key-value space.
    pub job: Vec<u8>,
}

/// The sizes of buffers for names, keys and values in bytes, the terminating zero of C included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For the name of a job.
    pub job: usize,
    /// For a key.
    pub key: usize,
    /// For a value.
    pub value: usize,
}

/// A job that was spawned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// The name of the job, if the answer has it.
    pub job: Option<Vec<u8>>,
    /// A code for each process, in order. 0: the process was started. Empty: all were started.
    pub codes: Vec<i32>,
}

/// The requests of a client.
pub(crate) trait Server: Send + Sync {
    /// The sizes that the process manager accepts.
    fn limits(&self) -> Limits;

    /// Whether the protocol is of lines, so that texts must not have line ends.
    fn needs_lines(&self) -> bool;

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error>;

    /// `None`: there is no such key, or the server refused without saying why.
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

    /// Returns when the request is sent. It has no answer.
    fn abort(&self, code: i32, message: &[u8]) -> Result<(), Error>;

    fn finalize(&self) -> Result<(), Error>;
}

/// The owner of a key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Source<'a> {
    /// The name of the job; `None`: the job of this process.
    pub job: Option<&'a [u8]>,
    /// The rank that has put the key. It is a hint: a server may ignore it.
    pub rank: Option<u32>,
}

/// The result of an exchange in a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// The position in the ring, counted from 0. It may differ from the rank.
    pub position: u32,
    /// The number of processes in the ring.
    pub size: u32,
    /// The value of the neighbour with the previous position.
    pub left: Vec<u8>,
    /// The value of the neighbour with the next position.
    pub right: Vec<u8>,
}
