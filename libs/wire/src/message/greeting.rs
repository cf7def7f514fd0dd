//! First frame of both sides on every link between daemons: it completes the handshake. It is JSON in each version, so that
//! daemons without a common version can say so.

use serde::{Deserialize, Serialize};

use crate::DaemonName;
use crate::frame::Versions;

/// The versions of the messages between the daemons of a ring.
pub const RING_VERSIONS: Versions = Versions::only(3);

/// The identity of the sender. Both sides send it as soon as the channel is open. The link counts
/// when the greeting has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// The versions of the ring's messages that the sender reads. Daemons without a common version close the link.
    #[serde(default = "of_first_release")]
    pub versions: Versions,
    /// The ring's name; empty for the default one. Daemons of different rings close the link.
    pub ring: String,
    /// The sender's name.
    pub name: DaemonName,
    /// The sender's release, for people.
    pub release: String,
    /// The address under which the sender sees the receiver, without port.
    pub seen: String,
}

/// Release 0.1 states no version.
const fn of_first_release() -> Versions {
    Versions::only(1)
}

/// Longest frame that is accepted as a greeting.
pub const MAX_GREETING: usize = 1024;
