//! Every limit of this crate, each with its reason.
//!
//! The first three are advertised to clients and must not be raised: client libraries size fixed
//! buffers from them, and several break when a number differs from what MPICH's own process
//! manager says. The others bound what one client can make a manager hold in memory.

/// Longest name of a KVS in bytes, counting C's terminating zero; advertised.
///
/// 1024 makes MPICH 4.0 stop with an assertion, because it subtracts it from its line buffer.
pub const MAX_KVSNAME: usize = 256;

/// Longest key in bytes, counting C's terminating zero; advertised.
pub const MAX_KEY: usize = 64;

/// Longest value in bytes, counting C's terminating zero; advertised.
///
/// An odd number makes MPICH 5 stop with an assertion as soon as there are two nodes; a larger one
/// invites values that do not fit the line buffer of older clients.
pub const MAX_VALUE: usize = 1024;

/// Room for the port of a published name in bytes, counting C's terminating zero.
///
/// It is `MPI_MAX_PORT_NAME` of MPICH and Intel MPI. A lookup of PMI-1 writes the port into a buffer whose
/// size the call does not name, and MPI programs provide this much. No manager accepts or sends a longer port.
pub const MAX_PORT: usize = 256;

/// Longest reply in bytes, without its newline.
///
/// MPICH up to 4.0, Intel MPI and MVAPICH read replies into a buffer of 1024 bytes.
pub const MAX_REPLY: usize = 1023;

/// Longest reply with a value that a client has put, in bytes, without its newline: `cmd=getbyidx_results` with the
/// longest key and value. Hydra sends as long ones.
///
/// A client that reads into 1024 bytes writes its put from a buffer of that size, with the name of the KVS in it. So
/// it puts no value whose reply passes [`MAX_REPLY`], and only clients with longer buffers get a longer reply.
pub const MAX_VALUE_REPLY: usize = MAX_REPLY + 160;

/// Longest line accepted from a client in bytes, without its newline.
///
/// Far beyond what any library sends; a client that passes it does not speak this protocol.
pub const MAX_LINE: usize = 64 * 1024;

/// Longest message of PMI-2 in bytes, without the six characters of its length; either way.
///
/// The field could tell of a million; this is what Slurm's server takes.
pub const MAX_FRAME: usize = 64 * 1024;

/// How many bytes the blocks of one spawn may hold together.
///
/// Half of what Linux gives a program for its arguments and environment; a message of PMI-2 holds less
/// by itself.
pub const MAX_SPAWN_BYTES: usize = 1024 * 1024;

/// How many blocks, arguments and lines of hints one spawn may have together.
///
/// A program with more of them reads a file.
pub const MAX_SPAWN_LINES: usize = 8192;

/// How many requests of one client of PMI-2 may wait for their answers.
///
/// Each is one thread's, and few programs have more threads in a call of PMI than a node has CPUs.
pub const MAX_OPEN: usize = 256;

/// How many barriers of groups one client of PMI-1.2 may wait in, in all its threads.
pub const MAX_BARRIERS: usize = 256;

/// How many runs of consecutive ranks a group of a barrier may have.
///
/// So many fit one message between managers, whatever the ranks are numbered through the job.
pub const MAX_GROUP_RUNS: usize = 2048;

/// How many bytes of undecoded input a session holds while the client has to wait.
///
/// A client has one outstanding request, so nothing above one line is needed; four of the longest
/// lines leave room for a reader that hands over large pieces.
pub const MAX_BACKLOG: usize = 4 * MAX_LINE;

/// How many bytes of replies may wait for a client that does not read.
///
/// Beyond it the session stops decoding until the caller has consumed some; what is already
/// waiting passes the limit by no more than a few replies.
pub const MAX_OUTPUT: usize = 64 * 1024;

/// How many operations may wait for the caller before the session stops decoding.
pub const MAX_OPERATIONS: usize = 64;

/// How many bytes one job's KVS may hold, keys, values and [`KVS_ENTRY_COST`] counted.
///
/// Addresses run to about 700 bytes a rank; 64 MiB holds them for some 80,000 ranks, and keeps a
/// runaway program from taking the host's memory by way of its manager.
pub const MAX_KVS_BYTES: usize = 64 * 1024 * 1024;

/// What an entry of the KVS counts beyond its value and two copies of its key.
///
/// Roughly the allocations around them, so that a million empty values are not free.
pub const KVS_ENTRY_COST: usize = 96;

/// How many bytes the node attributes of one job may hold on one node, keys, values and
/// [`NODE_ATTRIBUTE_COST`] counted.
///
/// Libraries put the name of a segment or two; programs may put something for each rank of the node.
pub const MAX_NODE_ATTRIBUTE_BYTES: usize = 4 * 1024 * 1024;

/// What a node attribute counts beyond its key and its value: roughly the allocations around them.
pub const NODE_ATTRIBUTE_COST: usize = 64;

/// How many requests may wait for node attributes of one job on one node.
///
/// Every rank of a large node in [`MAX_OPEN`] threads would be more, and is no program.
pub const MAX_NODE_WAITERS: usize = 16 * 1024;

/// Longest value of `PMI_process_mapping` in bytes.
///
/// It must fit one reply behind `cmd=get_result rc=0 msg=success value=`, with room to spare.
pub const MAX_MAPPING: usize = 900;

/// How many ranks a decoded process mapping may name.
///
/// Three small numbers can describe 10^19 ranks; this is far above any job and fits in memory.
pub const MAX_MAPPED_RANKS: usize = 1 << 20;

/// Longest key of a published name.
///
/// As long as such a name may be; whatever is hard to guess is shorter.
pub const MAX_SERVICE_KEY: usize = 256;

/// How many bytes of a client's text are repeated in an error or in a reply's `msg`.
pub(crate) const MAX_EXCERPT: usize = 64;
