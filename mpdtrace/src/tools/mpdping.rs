//! `mpdping`: tests whether the daemon of another host answers, and measures the time.

use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use mpd_io::ring::rundir::RunDir;
use mpd_wire::message::{ConsoleReply, RingRequest};
use mpdtrace::ask::{self, AskError};
use mpdtrace::cli::PingCli;
use mpdtrace::{lookup, ping, render, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &PingCli) -> Result<ExitCode> {
    let rundir = cli.common.ring_options.rundir()?;
    let view = ask::describe(&rundir, ask::PATIENCE)?;
    let plan = ping::plan(&view, &cli.target, lookup::addresses).map_err(|text| anyhow!(text))?;
    if let Some(guess) = &plan.guess {
        tool::warn("mpdping", guess);
    }
    let mut problems = Vec::new();
    for target in plan.targets {
        match answer(&rundir, &target) {
            Ok(pong) if cli.common.json => tool::print(&render::json(&pong))?,
            Ok(pong) => tool::print(&render::pong(&pong))?,
            Err(error) => match error.refusal() {
                Some(text) => {
                    problems.push(format!("{target}: {text}"));
                    continue;
                }
                None => return Err(error.into()),
            },
        }
        return Ok(ExitCode::SUCCESS);
    }
    bail!("{}", problems.join("; "))
}

fn answer(rundir: &RunDir, target: &str) -> Result<ConsoleReply, AskError> {
    let request = RingRequest::Ping { target: target.to_owned() };
    match ask::one(rundir, request, ask::RING_PATIENCE)? {
        pong @ ConsoleReply::Pong { .. } => Ok(pong),
        _ => Err(AskError::UNFIT),
    }
}
