//! The way of messages along the job tree.

use mpd_wire::job::HostSlices;
use mpd_wire::message::TreeKind;

use super::peer_message::{PeerMessage, Route};
use crate::job::Job;
use crate::output::LinkOutput;
use crate::turn::Turn;
use mpd_job::manager::LinkEnd;

/// Sends a message to the manager at a tree index.
pub(super) fn send(turn: &mut Turn<'_>, to: usize, message: &PeerMessage) {
    let number = |tree_index: usize| u32::try_from(tree_index).unwrap_or(u32::MAX);
    let route = Route::Routed { to: number(to), from: number(turn.job.tree_index()) };
    for frame in message.frames(route) {
        turn.report(LinkOutput::Bytes(hop(turn.job, to), TreeKind::Pmix, frame));
    }
}

/// The next manager on the way to a tree index.
fn hop(job: &Job, to: usize) -> LinkEnd {
    let mut children = job.order.host_slices.children(job.tree_index());
    let over = children.find(|child| HostSlices::is_in_subtree(to, *child));
    over.map_or(LinkEnd::Parent, LinkEnd::Child)
}

/// Passes a frame on to the manager at a tree index.
pub(super) fn pass_on(turn: &mut Turn<'_>, from: LinkEnd, to: usize, frame: &[u8]) {
    let next = hop(turn.job, to);
    // The root has no parent, and nothing goes back where it came from.
    if next == from || (next == LinkEnd::Parent && turn.job.is_root()) {
        return turn.warn("PMIx data for a host that the job does not have".to_owned());
    }
    turn.report(LinkOutput::Bytes(next, TreeKind::Pmix, frame.to_vec()));
}

/// Passes a frame on to all managers below.
pub(super) fn pass_down(turn: &mut Turn<'_>, frame: &[u8]) {
    for child in turn.job.order.host_slices.children(turn.job.tree_index()) {
        turn.report(LinkOutput::Bytes(LinkEnd::Child(child), TreeKind::Pmix, frame.to_vec()));
    }
}
