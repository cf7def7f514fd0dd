//! `mpdstate`: prints the state of a daemon's or a manager's machine, for bug reports.

use std::process::ExitCode;

use mpd_io::files::logging::one_line;
use mpdtrace::cli::StateCli;
use mpdtrace::{ask, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &StateCli| {
        let state = ask::state(&cli.ring_options.rundir()?, cli.job.clone())?;
        let lines = state.lines().map(|line| one_line(line) + "\n");
        tool::print(&lines.collect::<String>())?;
        Ok(ExitCode::SUCCESS)
    })
}
