//! `mpdboot`: raises a ring of daemons over ssh.
//!
//! On the host that boots it starts the local daemon and remote shells; at the far end of each it runs
//! again, as an agent. Which of the two a process is, is decided here and nowhere else.

mod agent;
mod boot;
mod child;
mod cli;
mod command;
mod complain;
mod daemon;
mod drive;
mod failure;
mod keep;
mod key;
mod plan;
mod report;
mod revive;
mod roster;
mod up;
mod wire;

use std::process::ExitCode;

use clap::CommandFactory as _;
use mpd_io::identity::Closed;

use crate::cli::{Cli, Role};
use crate::complain::complain;

fn main() -> ExitCode {
    mpd_io::with_enough_stack(serve)
}

fn serve() -> ExitCode {
    mpd_io::reserve_standard_descriptors();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    // Each role but that of the author of documents may come to hold the key of a ring.
    if let Err(error) = Closed::begin().map(Closed::forever) {
        complain(&format!("cannot close /proc to others: {error}"));
        return ExitCode::from(cli::EXIT_NOTHING);
    }
    let result = match cli.role() {
        Role::Agent => agent::run(),
        Role::Reviver { name, plan, join } => revive::run(&name, &plan, &join),
        Role::Docs(directory) => {
            let variables = [&mpd_docs::OF_PLACE[..], &mpd_docs::OF_DAEMON].concat();
            mpd_docs::generate(&directory, [Cli::command()], &variables).map(|()| ExitCode::SUCCESS)
        }
        Role::Boot => up::run(&cli),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(cli::EXIT_NOTHING)
        }
    }
}
