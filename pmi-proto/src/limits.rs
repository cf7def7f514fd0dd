//! Every limit of this crate, each with its reason.
//!
//! The first three are advertised to clients and must not be raised. Client libraries size fixed buffers from them, and
//! several fail if a number differs from that of MPICH's process manager. The other limits bound the memory that one
//! client can use in a manager.

/// Longest name of a KVS in bytes, counting C's terminating zero; advertised.
///
/// With 1024, MPICH 4.0 stops with an assertion, because it subtracts this number from its line buffer.
pub const MAX_KVSNAME: usize = 256;

/// Longest key in bytes, counting C's terminating zero; advertised.
pub const MAX_KEY: usize = 64;

/// Longest value in bytes, counting C's terminating zero; advertised.
///
/// With an odd number, MPICH 5 stops with an assertion on two or more nodes. A larger number would permit values that
/// do not fit the line buffer of older clients.
pub const MAX_VALUE: usize = 1024;

/// Room for the port of a published name in bytes, counting C's terminating zero.
///
/// It is `MPI_MAX_PORT_NAME` of MPICH and Intel MPI. A lookup of PMI-1 writes the port into a buffer whose size the
/// call does not name, and MPI programs provide this size. No manager accepts or sends a longer port.
pub const MAX_PORT: usize = 256;

/// Longest reply in bytes, without its newline.
///
/// MPICH up to 4.0, Intel MPI and MVAPICH read replies into a buffer of 1024 bytes.
pub const MAX_REPLY: usize = 1023;

/// Longest reply with a value that a client has put, in bytes, without its newline: `cmd=getbyidx_results` with the
/// longest key and value. Hydra sends replies of this length, too.
///
/// A client with a read buffer of 1024 bytes also writes its put from a buffer of that size, with the name of the KVS
/// in it. So it puts no value whose reply passes [`MAX_REPLY`]. Only clients with longer buffers get a longer reply.
pub const MAX_VALUE_REPLY: usize = MAX_REPLY + 160;

/// Longest line accepted from a client in bytes, without its newline.
///
/// It is far above the lines of any library. A client that passes it does not speak this protocol.
pub const MAX_LINE: usize = 64 * 1024;

/// Longest message of PMI-2 in bytes, without the six characters of its length, in both directions.
///
/// The field could represent a million. This is the limit of Slurm's server.
pub const MAX_FRAME: usize = 64 * 1024;

/// How many bytes the blocks of one spawn may hold together.
///
/// Half of the space that Linux gives a program for its arguments and environment. A message of PMI-2 is smaller.
pub const MAX_SPAWN_BYTES: usize = 1024 * 1024;

/// How many blocks, arguments and lines of hints one spawn may have together.
///
/// A program with more of them can read a file.
pub const MAX_SPAWN_LINES: usize = 8192;

/// How many requests of one client of PMI-2 may wait for their answers.
///
/// Each request belongs to one thread. Few programs have more threads in PMI calls than a node has CPUs.
pub const MAX_OPEN: usize = 256;

/// How many barriers of groups one client of PMI-1.2 may wait in, in all its threads.
pub const MAX_BARRIERS: usize = 256;

/// How many runs of consecutive ranks a group of a barrier may have.
///
/// This number fits one message between managers, for any numbering of the ranks in the job.
pub const MAX_GROUP_RUNS: usize = 2048;

/// How many bytes of undecoded input a session holds while the client has to wait.
///
/// A client has one outstanding request, so one line would be enough. Four of the longest lines leave room for a reader
/// that passes large pieces.
pub const MAX_BACKLOG: usize = 4 * MAX_LINE;

/// How many bytes of replies may wait for a client that does not read.
///
/// Beyond it the session stops decoding until the caller has consumed output. The output passes the limit by at most a
/// few replies.
pub const MAX_OUTPUT: usize = 64 * 1024;

/// How many operations may wait for the caller before the session stops decoding.
pub const MAX_OPERATIONS: usize = 64;

/// How many bytes one job's KVS may hold, keys, values and [`KVS_ENTRY_COST`] counted.
///
/// An address has up to about 700 bytes per rank, so 64 MiB are enough for about 80,000 ranks. The limit keeps a faulty
/// program from using up the host's memory through its manager.
pub const MAX_KVS_BYTES: usize = 64 * 1024 * 1024;

/// The bytes that an entry of the KVS counts besides its value and two copies of its key.
///
/// They are about the size of the allocations, so that a million empty values are counted, too.
pub const KVS_ENTRY_COST: usize = 96;

/// How many bytes the node attributes of one job may hold on one node, keys, values and
/// [`NODE_ATTRIBUTE_COST`] counted.
///
/// Libraries put the names of one or two segments; programs may put a pair for each rank of the node.
pub const MAX_NODE_ATTRIBUTE_BYTES: usize = 4 * 1024 * 1024;

/// The bytes that a node attribute counts besides its key and value: about the size of the allocations.
pub const NODE_ATTRIBUTE_COST: usize = 64;

/// How many requests may wait for node attributes of one job on one node.
///
/// No program waits in [`MAX_OPEN`] threads of every rank of a large node.
pub const MAX_NODE_WAITERS: usize = 16 * 1024;

/// Longest value of `PMI_process_mapping` in bytes.
///
/// It must fit one reply after `cmd=get_result rc=0 msg=success value=`.
pub const MAX_MAPPING: usize = 900;

/// How many ranks a decoded process mapping may name.
///
/// Three small numbers can describe 10^19 ranks. This limit is far above any job and fits in memory.
pub const MAX_MAPPED_RANKS: usize = 1 << 20;

/// Longest key of a published name.
///
/// It is the limit of such a name. A key that is hard to guess is shorter.
pub const MAX_SERVICE_KEY: usize = 256;

/// How many bytes of a client's text are repeated in an error or in a reply's `msg`.
pub(crate) const MAX_EXCERPT: usize = 64;
