//! `mpdslots`: lists the slots of each host.

use std::process::ExitCode;

use anyhow::Result;
use mpdtrace::cli::SlotsCli;
use mpdtrace::{render, slots, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &SlotsCli) -> Result<ExitCode> {
    let found = slots::ask(&cli.common.ring_options.rundir()?)?;
    let text = if cli.common.json { render::json(&found) } else { slots::hosts(&found) };
    tool::print(&text)?;
    let problem = render::missing(&found.missing);
    problem.iter().for_each(|text| tool::warn("mpdslots", text));
    Ok(tool::code(problem.is_some()))
}
