//! What passes between a session and its manager, in both dialects.

use super::Dialect;
use crate::error::{ProtocolError, PutError};
use crate::pmi1::group::BarrierGroup;
use crate::service::Service;
use crate::spawn::{SpawnRequest, Spawned};

/// Which request of its session an answer is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

impl Ticket {
    /// That of the first operation of a session.
    pub const FIRST: Self = Self(1);
}

/// What the manager has to do or to know.
///
/// All up to `Spawn` want exactly one [`Answer`], which goes with the [`Ticket`] they came with; in
/// PMI-1 nothing more is decoded before it, save an abort that comes next; in PMI-1.2 a client in barriers
/// goes on asking. The others want none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Store a pair; visible to others after the next fence. The key is not empty, not reserved,
    /// and no longer than advertised, as is the value.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value, which may be empty.
        value: Vec<u8>,
    },
    /// Find a value. Reserved keys come here as all others.
    Get {
        /// The key.
        key: Vec<u8>,
    },
    /// Find the pair with this index.
    GetByIndex {
        /// Counted from 0.
        index: usize,
    },
    /// Publish a name for other jobs.
    Publish {
        /// The name.
        service: Service,
        /// What it stands for: the name of a port.
        value: Vec<u8>,
    },
    /// Find what a name stands for.
    Lookup {
        /// The name.
        service: Service,
    },
    /// Take a name back.
    Unpublish {
        /// The name.
        service: Service,
    },
    /// The rank arrived at the barrier of its world.
    Fence,
    /// The rank arrived at the barrier of a group, in which it is not yet.
    GroupFence {
        /// Which; not that of [`Operation::Fence`].
        group: BarrierGroup,
    },
    /// Find a value in the KVS of another job.
    GetOf {
        /// The name of that.
        jobid: Vec<u8>,
        /// The key.
        key: Vec<u8>,
    },
    /// Store a pair for the ranks of the job on this node, and answer who waits for it. Key and value
    /// are bounded as those of a put.
    PutNodeAttribute {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Find what a rank on this node has put so.
    GetNodeAttribute {
        /// The key.
        key: Vec<u8>,
        /// Answer when it is there, not before.
        wait: bool,
    },
    /// Find what the process manager itself tells of the job.
    GetJobAttribute {
        /// The key.
        key: Vec<u8>,
    },
    /// Join with another job.
    Connect {
        /// The name of its KVS.
        jobid: Vec<u8>,
    },
    /// Part from it.
    Disconnect {
        /// The name of its KVS.
        jobid: Vec<u8>,
    },
    /// The rank arrived at a ring; what it gives is bounded as a value is.
    Ring {
        /// For its left neighbour.
        left: Vec<u8>,
        /// For its right neighbour.
        right: Vec<u8>,
    },
    /// Start a job of its own.
    Spawn(SpawnRequest),
    /// Have a signal sent to another rank of this job.
    Signal {
        /// To whom.
        rank: u32,
        /// Its number.
        signal: u8,
    },
    /// An `init` was accepted, and answered.
    Initialized {
        /// False when the client repeats it, with or without a finalize between.
        first: bool,
        /// What it is spoken to in from now on.
        dialect: Dialect,
    },
    /// A `finalize` was accepted, and answered. Not repeated when the client repeats itself.
    Finalized,
    /// The client wants the job killed. It gets no answer and may just wait for the signal.
    Abort {
        /// As the client gave it, any number; 1 when it gave none that can be read.
        code: i32,
        /// False when it wants only itself ended; without a finalize that is no smaller matter.
        world: bool,
        /// Its words, bounded only by the line; not for a terminal as they are.
        message: Vec<u8>,
    },
    /// The client did what the protocol does not know. It was answered where that is possible.
    Misbehaved {
        /// What it did, for the log.
        error: ProtocolError,
        /// The session is deaf from now on: end the rank.
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
    /// To a publication, or why the name is not published: one word.
    Published(Result<(), &'a str>),
    /// To a lookup: what the name stands for, or why that is not known, in one word.
    Found(Result<&'a [u8], &'a str>),
    /// To a name taken back, or why there was none to take: one word.
    Unpublished(Result<(), &'a str>),
    /// To a fence of any kind: all its ranks have arrived, and what they put can be got.
    Fence,
    /// To a ring, when all ranks have arrived: what the left neighbour gave for its right, and the right
    /// one for its left; or why there is no ring: one word.
    Ring(Result<(&'a [u8], &'a [u8]), &'a str>),
    /// To a connect or disconnect, or why not: one word.
    Done(Result<(), &'a str>),
    /// To a spawn, or why nothing was started: one word.
    Spawned(Result<Spawned<'a>, &'a str>),
}
