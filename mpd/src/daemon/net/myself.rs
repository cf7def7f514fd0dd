//! The identity of this daemon on every link, and the check whether a peer belongs to its ring.

use std::net::IpAddr;

use mpd_channel::{Instance, Keys};
use mpd_wire::DaemonName;
use mpd_wire::message::{Greeting, MAX_GREETING};

/// The identity of this daemon.
#[derive(Debug)]
pub(crate) struct Myself {
    pub(crate) ring: String,
    pub(crate) name: DaemonName,
    pub(crate) instance: Instance,
    pub(crate) keys: Keys,
}

impl Myself {
    /// Our greeting to a peer at that address.
    pub(super) fn greeting(&self, peer: IpAddr) -> Greeting {
        Greeting {
            ring: self.ring.clone(),
            name: self.name.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            seen: peer.to_string(),
        }
    }

    /// Decodes the greeting of a peer. Fails if the peer is not in our ring or is not the `wanted` daemon.
    pub(super) fn check(
        &self,
        frame: &[u8],
        wanted: Option<&DaemonName>,
    ) -> Result<Greeting, String> {
        if frame.len() > MAX_GREETING {
            return Err("its greeting is too long".into());
        }
        let greeting: Greeting =
            serde_json::from_slice(frame).map_err(|e| format!("its greeting is malformed: {e}"))?;
        if greeting.ring != self.ring {
            return Err(format!(
                "the daemon there is in {}, this one in {} (--ring)",
                describe(&greeting.ring),
                describe(&self.ring)
            ));
        }
        if let Some(wanted) = wanted.filter(|wanted| **wanted != greeting.name) {
            return Err(format!("the daemon there is {}, not {wanted}", greeting.name));
        }
        Ok(greeting)
    }
}

fn describe(ring: &str) -> String {
    if ring.is_empty() { "the ring without a name".to_owned() } else { format!("ring {ring:?}") }
}
