//! The options that select the daemon for a job.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use mpd_io::ring::ring_name::RingName;
use mpd_io::ring::rundir::{RunDir, host_name};
use mpd_io::ring::{siblings, site};
use mpd_wire::job::Bytes;

use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// The given options; the environment replaces missing ones.
#[derive(Debug, Default)]
pub struct RingOptions {
    ring: Once<String>,
    rundir: Once<PathBuf>,
}

impl RingOptions {
    /// Adds an option of this group.
    pub(crate) fn note(&mut self, setting: &Setting, directory: &Path) -> Result<(), Usage> {
        match setting.opt.key {
            Key::Ring => {
                let name = setting.text()?;
                RingName::resolve(Some(name)).map_err(|e| setting.error(e))?;
                self.ring.set(name.to_owned(), setting)
            }
            Key::RunDir => self.rundir.set(directory.join(setting.nonempty()?), setting),
            _ => Ok(()),
        }
    }

    /// The run directory of the daemon.
    ///
    /// # Errors
    /// A variable has an invalid name of a ring.
    pub fn rundir(&self) -> Result<RunDir> {
        let ring = self.ring_name()?;
        Ok(site::or_of_site(self.rundir_of(&ring), &ring))
    }

    /// The same without the site of this host.
    ///
    /// # Errors
    /// As for [`RingOptions::rundir`].
    pub fn default_rundir(&self) -> Result<RunDir> {
        Ok(self.rundir_of(&self.ring_name()?))
    }

    fn ring_name(&self) -> Result<RingName> {
        Ok(RingName::resolve(self.ring.get().map(String::as_str))?)
    }

    fn rundir_of(&self, ring: &RingName) -> RunDir {
        RunDir::resolve(self.rundir.get().cloned(), ring, &host_name())
    }

    /// The error for a daemon that the user selected but that does not run; `rundir` is its run
    /// directory.
    pub(crate) fn missing_daemon(&self, rundir: &RunDir) -> Option<anyhow::Error> {
        let path = rundir.path().display();
        let asked = match (self.ring.get(), self.rundir.get()) {
            (_, Some(_)) => format!("no daemon is running with {path}"),
            (Some(ring), None) => format!("no ring called '{ring}' is up on this host"),
            (None, None) => return None,
        };
        let others = siblings::running_rings(rundir);
        Some(anyhow!("{asked}{others}; without --ring and --rundir the job needs no daemon"))
    }

    /// The arguments that select the same daemon for a console of the ring.
    pub(crate) fn words_for_consoles(&self) -> Vec<OsString> {
        let ring = self.ring.get().map(|name| [OsString::from("--ring"), name.into()]);
        let rundir = self.rundir.get().map(|path| [OsString::from("--rundir"), path.into()]);
        ring.into_iter().chain(rundir).flatten().collect()
    }

    /// The arguments that select the same daemon.
    pub(crate) fn arguments(&self) -> Vec<Bytes> {
        let ring = self.ring.get().map(|name| [b"-ring".to_vec(), name.clone().into_bytes()]);
        let bytes = |path: &PathBuf| OsStr::as_bytes(path.as_os_str()).to_vec();
        let rundir = self.rundir.get().map(|path| [b"-rundir".to_vec(), bytes(path)]);
        ring.into_iter().chain(rundir).flatten().collect()
    }
}
