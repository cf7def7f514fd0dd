//! `mpdkilljob`: ends a job of the ring.

use std::process::ExitCode;

use mpd_wire::message::RingRequest;
use mpdtrace::cli::KilljobCli;
use mpdtrace::tool;

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &KilljobCli| {
        let request = |job| RingRequest::KillJob { job };
        tool::job_command("mpdkilljob", &cli.common, cli.job(), request)
    })
}
