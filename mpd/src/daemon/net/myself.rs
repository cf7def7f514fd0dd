//! The identity of this daemon on every link, and the check whether a peer belongs to its ring.

use std::net::IpAddr;

use mpd_channel::{Instance, Keys};
use mpd_wire::DaemonName;
use mpd_wire::message::{Greeting, MAX_GREETING, RING_VERSIONS};

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
            versions: RING_VERSIONS,
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
        let theirs = greeting.versions;
        if RING_VERSIONS.common(theirs).is_none() {
            return Err(format!(
                "the daemon there, of release {}, speaks version {theirs} in rings, this one {RING_VERSIONS}",
                greeting.release.escape_default()
            ));
        }
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

#[cfg(test)]
mod tests {
    use mpd_channel::Key;

    use super::*;

    fn myself() -> Myself {
        let key = Key::from_bytes([7; 32]);
        let instance = Instance::from_bytes([1; 16]).unwrap();
        let name = DaemonName::new("h1").unwrap();
        Myself { ring: String::new(), name, instance, keys: Keys::new(key, None) }
    }

    #[test]
    fn a_daemon_without_a_common_version_is_dismissed_by_a_line_with_both_versions() {
        let greeting = |versions: &str| {
            let json = format!(
                r#"{{{versions}"ring":"","name":"h2","release":"0.9","seen":"","later":1}}"#
            );
            myself().check(json.as_bytes(), None).map(|greeting| greeting.name.to_string())
        };
        assert_eq!(greeting(r#""versions":[2,9],"#), Ok("h2".to_owned()));
        let problem = "the daemon there, of release 0.9, speaks version 1 in rings, this one 3";
        assert_eq!(greeting(""), Err(problem.to_owned()));
        assert!(greeting(r#""versions":[4,5],"#).unwrap_err().contains("version 4 to 5 in rings"));
    }
}
