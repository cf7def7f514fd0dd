//! Every limit of this crate, each with its reason. They bound the memory that one client can make a manager use.

/// Longest payload of the connect message in bytes.
///
/// PMIx 6 appends the command line of its process, which Linux bounds by a larger number; no other field is long.
pub const MAX_HANDSHAKE: usize = 256 * 1024;

/// Longest payload of a message of a client in bytes.
///
/// The addresses of a rank are some kilobytes, the environment of a spawn some hundred. libpmix accepts this size, too.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Most data that one message may hold, counted in numbers, strings and structures.
///
/// A connect of Open MPI 4 names every rank of both jobs in three data each. Each datum takes 32 bytes of memory.
pub const MAX_ITEMS: usize = 1 << 20;

/// Deepest nesting of values and structures in one message.
///
/// An array of information that holds arrays has a depth of 5.
pub const MAX_DEPTH: usize = 16;

/// Longest namespace in bytes.
pub const MAX_NAMESPACE: usize = 255;

/// Longest key in bytes.
pub const MAX_KEY: usize = 511;

/// Most requests of one client that may wait for their answers.
///
/// Each thread has one, and a thread that uses the non-blocking calls has a few.
pub const MAX_OPEN: usize = 1024;

/// Most bytes of replies that may wait for a client that does not read.
///
/// Beyond it the session stops decoding until the caller has consumed some. Replies that are due pass the limit.
pub const MAX_OUTPUT: usize = 1024 * 1024;

/// Most bytes of replies and events at which a client that does not read is given up.
///
/// A reply to a request for the job information of 100,000 ranks has 50 MB.
pub const MAX_UNREAD: usize = 256 * 1024 * 1024;

/// Most status codes for which one client may be registered.
pub const MAX_EVENT_CODES: usize = 4096;

/// Most events of one job that are kept for processes that register late.
///
/// A job whose ranks end one after another makes one event for each.
pub const MAX_KEPT_EVENTS: usize = 1024;

/// Most bytes of the keys and values that one rank may have committed, with [`ENTRY_COST`] for each.
pub const MAX_RANK_BYTES: usize = 64 * 1024 * 1024;

/// Estimated memory of an entry beside its key and value.
pub const ENTRY_COST: usize = 96;

/// Most processes of one collective operation.
pub const MAX_MEMBERS: usize = 1 << 20;

/// Most collective operations that may wait for members at one manager.
pub const MAX_COLLECTIVES: usize = 64 * 1024;
