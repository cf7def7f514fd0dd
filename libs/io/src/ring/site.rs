//! The site that has this host: its list of hosts, its rules, and the place of users' rings.
//!
//! On a site, a user's ring begins by itself with the first job. It belongs to the user and to the submit host on which it
//! began. Its run directory is below `/run/mpd-suite`, since the directory of a login session goes with the session.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use mpd_placement::hosts::HostEntry;
use mpd_site::hosts::{InvalidSite, Site, SiteHost};
use mpd_site::policy::{InvalidPolicy, Policy};
use mpd_site::version::{self, Version};
use mpd_site::{HOSTS, POLICY, VERSIONS, hosts, policy};
use nix::unistd::geteuid;

use crate::host::this_host;
use crate::ring::ring_name::RingName;
use crate::ring::rundir::{RunDir, SITE_RUN, host_name};

/// The site of this host.
#[derive(Clone, Debug)]
pub struct ThisSite {
    pub site: Site,
    pub policy: Policy,
    /// The name of this host in the list.
    pub here: String,
}

impl ThisSite {
    /// The entry of this host.
    pub fn own(&self) -> Option<&SiteHost> {
        self.site.find([self.here.as_str()])
    }
}

/// The site cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error("{path}: {error}")]
    System { path: &'static str, error: io::Error },
    #[error("{HOSTS}: {0}")]
    Hosts(#[from] InvalidSite),
    #[error("{POLICY}: {0}")]
    Policy(#[from] InvalidPolicy),
    #[error(
        "{HOSTS} does not have this host ({0}); the administrator adds it and runs 'mpdsite push'"
    )]
    NotListed(String),
    #[error("{0} is no submit host of this site ({HOSTS}); start the job on one of {1}")]
    NoSubmitHost(String, String),
}

/// Reads the site of this host; `None` on a host without a site.
///
/// # Errors
/// [`SiteError`].
pub fn load() -> Result<Option<ThisSite>, SiteError> {
    let Some(text) = read(HOSTS, hosts::MAX_FILE)? else { return Ok(None) };
    let site = Site::parse(&text)?;
    let policy = match read(POLICY, policy::MAX_FILE)? {
        Some(text) => Policy::parse(&text)?,
        None => Policy::default(),
    };
    let own = host_name();
    let entries: Vec<HostEntry> = site.hosts().iter().map(|host| host.entry.clone()).collect();
    let here = this_host::names_of_this_host(&entries, &own).into_iter().next();
    let here = here.ok_or(SiteError::NotListed(own))?;
    Ok(Some(ThisSite { site, policy, here }))
}

/// The site of this host, if users may start jobs here.
///
/// # Errors
/// [`SiteError`].
pub fn load_to_submit() -> Result<Option<ThisSite>, SiteError> {
    let Some(this) = load()? else { return Ok(None) };
    if this.own().is_some_and(|own| own.roles.submit) {
        return Ok(Some(this));
    }
    let others: Vec<&str> = this.site.submit_hosts().map(SiteHost::name).collect();
    Err(SiteError::NoSubmitHost(this.here.clone(), others.join(", ")))
}

/// The versions of the suite that are installed here, newest first.
pub fn versions() -> Vec<Version> {
    let entries = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    // The link to the newest one is no version.
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names: Vec<String> =
        real.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    version::installed(names.iter().map(String::as_str))
}

fn read(path: &'static str, limit: usize) -> Result<Option<Vec<u8>>, SiteError> {
    let system = |error| SiteError::System { path, error };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(system)?,
    };
    let mut text = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut text).map_err(system)?;
    Ok(Some(text))
}

/// The name of the ring that a user begins on this host.
pub fn ring_name() -> RingName {
    RingName::of_site(&host_name())
}

/// The run directory for consoles that name neither a ring nor a directory. It is `default` if a daemon has served there, and
/// otherwise the directory of the user's ring on the site.
pub fn or_of_site(default: RunDir, ring: &RingName) -> RunDir {
    let is_named = default.is_explicit() || !ring.as_str().is_empty();
    // Another user may have made a directory of this name in /tmp.
    let is_ours = || {
        let found = std::fs::symlink_metadata(default.path());
        found.is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw())
    };
    if is_named || !Path::new(SITE_RUN).is_dir() || (is_ours() && default.socket().exists()) {
        return default;
    }
    RunDir::of_site(&ring_name())
}
