//! `mpddrain`: hosts get no new processes; running processes continue.

use std::process::ExitCode;

use anyhow::Result;
use mpd_wire::DaemonName;
use mpd_wire::message::RingRequest;
use mpdtrace::cli::DrainCli;
use mpdtrace::{ask, member, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &DrainCli| {
        let members = resolve(cli)?;
        let draining = !cli.undo;
        tool::command("mpddrain", &cli.common, RingRequest::Drain { members, draining })
    })
}

fn resolve(cli: &DrainCli) -> Result<Vec<DaemonName>> {
    let view = ask::describe(&cli.common.ring_options.rundir()?, ask::PATIENCE)?;
    let members = cli.members.iter().map(|text| member::resolve(&view, text));
    members.collect()
}
