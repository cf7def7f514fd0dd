//! `mpdkilljob`: ends a job of the ring.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use mpd_wire::JobId;
use mpd_wire::message::{JobOrder, JobRef};
use mpdtrace::cli::KilljobCli;
use mpdtrace::{all_users, ask, member, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &KilljobCli| {
        if cli.all.all_users {
            return all_users::act("mpdkilljob", &cli.job(), &cli.all, |job| vec![job.to_owned()]);
        }
        tool::job_command("mpdkilljob", &cli.common, job(cli)?, JobOrder::Kill)
    })
}

/// The job to end.
fn job(cli: &KilljobCli) -> Result<JobRef> {
    let Some(member) = &cli.member else { return Ok(cli.job()) };
    let JobRef::Number(number) = cli.job() else {
        bail!("only the number of a job is before a member, as in 'mpdkilljob 3 {member}'");
    };
    let view = ask::describe(&cli.common.ring_options.rundir()?, ask::PATIENCE)?;
    let name = member::resolve(&view, member)?;
    let id = JobId::new(number, name.as_str()).context("no job has this name")?;
    Ok(JobRef::Id(id))
}
