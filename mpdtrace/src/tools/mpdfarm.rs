//! `mpdfarm`: runs many commands over the slots of the hosts.

use std::process::ExitCode;

use mpdtrace::farm::cli::FarmCli;
use mpdtrace::farm::{self, worker};
use mpdtrace::tool;

/// Exit code for a failure of mpdfarm itself. Lower codes count tasks.
const EXIT_SUITE: u8 = 125;

pub(crate) fn main() -> ExitCode {
    let cli: FarmCli = match mpd_docs::arguments::parse(tool::arguments()) {
        Ok(cli) => cli,
        Err(code) if code == ExitCode::SUCCESS => return code,
        Err(_) => return ExitCode::from(EXIT_SUITE),
    };
    let ended = if cli.worker {
        worker::run()
    } else {
        farm::run(&cli).map(|close| ExitCode::from(close.code()))
    };
    ended.unwrap_or_else(|error| {
        if tool::is_reader_gone(&error) {
            return ExitCode::from(tool::EXIT_READER_GONE);
        }
        tool::warn("mpdfarm", &format!("{error:#}"));
        ExitCode::from(EXIT_SUITE)
    })
}
