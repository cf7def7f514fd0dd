//! `mpdexit`: one daemon leaves the ring.

use std::process::ExitCode;

use anyhow::{Result, bail};
use mpd_proto::message::RingRequest;
use mpd_proto::ring::{DaemonName, Standing};
use mpdtrace::cli::ExitCli;
use mpdtrace::{ask, member, tool};

/// What the daemon of this host is called here.
const LOCAL: &str = "localmpd";

fn main() -> ExitCode {
    tool::main(|cli: &ExitCli| {
        let member = if cli.member == LOCAL { None } else { Some(resolve(cli)?) };
        tool::command("mpdexit", &cli.common, RingRequest::Exit { member })
    })
}

fn resolve(cli: &ExitCli) -> Result<DaemonName> {
    let view = ask::describe(&cli.common.place.rundir()?, ask::PATIENCE)?;
    let Some(member) = member::find(&view, &cli.member) else {
        bail!("no member '{}' in this ring; 'mpdtrace -l' lists them", cli.member);
    };
    match member.standing {
        Standing::Live => Ok(member.name.clone()),
        Standing::Dead => bail!("{} is dead already; nothing to do", member.name),
        Standing::Departed => bail!("{} has left already; nothing to do", member.name),
    }
}
