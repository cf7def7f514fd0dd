//! `mpdwatch`: prints events of the ring as they happen.

use std::process::ExitCode;

use anyhow::Result;
use mpd_io::console::Console;
use mpd_wire::message::RingRequest;
use mpdtrace::cli::WatchCli;
use mpdtrace::{render, tool, watch};

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &WatchCli) -> Result<ExitCode> {
    let mut events = Console::ask(&cli.common.ring_options.rundir()?, RingRequest::Watch)?;
    watch::follow(&mut events, |event| {
        tool::print(&if cli.common.json { render::json(event) } else { render::event(event) })
    })?;
    Ok(ExitCode::SUCCESS)
}
