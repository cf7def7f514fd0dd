//! Environment variables of programs that use an allocation.

/// The environment variable with the slots of the allocation, as `h1:2 h2:1`, for scripts.
pub const LIST_VARIABLE: &str = "MPD_ALLOC_SLOTS";

/// The environment variable of each rank of a job that uses an allocation, with its name. It tells managers that the slots of their
/// ranks are held.
pub const USED_VARIABLE: &str = "MPD_ALLOC_USED";

/// The environment variable with the string about one process. In a hook and in a command it has one line for each slot.
pub const LOCAL_VARIABLE: &str = "MPD_ALLOC_LOCAL";
