//! `mpdsigjob`: sends a signal to the ranks of a job.

use std::process::ExitCode;

use mpd_wire::message::RingRequest;
use mpdtrace::cli::SigjobCli;
use mpdtrace::{signal, tool};

pub(crate) fn main() -> ExitCode {
    tool::main_of(signal::arguments(tool::arguments()), |cli: &SigjobCli| {
        let (signal, single) = (cli.signal, cli.single);
        let request = |job| RingRequest::SignalJob { job, signal, single };
        tool::job_command("mpdsigjob", &cli.common, cli.job(), request)
    })
}
