//! `mpdcon`: a prompt for the ring and its jobs.

use std::process::ExitCode;

use mpdtrace::con::cli::ConCli;
use mpdtrace::{con, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &ConCli| con::run(cli))
}
