//! How large a job may be, and why a specification is refused.

use crate::{MAX_MEMBERS, Rank};

/// Bytes that need not be valid text.
pub type Bytes = Vec<u8>;

/// Most ranks of one job. No ring of today has that many, and a table of them takes only a few
/// megabytes.
pub const MAX_RANKS: u32 = 1 << 20;

/// Most argument sets (`:` sections) of one job.
pub const MAX_ARGSETS: usize = 4096;

/// Most bytes of an encoded specification. The kernel takes at most 6 MiB of arguments and
/// environment for one program.
pub const MAX_SPEC: usize = 16 << 20;

/// Most hosts in a list: as many as a ring has members.
pub const MAX_HOSTS: usize = MAX_MEMBERS;

/// Most entries in a list of hosts. A host may have an entry for each of its slots.
pub const MAX_HOST_ENTRIES: usize = 1 << 18;

/// Why a decoded specification is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The job has no argset.
    #[error("the job has no program")]
    Empty,
    /// An argset, a host or a group has no ranks.
    #[error("the number of processes must be at least 1")]
    NoRanks,
    /// More ranks than [`MAX_RANKS`].
    #[error("{0} processes are more than the {MAX_RANKS} that a job may have")]
    TooManyRanks(u64),
    /// A program, argument, directory or variable with a NUL byte, or an empty program.
    #[error("{0} is empty or contains a NUL byte")]
    Text(&'static str),
    /// An argument with substitution is not a valid pattern.
    #[error("argument {0:?} has an unknown % field")]
    Argument(String),
    /// An argset refers to a missing environment.
    #[error("environment {0} is missing")]
    Environment(u32),
    /// The stdin specification names a rank that the job does not have.
    #[error("standard input for rank {0}, but the job has only {1} ranks (0-{last})", last = .1 - 1)]
    StdinRank(Rank, u32),
    /// The output of a rank is asked for that the job does not have.
    #[error("the output of rank {0}, but the job has only {1} ranks (0-{last})", last = .1 - 1)]
    OutputRank(Rank, u32),
    /// The options of the binding do not fit each other.
    #[error(
        "several cores or hardware threads for each rank need -bind-to core or hwthread, and -map-by a part of the \
         host does not fit -bind-to slots"
    )]
    Binding,
    /// Lists of CPUs for ranks are combined with other bindings.
    #[error(
        "lists of CPUs for ranks (-bind-to user:LIST, -rankfile) do not fit another -bind-to, -map-by or -only-cpus"
    )]
    Lists,
    /// A list of CPUs is empty or too long.
    #[error("a list of CPUs is empty, too long, or has a number above 65535")]
    Cpus,
    /// The number of GPUs of a rank is not sensible.
    #[error("the number of GPUs of a process is 1 to 1024")]
    Gpus,
    /// Processes per host are not a multiple of the group size.
    #[error("{each} processes on each host cannot be groups of {group}: make it a multiple")]
    Groups {
        /// Processes on each host.
        each: u32,
        /// Processes of a group.
        group: u32,
    },
    /// The job adopts a running process, and asks for more than adoption supports.
    #[error("a running program is one process, and gets no input and no file")]
    Adopted,
    /// The number of processes to attach to differs from the number of ranks.
    #[error("{0} processes to attach to for {1} ranks")]
    Attach(usize, u32),
    /// The text is not a host name.
    #[error("{0:?} is not the name of a host")]
    Host(String),
    /// The list of hosts is longer than any ring.
    #[error("{0} hosts are more than the {MAX_HOSTS} that a ring may have")]
    TooManyHosts(usize),
}
