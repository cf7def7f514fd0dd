//! `mpdallexit`: ends all daemons of the ring.

use std::process::ExitCode;

use mpd_wire::message::RingRequest;
use mpdtrace::cli::AllexitCli;
use mpdtrace::tool;

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &AllexitCli| tool::command("mpdallexit", &cli.common, RingRequest::ExitAll))
}
