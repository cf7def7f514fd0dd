//! `mpdboot --site`: the user's ring on the site of this host. All daemons, this host's too, start through the starters of the
//! site, so each is in the group of a unit there.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use mpd_boot::wire::{Manner, SiteTerms};
use mpd_io::ring::ring_name::RingName;
use mpd_io::ring::rundir::RunDir;
use mpd_io::ring::site::{self, SiteError, ThisSite};
use mpd_placement::hosts::HostEntry;
use mpd_site::{SSH_CONFIG, VERSIONS, files};
use nix::fcntl::{Flock, FlockArg};

use crate::cli::Cli;
use crate::roster::{Roster, RosterOptions, choose};

/// The site whose ring is wanted.
///
/// # Errors
/// The site cannot be used, or users may not start jobs here.
pub(super) fn wanted(cli: &Cli) -> Result<Option<ThisSite>> {
    if cli.site {
        let this = site::load_to_submit()?;
        return Ok(Some(this.with_context(|| format!("--site: there is no {}", mpd_site::HOSTS))?));
    }
    let names_nothing = cli.file.is_none()
        && cli.hosts.is_none()
        && cli.totalnum.is_none()
        && cli.rsh.is_none()
        && !cli.private
        && !cli.add
        && RingName::resolve(cli.ring.as_deref())?.as_str().is_empty();
    if !names_nothing {
        return Ok(None);
    }
    match site::load_to_submit() {
        // On such a host, mpdboot starts an ordinary ring.
        Err(SiteError::NoSubmitHost(..) | SiteError::NotListed(_)) => Ok(None),
        this => Ok(this?),
    }
}

/// The daemons: this host's, and one on each host that runs processes.
///
/// # Errors
/// More hosts are wanted than there are.
pub(super) fn roster(cli: &Cli, this: &ThisSite) -> Result<Roster> {
    let own = this.own().filter(|own| !own.roles.run);
    let entries: Vec<HostEntry> =
        own.into_iter().chain(this.site.run_hosts()).map(|host| host.entry.clone()).collect();
    let options = RosterOptions {
        total: cli.totalnum.map(|n| n as usize),
        ncpus: cli.ncpus,
        ..RosterOptions::default()
    };
    Ok(choose(&entries, &options, &this.here, |host| host == this.here)?)
}

/// The settings of a ring of the site.
///
/// # Errors
/// This `mpdboot` is not of an installed version.
pub(super) fn manner(manner: Manner, this: &ThisSite, ring: &RingName) -> Result<Manner> {
    if !files::is_installed(&manner.mpd) {
        bail!(
            "{}: the starters of this site run only versions below {VERSIONS}. Use that mpdboot, or name hosts with \
             --hosts, for daemons that your own ssh starts",
            manner.mpd
        );
    }
    let key = RunDir::of_site(ring).path().join("key").display().to_string();
    Ok(Manner {
        rsh: ["ssh", "-F", SSH_CONFIG].map(str::to_owned).to_vec(),
        key_file: Some(key),
        // Only submit hosts may start others.
        flat: true,
        site: Some(SiteTerms { first: this.here.clone(), idle_s: this.policy.idle_s() }),
        ..manner
    })
}

/// The right to boot: two jobs of one user may begin at the same time.
#[derive(Debug)]
pub(super) struct Turn {
    _lock: Flock<File>,
}

impl Turn {
    /// Waits until no other `mpdboot` of this user boots the ring.
    ///
    /// # Errors
    /// The run directory cannot be used.
    pub(super) fn take(rundir: &RunDir) -> Result<Self> {
        loop {
            rundir.make()?;
            let path = rundir.path().join("boot.lock");
            let open =
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = match open {
                // A ring that ended has removed the directory.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                file => file.with_context(|| path.display().to_string())?,
            };
            let lock = Flock::lock(file, FlockArg::LockExclusive)
                .map_err(|(_, e)| e)
                .with_context(|| path.display().to_string())?;
            if is_at(&lock, &path) {
                return Ok(Self { _lock: lock });
            }
        }
    }
}

/// Whether the file is still the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), path.metadata()) else { return false };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}
