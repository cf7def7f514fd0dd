//! The list of members with the result of its check by a message round the ring.

use mpd_wire::message::RingView;

/// The list of members with the result of its check.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The list of members.
    pub view: RingView,
    /// How the last message round the ring differed from the list; `None` if it agreed.
    pub doubt: Option<String>,
}
