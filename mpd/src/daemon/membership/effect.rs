//! Requests of one owner of [`super::Membership`] to another. The loop routes them.

use mpd_ring::Input;

use crate::daemon::errand::Errand;
use crate::daemon::net::Wish;

/// A request to another owner.
#[derive(Debug)]
pub(super) enum Effect {
    /// To the ring: an input.
    Post(Input),
    /// To the manager of a job on this host: a message.
    Tell(Errand),
    /// To the links: the ping of a console.
    Ping(usize, Wish),
    /// To the stay: leave the ring.
    Leave(Farewell),
    /// To all owners: this daemon is out of the ring now.
    End,
}

/// How this daemon leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    /// By command: its record says departed, and no member looks for it.
    Depart,
    /// By command, together with all members. It sends no notice.
    WithAll,
    /// On a signal: its record says departed. Its successor returns to its position.
    Signal,
    /// On a signal, with `--keep`. It sends no notice, so its neighbour starts it again.
    Missed,
}
