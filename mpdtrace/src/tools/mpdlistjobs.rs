//! `mpdlistjobs`: lists the jobs of the ring.

use std::process::ExitCode;

use anyhow::Result;
use mpdtrace::cli::ListjobsCli;
use mpdtrace::{ask, jobs, render, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &ListjobsCli) -> Result<ExitCode> {
    let mut listing = ask::jobs(&cli.common.ring_options.rundir()?)?;
    jobs::choose(&mut listing, &cli.filter());
    tool::print(&match cli {
        _ if cli.common.json => jobs::json(&listing),
        _ if cli.tree => jobs::tree(&listing.jobs),
        _ if cli.sss => jobs::short(&listing.jobs),
        _ => jobs::blocks(&listing.jobs),
    })?;
    let missing = render::missing(&listing.missing);
    if let Some(text) = &missing {
        tool::warn("mpdlistjobs", text);
    }
    listing.problems.iter().for_each(|problem| tool::warn("mpdlistjobs", problem));
    Ok(tool::code(missing.is_some() || !listing.problems.is_empty()))
}
