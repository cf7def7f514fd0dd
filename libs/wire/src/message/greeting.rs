//! First frame of both sides on every link between daemons: what the handshake does not say.

use serde::{Deserialize, Serialize};

use crate::DaemonName;

/// Who speaks. Sent by both sides at once when the channel is open; the link counts when it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// The ring's name; empty for the default one. Daemons of different rings part.
    pub ring: String,
    /// The sender's name.
    pub name: DaemonName,
    /// The sender's release, for people.
    pub release: String,
    /// The address under which the sender sees the receiver, without port.
    pub seen: String,
}

/// Longest frame that is taken for a greeting.
pub const MAX_GREETING: usize = 1024;
