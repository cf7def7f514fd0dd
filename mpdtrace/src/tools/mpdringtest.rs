//! `mpdringtest`: measures the time of a message round the ring.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use mpdtrace::ask::{self, Laps};
use mpdtrace::cli::RingtestCli;
use mpdtrace::{render, tool};

/// Deadline of the daemon for one lap.
const LAP: Duration = Duration::from_secs(10);

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &RingtestCli) -> Result<ExitCode> {
    let laps = cli.laps;
    let patience = ask::PATIENCE + LAP.saturating_mul(laps);
    match ask::laps(&cli.common.ring_options.rundir()?, laps, false, patience)? {
        Laps::Home { hops, took, .. } if cli.common.json => {
            tool::print(&render::laps_json(laps, hops, took))?;
            Ok(ExitCode::SUCCESS)
        }
        Laps::Home { hops, took, .. } => {
            tool::print(&render::laps(laps, took))?;
            if cli.verbose {
                tool::print(&render::per_hop(laps, hops, took))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Laps::Lost { home } => anyhow::bail!(
            "the message was lost: {home} of {laps} loops came home; the ring may be healing, \
             see mpdtrace"
        ),
    }
}
