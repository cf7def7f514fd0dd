//! What `mpdsite init` learned about the hosts: `/etc/mpd/facts.json`.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context as _, Result};
use mpd_site::files::HostFacts;
use mpd_site::hosts::Site;
use mpd_site::{HOSTS, POLICY, policy};
use serde::{Deserialize, Serialize};

use super::bundle;

const PATH: &str = "/etc/mpd/facts.json";

/// The facts of the hosts, and what the administrator accepted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    /// Whether another sshd with host-based logins is accepted.
    pub shared: bool,
    /// By the names of the list; also hosts that the list no longer has, until they are removed.
    pub hosts: Vec<HostFacts>,
}

impl Saved {
    /// The facts that were saved here; none before the first `mpdsite init`.
    ///
    /// # Errors
    /// When the file is unreadable or damaged.
    pub fn load() -> Result<Self> {
        match fs::read(PATH) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Self::default()),
            read => serde_json::from_slice(&read.context(PATH)?).context(PATH),
        }
    }

    /// Saves the facts.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn store(&self) -> Result<()> {
        bundle::write(PATH, &(serde_json::to_string_pretty(self)? + "\n"))
    }

    /// The hosts that the list no longer has.
    pub fn without(&self, site: &Site) -> Vec<String> {
        let is_listed = |name: &str| site.hosts().iter().any(|host| host.name() == name);
        self.hosts.iter().map(|it| it.name.clone()).filter(|name| !is_listed(name)).collect()
    }

    /// The facts of hosts of the list.
    pub fn facts(&self, site: &Site) -> Vec<HostFacts> {
        let is_listed = |it: &&HostFacts| site.hosts().iter().any(|host| host.name() == it.name);
        self.hosts.iter().filter(is_listed).cloned().collect()
    }
}

/// The list of hosts of this host, and the texts that all hosts get.
///
/// # Errors
/// When the list or the policy is missing or wrong.
pub fn site() -> Result<(Site, Vec<(String, String)>)> {
    let text = fs::read_to_string(HOSTS)
        .with_context(|| format!("{HOSTS} (one host per line; see mpdsite --help)"))?;
    let site = Site::parse(text.as_bytes()).context(HOSTS)?;
    let mut own = vec![(HOSTS.to_owned(), text)];
    match fs::read_to_string(POLICY) {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        read => {
            let text = read.context(POLICY)?;
            policy::Policy::parse(text.as_bytes()).context(POLICY)?;
            own.push((POLICY.to_owned(), text));
        }
    }
    Ok((site, own))
}
