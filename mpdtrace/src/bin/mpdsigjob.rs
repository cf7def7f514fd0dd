//! `mpdsigjob`: sends a signal to the ranks of a job.

use std::process::ExitCode;

use mpd_proto::message::RingRequest;
use mpdtrace::cli::SigjobCli;
use mpdtrace::{signal, tool};

fn main() -> ExitCode {
    tool::main_of(signal::arguments(std::env::args_os()), |cli: &SigjobCli| {
        let request =
            RingRequest::SignalJob { job: cli.job(), signal: cli.signal, single: cli.single };
        tool::command("mpdsigjob", &cli.common, request)
    })
}
