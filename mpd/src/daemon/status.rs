//! `mpd --status`: asks the running daemon and prints its answer as one line of JSON.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mpd_io::console::{Console, PATIENCE};
use mpd_wire::message::{ConsoleReply, JobSummary, Opening, VERSION};
use serde::Serialize;

use crate::cli::Cli;

#[derive(Serialize)]
struct Status {
    name: String,
    pid: u32,
    jobs: Vec<JobSummary>,
}

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let mut console = Console::open(&cli.rundir()?, &Opening::Status { version: VERSION })?;
    let ConsoleReply::Status { name, pid, jobs } = console.answer(Some(PATIENCE))? else {
        bail!("the daemon sent another kind of answer");
    };
    let line = serde_json::to_string(&Status { name, pid, jobs })?;
    writeln!(io::stdout(), "{line}").context("cannot write the status")?;
    Ok(ExitCode::SUCCESS)
}
