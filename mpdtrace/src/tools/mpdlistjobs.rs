//! `mpdlistjobs`: lists the jobs of the ring.

use std::process::ExitCode;

use anyhow::{Result, bail};
use mpdtrace::cli::ListjobsCli;
use mpdtrace::{all_users, ask, jobs, render, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(run)
}

fn run(cli: &ListjobsCli) -> Result<ExitCode> {
    if cli.all.all_users {
        return run_for_all(cli);
    }
    let mut listing = ask::jobs(&cli.common.ring_options.rundir()?)?;
    jobs::choose(&mut listing, &cli.filter());
    tool::print(&match cli {
        _ if cli.common.json => jobs::json(&listing),
        _ if cli.tree => jobs::tree(&listing.jobs),
        _ if cli.sss => jobs::short(&listing.jobs),
        _ => jobs::blocks(&listing.jobs),
    })?;
    let missing = render::missing(&listing.missing);
    if let Some(text) = &missing {
        tool::warn("mpdlistjobs", text);
    }
    listing.problems.iter().for_each(|problem| tool::warn("mpdlistjobs", problem));
    Ok(tool::code(missing.is_some() || !listing.problems.is_empty()))
}

/// For root. The form of a tree has no parts that could be joined.
fn run_for_all(cli: &ListjobsCli) -> Result<ExitCode> {
    if cli.tree {
        bail!("--tree and --all-users exclude each other; --json has the same facts");
    }
    let filter = cli.filter();
    let option = |name: &'static str, value: Option<String>| {
        value.into_iter().flat_map(move |it| [name.to_owned(), it])
    };
    let mut arguments: Vec<String> = filter.job.iter().map(all_users::word).collect();
    arguments.extend(option("--user", filter.user).chain(option("--alias", filter.alias)));
    if cli.common.json {
        arguments.push("--json".to_owned());
        return all_users::list(&arguments, &cli.all, |texts| {
            Ok(all_users::merge::listings(texts))
        });
    }
    if cli.sss {
        arguments.push("--sss".to_owned());
        return all_users::list(&arguments, &cli.all, |texts| Ok(all_users::merge::lines(texts)));
    }
    all_users::list(&arguments, &cli.all, |texts| Ok(all_users::merge::blocks(texts)))
}
