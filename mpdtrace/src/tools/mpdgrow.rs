//! `mpdgrow`: starts further processes of a job.

use std::process::ExitCode;

use mpd_wire::message::RingRequest;
use mpdtrace::cli::GrowCli;
use mpdtrace::tool;

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &GrowCli| {
        let count = cli.count;
        let request = |job| RingRequest::GrowJob { job, count };
        tool::job_command("mpdgrow", &cli.common, cli.job.clone(), request)
    })
}
