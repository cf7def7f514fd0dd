//! The results of PMI-2 requests.

/// The result of a successful request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// No further data.
    Done,
    /// Of `fullinit`.
    Welcome(Welcome),
    /// Of `job-getid`.
    JobId(Vec<u8>),
    /// Of all requests for a value; `None` if there is no value.
    Value(Option<Vec<u8>>),
    /// Of `name-lookup`: the port of the service.
    Port(Vec<u8>),
    /// Of `spawn`.
    Spawned {
        /// The id of the new job.
        jobid: Vec<u8>,
        /// One error code for each process; empty if all run.
        errors: Vec<i32>,
    },
    /// Of `ring`.
    Ring {
        /// The client's position in the ring.
        rank: u32,
        /// The left neighbour's value for its right.
        left: Vec<u8>,
        /// The right neighbour's value for its left.
        right: Vec<u8>,
    },
}

/// The data of `fullinit`: the client's rank and job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    pub rank: u32,
    /// How many ranks the job has.
    pub size: u32,
    /// The number of its argset; -1 leaves it unset.
    pub appnum: i32,
    /// The id of the job that spawned this one.
    pub spawner: Option<Vec<u8>>,
}
