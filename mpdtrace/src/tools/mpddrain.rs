//! `mpddrain`: hosts get no new processes; running processes continue.

use std::process::ExitCode;

use anyhow::Result;
use mpd_wire::DaemonName;
use mpd_wire::message::RingRequest;
use mpdtrace::cli::DrainCli;
use mpdtrace::{all_users, ask, member, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &DrainCli| {
        if cli.all.all_users {
            return all_users::drain::drain(&cli.members, &cli.all, cli.undo, cli.while_active);
        }
        let members = resolve(cli)?;
        let draining = !cli.undo;
        tool::command("mpddrain", &cli.common, RingRequest::Drain { members, draining })
    })
}

fn resolve(cli: &DrainCli) -> Result<Vec<DaemonName>> {
    let view = ask::describe(&cli.common.ring_options.rundir()?, ask::PATIENCE)?;
    let mut members = Vec::new();
    for text in &cli.members {
        // Only names with ranges are lists; a daemon may have a name that is no name of a host.
        if text.contains('[') {
            let names = mpd_placement::hosts::expand_names(text)?;
            members.extend(names.iter().map(|name| member::resolve(&view, name)));
        } else {
            members.push(member::resolve(&view, text));
        }
    }
    members.into_iter().collect()
}
