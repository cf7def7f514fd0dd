//! The options of all tools that ask a daemon.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use mpd_io::ring::ring_name::RingName;
use mpd_io::ring::rundir::{RunDir, host_name};
use mpd_io::ring::site;

/// Selects the daemon to ask.
#[derive(Clone, Debug, Default, Args)]
pub struct RingOptions {
    /// The name of the ring [default: $MPD_RING, $MPD_CON_EXT, the batch job's id]
    #[arg(long, value_name = "NAME")]
    pub ring: Option<String>,

    /// The run directory of the daemon
    #[arg(long, value_name = "DIR")]
    pub rundir: Option<PathBuf>,
}

impl RingOptions {
    /// The run directory that applies.
    ///
    /// # Errors
    /// When the name of the ring is not valid.
    pub fn rundir(&self) -> Result<RunDir> {
        let ring = RingName::resolve(self.ring.as_deref())?;
        let default = RunDir::resolve(self.rundir.clone(), &ring, &host_name());
        Ok(site::or_of_site(default, &ring))
    }

    /// The same options as arguments for a command on another host, where this environment does not
    /// apply.
    ///
    /// # Errors
    /// As for [`RingOptions::rundir`].
    pub fn arguments(&self) -> Result<Vec<String>> {
        let mut arguments = Vec::new();
        let ring = RingName::resolve(self.ring.as_deref())?;
        if !ring.as_str().is_empty() {
            arguments.extend(["--ring".to_owned(), ring.to_string()]);
        }
        if let Some(rundir) = &self.rundir {
            arguments.extend(["--rundir".to_owned(), rundir.display().to_string()]);
        }
        Ok(arguments)
    }
}

/// Selects the daemon to ask and the form of the output.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// Selects the daemon to ask.
    #[command(flatten)]
    pub ring_options: RingOptions,

    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) const PLACES: &str = "\
The run directory is --rundir, else $MPD_RUNDIR, else $XDG_RUNTIME_DIR/mpd, else /tmp/mpd-UID-HOST;
the last two end in -NAME if the ring has a name.
Exit codes: 0, 1 for a failure (reported on standard error), 2 for a wrong command line.";
