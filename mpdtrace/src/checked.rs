//! A list of members, and whether a message round the ring agreed with it.

use mpd_wire::message::RingView;

/// A ring, and whether a message went round it just so.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The list.
    pub view: RingView,
    /// In what the last message round the ring did not agree.
    pub doubt: Option<String>,
}
