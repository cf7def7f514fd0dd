//! The lengths of the queues of the manager and facts of its host, as the owners know them.

use mpd_job::manager::LinkEnd;
use mpd_ranks::Host;
use mpd_wire::Pid;
use mpd_wire::message::Class;

/// Facts about queues, links and processes. They are lent to each call.
pub trait Facts: Host {
    /// Bytes that the console has not accepted yet.
    fn console_waiting(&self) -> usize;
    /// Whether reports are queued for a daemon that is connected.
    fn daemon_waits(&self) -> bool;
    /// Bytes of a class that wait for a link. Bytes that were passed to the system are not counted.
    fn queued(&self, to: LinkEnd, class: Class) -> usize;
    /// The bytes of a class that wait for the link with the most.
    fn most_queued(&self, class: Class) -> usize;
    /// Whether the manager of the child at this tree index has not connected yet, and still may.
    fn awaits(&self, tree_index: usize) -> bool;
    /// A process, as messages name it.
    fn describe(&self, process: Pid) -> String;
    /// The name of a signal.
    fn name_of(&self, signal: i32) -> String;
}
