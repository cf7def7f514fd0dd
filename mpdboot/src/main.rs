//! `mpdboot`: raises a ring of daemons over ssh.
//!
//! On the host that boots it starts the local daemon and remote shells; at the far end of each it runs
//! again, as an agent. Which of the two a process is, is decided here and nowhere else.

mod agent;
mod boot;
mod child;
mod cli;
mod command;
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

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, Role};

fn main() -> ExitCode {
    mpd_io::reserve_standard_descriptors();
    let cli = Cli::read();
    let result = match cli.role() {
        Role::Agent => agent::run(),
        Role::Reviver { name, plan, join } => revive::run(&name, &plan, &join),
        Role::Docs(directory) => {
            mpd_docs::generate(&directory, [Cli::command()]).map(|()| ExitCode::SUCCESS)
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

/// One line of ours on standard error.
fn complain(text: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "mpdboot: {}", mpd_io::logging::one_line(text));
}
