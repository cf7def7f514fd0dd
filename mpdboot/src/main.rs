//! `mpdboot`: starts a ring of daemons over ssh.
//!
//! On the booting host, `mpdboot` starts the local daemon and remote shells. At the far end of each
//! remote shell `mpd` runs as an agent (`libs/boot`). This file selects the role.

#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

mod cli;
mod complain;
mod report;
mod revive;
mod roster;
mod up;

use std::process::ExitCode;

use clap::CommandFactory as _;
use mpd_io::process::identity::Closed;

use crate::cli::{Cli, Role};
use crate::complain::complain;

mpd_io::program!(serve);

fn serve() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    // Every role except the generator of documents may hold a ring's key.
    if let Err(error) = Closed::begin().map(Closed::forever) {
        complain(&format!("cannot close /proc to others: {error}"));
        return ExitCode::from(cli::EXIT_NOTHING);
    }
    let result = match cli.role() {
        Role::Reviver { name, plan, join } => revive::run(&name, &plan, &join),
        Role::Docs(directory) => {
            let variables = [&mpd_docs::OF_RING[..], &mpd_docs::OF_DAEMON].concat();
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
