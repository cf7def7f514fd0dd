//! Operations and answers between a session and its manager, in both dialects.

use super::Dialect;
use crate::error::{ProtocolError, PutError};
use serde::{Deserialize, Serialize};

use crate::pmi1::group::BarrierGroup;
use crate::service::Service;
use crate::spawn::{SpawnRequest, Spawned};

/// Identifies a request of a session, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(pub(super) u64);

impl Ticket {
    /// The ticket of the first operation of a session.
    pub const FIRST: Self = Self(1);

    /// The ticket of the next operation.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// An operation for the manager.
///
/// Each operation up to `Spawn` needs exactly one [`Answer`] with its [`Ticket`]; the others need no answer. In PMI-1
/// nothing more is decoded before the answer, except an abort that comes next. In PMI-1.2 the requests of a client that
/// waits in barriers are decoded as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Store a pair, which other ranks see after the next fence. The key is not empty, not reserved, and within the
    /// advertised length, as is the value.
    Put {
        key: Vec<u8>,
        /// The value, which may be empty.
        value: Vec<u8>,
    },
    /// Find a value, also that of a reserved key.
    Get { key: Vec<u8> },
    /// Find the pair with this index.
    GetByIndex {
        /// Counted from 0.
        index: usize,
    },
    /// Publish a name for other jobs.
    Publish {
        /// The name.
        service: Service,
        /// The name of its port.
        value: Vec<u8>,
    },
    /// Find the port of a name.
    Lookup {
        /// The name.
        service: Service,
    },
    /// Withdraw a name.
    Unpublish {
        /// The name.
        service: Service,
    },
    /// Find the value of `MPI_UNIVERSE_SIZE`.
    UniverseSize,
    /// The rank arrived at the barrier of its world.
    Fence,
    /// The rank arrived at the barrier of a group in which it does not wait yet.
    GroupFence {
        /// The group; not that of [`Operation::Fence`].
        group: BarrierGroup,
    },
    /// Find a value in the KVS of another job.
    GetOf {
        /// The name of that KVS.
        jobid: Vec<u8>,
        key: Vec<u8>,
    },
    /// Store a pair for the ranks of the job on this node, and answer the requests that wait for it. Key and value have
    /// the limits of a put.
    PutNodeAttribute { key: Vec<u8>, value: Vec<u8> },
    /// Find a pair that a rank on this node has put with [`Operation::PutNodeAttribute`].
    GetNodeAttribute {
        key: Vec<u8>,
        /// Whether to delay the answer until the pair exists.
        wait: bool,
    },
    /// Find an attribute of the job that the process manager sets.
    GetJobAttribute { key: Vec<u8> },
    /// Connect with another job.
    Connect {
        /// The name of its KVS.
        jobid: Vec<u8>,
    },
    /// Disconnect from another job.
    Disconnect {
        /// The name of its KVS.
        jobid: Vec<u8>,
    },
    /// The rank arrived at a ring. Its values have the limit of a value.
    Ring {
        /// For its left neighbour.
        left: Vec<u8>,
        /// For its right neighbour.
        right: Vec<u8>,
    },
    /// Start another job.
    Spawn(SpawnRequest),
    /// Send a signal to another rank of this job.
    Signal {
        /// The rank that gets the signal.
        rank: u32,
        /// The signal's number.
        signal: u8,
    },
    /// An `init` was accepted, and answered.
    Initialized {
        /// False for a repeated `init`, with or without a finalize before it.
        first: bool,
        /// The dialect of the conversation from now on.
        dialect: Dialect,
    },
    /// A `finalize` was accepted and answered. A repeated `finalize` is not reported.
    Finalized,
    /// The client requests the end of the job. It gets no answer and may wait for the signal.
    Abort {
        /// The client's exit code, any number; 1 if there is no readable one.
        code: i32,
        /// False if only the client is to end. Without a finalize that also counts as a failure.
        world: bool,
        /// The client's message. Only the line bounds it, and it must be escaped for a terminal.
        message: Vec<u8>,
    },
    /// The client did not follow the protocol. It got an answer if that is possible.
    Misbehaved {
        /// The error, for the log.
        error: ProtocolError,
        /// The session decodes nothing more: the rank has to be ended.
        fatal: bool,
    },
}

/// The manager's answer to an [`Operation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// To a put, also of a node attribute.
    Put(Result<(), PutError>),
    /// To a get of any kind; `None` when there is no such key.
    Get(Option<&'a [u8]>),
    /// To a get by index, key and value; `None` past the last pair.
    GetByIndex(Option<(&'a [u8], &'a [u8])>),
    /// To a publication; the error is one word.
    Published(Result<(), &'a str>),
    /// To a lookup: the port of the name; the error is one word.
    Found(Result<&'a [u8], &'a str>),
    /// To a withdrawn name; the error is one word.
    Unpublished(Result<(), &'a str>),
    /// To a request for the universe size. `None` is sent as -1, unknown. So is 0, which no client expects.
    UniverseSize(Option<u32>),
    /// To a fence of any kind: all its ranks have arrived, and the pairs that they put can be read.
    Fence,
    /// To a ring, when all ranks have arrived: the left neighbour's value for its right, and the right neighbour's
    /// value for its left. The error is one word.
    Ring(Result<(&'a [u8], &'a [u8]), &'a str>),
    /// To a connect or disconnect; the error is one word.
    Done(Result<(), &'a str>),
    /// To a spawn; the error is one word.
    Spawned(Result<Spawned<'a>, &'a str>),
}
