//! `mpdwatch`: prints events of the ring or of a job as they happen.

use std::process::ExitCode;

use anyhow::Result;
use mpd_io::ring::console::Console;
use mpd_wire::message::RingRequest;
use mpdtrace::cli::WatchCli;
use mpdtrace::{job_events, job_news, render, tool, watch};

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &WatchCli) -> Result<ExitCode> {
    let (rundir, json) = (cli.common.ring_options.rundir()?, cli.common.json);
    if let Some(job) = cli.job.clone().or_else(|| cli.jobid.clone()) {
        job_events::follow(&rundir, job, cli.from, |news| {
            tool::print(&if json { job_news::json(news) } else { job_news::text(news) })
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut events = Console::ask(&rundir, RingRequest::Watch)?;
    watch::follow(&mut events, |event| {
        tool::print(&if json { render::json(event) } else { render::event(event) })
    })?;
    Ok(ExitCode::SUCCESS)
}
