//! `mpdstdin`: gives the standard input of a job to other ranks.

use std::process::ExitCode;

use mpd_wire::message::JobOrder;
use mpdtrace::cli::StdinCli;
use mpdtrace::tool;

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &StdinCli| {
        let order = JobOrder::SwitchStdin { ranks: cli.ranks.clone() };
        tool::job_command("mpdstdin", &cli.common, cli.job.clone(), order)
    })
}
