//! Requests of one owner of the node to another, and to the process. The node routes them.

use mpd_jobtable::{Line, ManagerMessage};
use mpd_ring::Input;
use mpd_wire::ConsoleId;
use mpd_wire::message::ConsoleReply;

use crate::output::RingAction;

/// A request of an owner.
#[derive(Debug)]
pub(crate) enum Effect {
    /// To the ring: an input.
    Post(Input),
    /// To the manager of a job on this host: a message.
    Report(ManagerMessage),
    /// To a console: an answer, and whether it is the last one.
    Answer(ConsoleId, ConsoleReply, bool),
    Log(Line),
    /// To the process.
    Perform(RingAction),
    /// To the stay: leave the ring.
    Leave(Farewell),
    /// To all owners: this daemon is out of the ring now.
    End,
}

/// How this daemon leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// By command. The record of this daemon says departed, and no member probes it.
    Depart,
    /// By command, together with all members. This daemon sends no notice.
    WithAll,
    /// On a signal. The record of this daemon says departed. Its successor returns to its position.
    Signal,
    /// On a signal, with `--keep`. This daemon sends no notice, so its neighbour starts it again.
    WithoutNotice,
}
