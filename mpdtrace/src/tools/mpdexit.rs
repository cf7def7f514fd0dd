//! `mpdexit`: one daemon leaves the ring.

use std::process::ExitCode;

use anyhow::Result;
use mpd_wire::DaemonName;
use mpd_wire::message::RingRequest;
use mpdtrace::cli::ExitCli;
use mpdtrace::{ask, member, tool};

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &ExitCli| {
        let member = if cli.member == member::LOCAL { None } else { Some(resolve(cli)?) };
        tool::command("mpdexit", &cli.common, RingRequest::Exit { member })
    })
}

fn resolve(cli: &ExitCli) -> Result<DaemonName> {
    let view = ask::describe(&cli.common.ring_options.rundir()?, ask::PATIENCE)?;
    member::resolve(&view, &cli.member)
}
