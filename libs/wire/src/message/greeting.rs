//! First frame of both sides on every link between daemons: it completes the handshake.

use serde::{Deserialize, Serialize};

use crate::DaemonName;

/// The identity of the sender. Both sides send it as soon as the channel is open. The link counts
/// when the greeting has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// The ring's name; empty for the default one. Daemons of different rings close the link.
    pub ring: String,
    /// The sender's name.
    pub name: DaemonName,
    /// The sender's release, for people.
    pub release: String,
    /// The address under which the sender sees the receiver, without port.
    pub seen: String,
}

/// Longest frame that is accepted as a greeting.
pub const MAX_GREETING: usize = 1024;
