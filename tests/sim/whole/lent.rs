//! What is lent to the node of a simulated manager, besides its host.

use mpd_job::manager::LinkEnd;
use mpd_manager::Facts;
use mpd_wire::Pid;
use mpd_wire::message::Class;

use super::links::Links;
use super::willing::Willing;

/// Only a link that is not open yet lets much wait.
impl Facts for Willing<&Links> {
    fn console_waiting(&self) -> usize {
        0
    }

    fn daemon_waits(&self) -> bool {
        false
    }

    fn queued(&self, end: LinkEnd, class: Class) -> usize {
        self.0.queued(end, class)
    }

    fn most_queued(&self, _: Class) -> usize {
        0
    }

    fn awaits(&self, tree_index: usize) -> bool {
        self.0.awaits(LinkEnd::Child(tree_index))
    }

    fn describe(&self, process: Pid) -> String {
        panic!("process {} is the user's, so it ends", process.0)
    }

    fn name_of(&self, signal: i32) -> String {
        signal.to_string()
    }
}
