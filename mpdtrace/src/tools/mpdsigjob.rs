//! `mpdsigjob`: sends a signal to the ranks of a job.

use std::process::ExitCode;

use mpd_wire::message::JobOrder;
use mpdtrace::cli::SigjobCli;
use mpdtrace::{all_users, signal, tool};

pub(crate) fn main() -> ExitCode {
    tool::main_of(signal::arguments(tool::arguments()), |cli: &SigjobCli| {
        if cli.all.all_users {
            let kind = if cli.single { "--single" } else { "--group" };
            let words = |job: &str| vec![cli.signal.to_string(), job.to_owned(), kind.to_owned()];
            return all_users::act("mpdsigjob", &cli.job(), &cli.all, words);
        }
        let order = JobOrder::Signal { signal: cli.signal, single: cli.single };
        tool::job_command("mpdsigjob", &cli.common, cli.job(), order)
    })
}
