//! `mpd`: the daemon of one host; re-executed as `mpdman`, the manager of one job on that host.
//!
//! Which of the two a process is, is decided here and nowhere else.

mod alone;
mod catch;
mod cli;
mod daemon;
mod debugger;
mod leftovers;
mod limits;
mod lookout;
mod manager;
mod notes;
mod scale;
mod start;
mod sweep;
mod users;

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, Role};

fn main() -> ExitCode {
    mpd_io::with_enough_stack(serve)
}

fn serve() -> ExitCode {
    mpd_io::identity::take_name();
    // A program takes over what is ignored here: its wrapper comes before that.
    if let Some(words) = cli::words_behind(cli::DEBUGGEE) {
        return exit_code(debugger::wrapper::run(&words));
    }
    if let Some(words) = cli::words_behind(cli::HELD) {
        return exit_code(debugger::wrapper::run_when_told(&words));
    }
    mpd_io::reserve_standard_descriptors();
    // A limit of file size is told by the write that hits it.
    mpd_io::ignore_signal(libc::SIGXFSZ);
    if let Some(words) = cli::words_behind(cli::DEBUGGER) {
        return exit_code(debugger::run(&words));
    }
    if let Some(words) = cli::words_behind(cli::CATCHER) {
        return exit_code(catch::run(&words));
    }
    if let Some(words) = cli::words_behind(cli::HOLDER) {
        return exit_code(catch::run_holding(&words));
    }
    if let Some(words) = cli::words_behind(cli::SHM_USERS) {
        return exit_code(users::run(&words));
    }
    if let Some(words) = cli::words_behind(cli::MPI_USERS) {
        return exit_code(alone::run(&words));
    }
    let cli: Cli = match mpd_docs::arguments::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let result = match cli.role() {
        Role::Manager => manager::run(cli.level()),
        Role::Sweeper(file, just_died) => sweep::run(file.as_deref(), just_died),
        Role::Docs(directory) => {
            let variables = [&mpd_docs::OF_PLACE[..], &mpd_docs::OF_DAEMON].concat();
            mpd_docs::generate(&directory, [Cli::command()], &variables).map(|()| ExitCode::SUCCESS)
        }
        Role::Status => daemon::status::run(&cli),
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
    let text = mpd_io::logging::one_line(&format!("{error:#}"));
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "mpd: {text}");
}
