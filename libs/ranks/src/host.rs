//! What the machine reads of its host.

use std::time::Duration;

use mpd_ending::Pid;

/// Processes that the kernel has killed for lack of memory.
pub type Victims = Vec<Pid>;

/// What a call reads of the host.
pub trait Host {
    /// How many processes the kernel has killed for lack of memory since the system started, if that is known.
    fn kills(&self) -> Option<u64>;
    /// The processes that it has killed since that time on the clock of its log; `None`: the log cannot be read.
    fn victims(&self, since: Duration) -> Option<Victims>;
    /// The niceness of this process.
    fn niceness(&self) -> Option<i8>;
    /// Whether this process may give others that niceness.
    fn may_have(&self, niceness: i8) -> bool;
    /// The system's text for an error number.
    fn text_of(&self, errno: i32) -> String;
}
