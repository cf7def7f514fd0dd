//! `mpd`: the daemon of one host; re-executed as `mpdman`, the manager of one job on that host. `mpdboot` starts it on
//! other hosts as an agent, which becomes the daemon.
//!
//! This file alone decides, by the arguments, which role a process of this executable has.

#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

mod boot_agent;
mod cli;
mod daemon;
mod leftovers;
mod limits;
mod lookout;
mod manager;
mod mpi_users;
mod notes;
mod recording;
mod replay;
mod scale;
mod shim;
mod site_starter;
mod start;
mod sweep;
mod users;

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, Role};

mpd_io::program!(serve);

fn serve() -> ExitCode {
    mpd_io::process::identity::take_name();
    // A program inherits ignored signals. So what starts a program runs before any signal is ignored.
    if let Some(arguments) = cli::arguments_behind(cli::BOOT_AGENT) {
        return exit_code(boot_agent::run(&arguments));
    }
    if cli::arguments_behind(cli::SITE_STARTER).is_some() {
        return exit_code(site_starter::run());
    }
    if let Some(arguments) = cli::arguments_behind(cli::DEBUGGED) {
        return exit_code(shim::starter::run_under_gdb(&arguments));
    }
    if let Some(arguments) = cli::arguments_behind(cli::TRACED) {
        return exit_code(shim::starter::run_when_traced(&arguments));
    }
    // At the limit of file size, the write returns the error.
    mpd_io::ignore_signal(libc::SIGXFSZ);
    if let Some(arguments) = cli::arguments_behind(cli::SHIM) {
        return exit_code(shim::run(&arguments));
    }
    if let Some(arguments) = cli::arguments_behind(cli::SHM_USERS) {
        return exit_code(users::run(&arguments));
    }
    if let Some(arguments) = cli::arguments_behind(cli::MPI_USERS) {
        return exit_code(mpi_users::run(&arguments));
    }
    let cli: Cli = match Cli::of_a_job(std::env::args_os()) {
        Some(cli) => cli,
        None => match mpd_docs::arguments::parse(std::env::args_os()) {
            Ok(cli) => cli,
            Err(code) => return code,
        },
    };
    let result = match cli.role() {
        Role::Manager => manager::run(cli.level()),
        Role::ForkServer => manager::run_fork_server(cli.level()),
        Role::Sweeper(file, just_died) => sweep::run(file.as_deref(), just_died),
        Role::Docs(directory) => {
            let variables =
                [&mpd_docs::OF_RING[..], &mpd_docs::OF_DAEMON, &[cli::WAITING]].concat();
            mpd_docs::generate(&directory, [Cli::command()], &variables).map(|()| ExitCode::SUCCESS)
        }
        Role::Status => daemon::status::run(&cli),
        Role::Replayer(file) => replay::run(&cli, &file),
        Role::Starter => start::run(&cli),
        Role::Daemon => daemon::run(&cli),
    };
    exit_code(result)
}

fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            report(&error);
            ExitCode::from(cli::EXIT_FAILURE)
        }
    }
}

fn report(error: &anyhow::Error) {
    let text = mpd_io::files::logging::one_line(&format!("{error:#}"));
    // Standard error may have no reader.
    let _ = writeln!(std::io::stderr(), "mpd: {text}");
}
