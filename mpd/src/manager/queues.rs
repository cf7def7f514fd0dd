//! The lengths of queues, which are lent to the node.

use mpd_job::manager::LinkEnd;
use mpd_manager::Facts;
use mpd_wire::message::Class;

use super::links::Links;
use super::upstream::Upstream;

/// The queues to console, daemon and other managers.
pub(super) struct Queues<'a> {
    pub(super) upstream: &'a Upstream,
    pub(super) links: &'a Links,
}

impl Facts for Queues<'_> {
    fn console_waiting(&self) -> usize {
        self.upstream.console.waiting()
    }

    fn daemon_waits(&self) -> bool {
        self.upstream.daemon.waits()
    }

    fn queued(&self, to: LinkEnd, class: Class) -> usize {
        self.links.queued(to, class)
    }

    fn most_queued(&self, class: Class) -> usize {
        self.links.most_queued(class)
    }

    fn awaits(&self, tree_index: usize) -> bool {
        self.links.awaits(tree_index)
    }
}
