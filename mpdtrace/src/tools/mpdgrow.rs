//! `mpdgrow`: starts further processes of a job, or retires some.

use std::process::ExitCode;

use mpd_wire::message::JobOrder;
use mpdtrace::cli::GrowCli;
use mpdtrace::growth::Change;
use mpdtrace::tool;

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &GrowCli| {
        let order = match cli.change {
            Change::More(count) => JobOrder::Grow { count },
            Change::Fewer(count) => JobOrder::Retire { count },
        };
        tool::job_command("mpdgrow", &cli.common, cli.job.clone(), order)
    })
}
