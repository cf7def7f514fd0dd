//! `mpdcleanup`: removes files that a dead daemon left.

use std::process::ExitCode;

use anyhow::{Result, bail};
use mpd_io::ring::rundir::host_name;
use mpd_io::terminal::progress::ProgressLine;
use mpdtrace::cli::CleanupCli;
use mpdtrace::remote::Shell;
use mpdtrace::{cleanup, hosts, render, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &CleanupCli) -> Result<ExitCode> {
    let mut all = Vec::new();
    if let Some(file) = &cli.file {
        let mut hosts = hosts::read(file)?;
        hosts.truncate(cli.first.unwrap_or(usize::MAX));
        all = elsewhere(cli, &hosts)?;
    }
    all.push(cleanup::local(host_name(), &cli.common.ring_options.rundir()?));
    if cli.common.json {
        tool::print(&render::json(&all))?;
    } else if cli.verbose {
        tool::print(&cleanup::text(&all))?;
    }
    let problems = all.iter().filter_map(|c| c.problem.as_ref().map(|p| (&c.host, p)));
    for (host, problem) in problems.clone() {
        tool::warn("mpdcleanup", &format!("{host}: {problem}"));
    }
    Ok(tool::code(problems.count() > 0))
}

fn elsewhere(cli: &CleanupCli, hosts: &[String]) -> Result<Vec<cleanup::Cleaned>> {
    if let Some(user) = cli.user.as_ref().filter(|user| !mpd_placement::hosts::is_user_name(user)) {
        bail!("'{user}' is not a user name");
    }
    let mut arguments = vec![tool::own_path("mpdcleanup")?, "--json".to_owned()];
    arguments.extend(cli.common.ring_options.arguments()?);
    let here = host_name();
    let hosts: Vec<String> = hosts.iter().filter(|host| **host != here).cloned().collect();
    let shell = Shell { program: cli.rsh.clone(), user: cli.user.clone() };
    let mut line = ProgressLine::new(!cli.quiet);
    let all = hosts.len();
    let text = |done: usize| format!("mpdcleanup: {done} of {all} hosts are done");
    line.show(&text(0));
    Ok(cleanup::remote(&shell, &hosts, &arguments, |done| line.show(&text(done))))
}
