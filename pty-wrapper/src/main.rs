//! `pty`: see [`pty_wrapper`].

#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use mpd_io::files::logging::one_line;
use pty_wrapper::cli::Cli;
use pty_wrapper::session::{self, Ending};

/// The variables that `pty` reads.
const SIZE: [mpd_docs::Variable; 1] =
    [("COLUMNS, LINES", "the size of the new terminal, if pty itself has no terminal")];

/// The exit code if `pty` itself fails, as of `env` and `nohup`.
const EXIT_FAILURE: u8 = 125;

mpd_io::program!(serve);

fn serve() -> ExitCode {
    let cli: Cli = match mpd_docs::arguments::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Some(directory) = &cli.generate_docs {
        let generated = mpd_docs::generate(directory, [Cli::command()], &SIZE);
        return generated.map_or_else(|e| failed(&e, 1), |()| ExitCode::SUCCESS);
    }
    match session::run(&cli) {
        Ok(Ending::Exit(code)) => ExitCode::from(code),
        Ok(Ending::Signal(signal)) => {
            mpd_io::process::signals::die_of(signal);
            // The signal has not ended this process. The code is that of a shell.
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
        Ok(Ending::Failed(problem, code)) => failed(&problem, code),
        Err(error) => failed(&error, EXIT_FAILURE),
    }
}

fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    // Standard error may be closed. The exit code still tells the result.
    let _ = writeln!(std::io::stderr(), "pty: {}", one_line(&format!("{error:#}")));
    ExitCode::from(code)
}
