//! `mpdqueue`: lists allocations, and requests that wait for slots.

use std::process::ExitCode;

use anyhow::Result;
use mpdtrace::cli::QueueCli;
use mpdtrace::{render, slots, tool};
use serde_json::json;

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &QueueCli) -> Result<ExitCode> {
    let found = slots::ask(&cli.common.ring_options.rundir()?)?;
    let text = if cli.common.json {
        render::json(&json!({ "entries": slots::in_order(&found), "missing": found.missing }))
    } else {
        slots::queue(&found, slots::now_us())
    };
    tool::print(&text)?;
    let problem = render::missing(&found.missing);
    problem.iter().for_each(|text| tool::warn("mpdqueue", text));
    Ok(tool::code(problem.is_some()))
}
