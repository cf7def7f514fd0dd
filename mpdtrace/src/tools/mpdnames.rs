//! `mpdnames`: lists the names that jobs have published.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use mpd_wire::message::Published;
use mpdtrace::cli::NamesCli;
use mpdtrace::{ask, render, tool};
use serde_json::json;

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &NamesCli) -> Result<ExitCode> {
    let names = ask::names(&cli.common.ring_options.rundir()?)?;
    let text = if cli.common.json {
        render::json(&json!({ "names": names }))
    } else {
        // Quoted as in Rust, so that any published text stays on one line.
        names.iter().fold(String::new(), |mut text, one| {
            let keyed = if one.keyed { " keyed" } else { "" };
            let Published { name, value, job, host, .. } = one;
            let _ = writeln!(text, "{name:?} {job} {host} {value:?}{keyed}");
            text
        })
    };
    tool::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
