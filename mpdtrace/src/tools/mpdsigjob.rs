//! `mpdsigjob`: sends a signal to the ranks of a job.

use std::process::ExitCode;

use mpd_wire::message::JobOrder;
use mpdtrace::cli::SigjobCli;
use mpdtrace::{signal, tool};

pub(crate) fn main() -> ExitCode {
    tool::main_of(signal::arguments(tool::arguments()), |cli: &SigjobCli| {
        let order = JobOrder::Signal { signal: cli.signal, single: cli.single };
        tool::job_command("mpdsigjob", &cli.common, cli.job(), order)
    })
}
