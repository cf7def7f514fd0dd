//! `mpdlabels`: labels the output of a running job.

use std::process::ExitCode;

use mpd_wire::message::JobOrder;
use mpdtrace::cli::LabelsCli;
use mpdtrace::tool;

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &LabelsCli| {
        let order = JobOrder::Label { format: cli.label.0.clone() };
        tool::job_command("mpdlabels", &cli.common, cli.job.clone(), order)
    })
}
