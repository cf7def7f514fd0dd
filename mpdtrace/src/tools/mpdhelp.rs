//! `mpdhelp`: lists the programs of MPD.

use std::process::ExitCode;

use mpdtrace::cli::HelpCli;
use mpdtrace::{programs, render, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &HelpCli| {
        let text = if cli.json { render::json(&programs::all()) } else { programs::text() };
        tool::print(&text)?;
        Ok(ExitCode::SUCCESS)
    })
}
