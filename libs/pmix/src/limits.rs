//! The limits of this crate, each with its reason. They bound the memory that a manager uses for one client.

/// Longest payload of the connect message in bytes.
///
/// PMIx 6 appends the command line of its process, which may be longer. No other field is long.
pub const MAX_HANDSHAKE: usize = 256 * 1024;

/// Longest payload of a message of a client in bytes.
///
/// The addresses of a rank have some kilobytes, the environment of a spawn some hundred. libpmix accepts this size too.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Most data of one message. Each number, string and structure counts.
///
/// A connect of Open MPI 4 has three data for each rank of both jobs. Each datum takes 32 bytes of memory.
pub const MAX_ITEMS: usize = 1 << 20;

/// Deepest nesting of values and structures in one message.
///
/// An array of information with arrays in it has a depth of 5.
pub const MAX_DEPTH: usize = 16;

/// Longest namespace in bytes.
pub const MAX_NAMESPACE: usize = 255;

/// Longest key in bytes.
pub const MAX_KEY: usize = 511;

/// Most requests of one client that may wait for their answers.
///
/// A thread has one open request, or a few with non-blocking calls.
pub const MAX_OPEN: usize = 1024;

/// Most bytes of replies that may wait for a client that does not read.
///
/// Beyond it the session stops decoding until the caller has consumed some. Replies to decoded requests are still added.
pub const MAX_OUTPUT: usize = 1024 * 1024;

/// Most bytes of waiting replies and events. Beyond it the session closes the connection of a client that does not read.
///
/// A reply to a request for the job information of 100,000 ranks has 50 MB.
pub const MAX_UNREAD: usize = 256 * 1024 * 1024;

/// Most status codes for which one client may be registered.
pub const MAX_EVENT_CODES: usize = 4096;

/// Most processes of interest in all registrations of a client. Beyond it a registration is for all processes, and the
/// library selects.
pub const MAX_EVENT_PROCS: usize = 64 * 1024;

/// Most events of one job that are kept for processes that register late.
///
/// A job whose ranks end one after another makes one event for each.
pub const MAX_KEPT_EVENTS: usize = 1024;

/// Most bytes of these events, as encoded for other managers.
pub const MAX_KEPT_EVENT_BYTES: usize = 1024 * 1024;

/// Most bytes of one event that a client sends, encoded in the same way. Each host of the job receives it.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;

/// The budget of one rank: most bytes that its manager keeps for it.
///
/// The keys and values that it commits count, with [`ENTRY_COST`] for each pair, and so does all else that lasts, like the
/// members of its groups. Beyond the budget these are refused. Requests that wait for their answers count too. While they
/// are beyond it, the session decodes no further message.
pub const MAX_RANK_BYTES: usize = 64 * 1024 * 1024;

/// Most bytes of waiting requests of a rank that has used up its budget.
///
/// It leaves room for ordinary requests, so that a rank that has committed too much can still fence, abort and finalize.
pub const MAX_BEYOND: usize = 1024 * 1024;

/// Estimated memory of an entry beside its key and value.
pub const ENTRY_COST: usize = 96;

/// Most groups of one client that are constructed at a time.
pub const MAX_GROUPS: usize = 1024;

/// Most processes of one collective operation.
pub const MAX_MEMBERS: usize = 1 << 20;

/// Most collective operations that may wait for members at one manager.
pub const MAX_COLLECTIVES: usize = 64 * 1024;
