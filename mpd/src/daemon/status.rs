//! `mpd --status`: asks the running daemon and prints its answer as one line of JSON.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mpd_io::ring::console::{Console, PATIENCE};
use mpd_wire::message::{ConsoleReply, JobSummary, Opening, VERSION};
use serde::Serialize;

use crate::cli::Cli;

#[derive(Serialize)]
struct Status {
    name: String,
    pid: u32,
    jobs: Vec<Job>,
}

#[derive(Serialize)]
struct Job {
    /// The id as users write it.
    job: String,
    manager: u32,
}

impl From<JobSummary> for Job {
    fn from(JobSummary { job, manager }: JobSummary) -> Self {
        Self { job: job.to_string(), manager }
    }
}

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let mut console = Console::open(&cli.rundir()?, &Opening::Status { version: VERSION })?;
    let ConsoleReply::Status { name, pid, jobs } = console.answer(Some(PATIENCE))? else {
        bail!("the daemon sent another kind of answer");
    };
    let jobs = jobs.into_iter().map(Job::from).collect();
    let line = serde_json::to_string(&Status { name, pid, jobs })?;
    writeln!(io::stdout(), "{line}").context("cannot write the status")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use mpd_wire::{Instance, JobId};

    use super::*;

    #[test]
    fn the_id_of_a_job_is_printed_as_users_write_it() {
        let job = JobId::new(1, "h1").unwrap().of(Instance::from_bytes([7; 16]));
        let line = serde_json::to_string(&Job::from(JobSummary { job, manager: 8 })).unwrap();
        assert_eq!(line, r#"{"job":"1@h1","manager":8}"#);
    }
}
