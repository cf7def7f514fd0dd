//! `mpdstdin`: gives the standard input of a job to other ranks.

use std::process::ExitCode;

use mpd_proto::message::RingRequest;
use mpdtrace::cli::StdinCli;
use mpdtrace::tool;

fn main() -> ExitCode {
    tool::main(|cli: &StdinCli| {
        let request = RingRequest::SwitchStdin { job: cli.job.clone(), ranks: cli.ranks.clone() };
        tool::command("mpdstdin", &cli.common, request)
    })
}
