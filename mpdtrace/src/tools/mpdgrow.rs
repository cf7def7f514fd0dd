//! `mpdgrow`: starts further processes of a job, or retires some.

use std::process::ExitCode;

use mpd_wire::message::RingRequest;
use mpdtrace::cli::GrowCli;
use mpdtrace::growth::Change;
use mpdtrace::tool;

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &GrowCli| {
        let request = |job| match cli.change {
            Change::More(count) => RingRequest::GrowJob { job, count },
            Change::Fewer(count) => RingRequest::ShrinkJob { job, count },
        };
        tool::job_command("mpdgrow", &cli.common, cli.job.clone(), request)
    })
}
