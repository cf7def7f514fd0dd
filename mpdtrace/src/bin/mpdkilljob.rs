//! `mpdkilljob`: ends a job of the ring.

use std::process::ExitCode;

use mpd_proto::message::RingRequest;
use mpdtrace::cli::KilljobCli;
use mpdtrace::tool;

fn main() -> ExitCode {
    tool::main(|cli: &KilljobCli| {
        let request = RingRequest::KillJob { job: cli.job() };
        tool::command("mpdkilljob", &cli.common, request)
    })
}
