//! `mpd --boot-agent`: the far end of a remote shell of `mpdboot`. On a host that starts no others, this process becomes
//! the daemon without an exec, which would take as long as all other work of the start.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use mpd_io::process::identity::{self, Closed};

use crate::cli::{self, Cli};
use crate::daemon;

/// Serves the request on standard input. The arguments have the name of the daemon, if anything.
pub(crate) fn run(arguments: &[OsString]) -> Result<ExitCode> {
    // The request has the key of the ring.
    Closed::begin().map(Closed::forever).context("cannot close /proc to others")?;
    // Otherwise ps would show it as a second daemon.
    let name = arguments.iter().filter_map(|word| word.to_str());
    identity::rename(&std::iter::once(cli::AGENT).chain(name).collect::<Vec<_>>());
    mpd_boot::agent::run(become_daemon)
}

/// Serves as the daemon with these arguments.
fn become_daemon(arguments: Vec<String>) -> Result<ExitCode> {
    // The remote shells of an agent would inherit it, so an agent does not ignore it.
    mpd_io::ignore_signal(libc::SIGXFSZ);
    let words = || arguments.iter().map(OsString::from);
    let cli = match Cli::of_an_agent(words()) {
        Some(cli) => cli,
        None => mpd_docs::arguments::parse(words())
            .map_err(|_| anyhow!("the arguments of the daemon are wrong"))?,
    };
    if let Some(name) = &cli.name {
        // The arguments of the agent have the name as well, so there is room for it.
        identity::rename(&["mpd", "--name", name]);
    }
    daemon::run(&cli)
}
