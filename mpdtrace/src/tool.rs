//! The frame of every tool: options, standard output, errors, exit codes.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Command, Parser};
use mpd_io::files::logging::one_line;
use mpd_wire::DaemonName;
use mpd_wire::message::{ConsoleReply, JobOrder, JobRef, RingRequest};

use crate::cli::Common;
use crate::{ask, render};

/// Exit code for a failed operation or a found problem. Standard error has the reason.
pub const EXIT_FAILURE: u8 = 1;

/// Exit code when standard output has no reader. A shell reports it for a program that `SIGPIPE`
/// ended.
pub const EXIT_READER_GONE: u8 = 141;

/// Standard output cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
pub struct OutputError(io::Error);

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

/// The words of the command line. `mpdtrace --tool NAME` stands for the name.
pub fn arguments() -> impl Iterator<Item = OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.len() > 2 && words[1] == SELECTOR {
        words.drain(..2);
    }
    words.into_iter()
}

/// Whether the word after this option of a program is its value.
pub fn takes_value(program: &Command, option: &str) -> bool {
    program.get_arguments().filter(|arg| arg.get_action().takes_values()).any(|arg| {
        arg.get_long().is_some_and(|name| option.strip_prefix("--") == Some(name))
            || arg.get_short().is_some_and(|letter| option == format!("-{letter}"))
    })
}

/// The first word of a command line that names the tool.
const SELECTOR: &str = "--tool";

/// Runs a tool: parses its options and calls `run`. A wrong command line exits with 2. An error is
/// printed as one line.
pub fn main<C: Parser>(run: impl FnOnce(&C) -> Result<ExitCode>) -> ExitCode {
    main_of(arguments(), run)
}

/// Runs a tool with prepared arguments.
pub fn main_of<C: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(&C) -> Result<ExitCode>,
) -> ExitCode {
    let name = C::command().get_name().to_owned();
    let cli = match mpd_docs::arguments::parse::<C>(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match run(&cli) {
        Ok(code) => code,
        Err(error) if is_reader_gone(&error) => ExitCode::from(EXIT_READER_GONE),
        Err(error) => {
            warn(&name, &format!("{error:#}"));
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

/// The path of the tool `name`, valid on hosts with the suite in the same directory. The running
/// file may have the name of another tool.
///
/// # Errors
/// When the system does not report the path of this program.
pub fn own_path(name: &str) -> Result<String> {
    let own = std::env::current_exe().context("cannot find this program")?;
    Ok(own.with_file_name(name).display().to_string())
}

/// The path of the tool `name` on another host of a site, which may have other versions of the suite.
///
/// # Errors
/// As for [`own_path`].
pub fn path_elsewhere(name: &str) -> Result<String> {
    let own = own_path(name)?;
    Ok(match mpd_site::files::is_installed(&own) {
        true => format!("{}/bin/{name}", mpd_site::CURRENT),
        false => own,
    })
}

/// Whether the error says that standard output has no reader.
pub fn is_reader_gone(error: &anyhow::Error) -> bool {
    let output = error.downcast_ref::<OutputError>();
    output.is_some_and(|OutputError(e)| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes `text` to standard output and flushes it.
///
/// # Errors
/// [`OutputError`].
pub fn print(text: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes `NAME: TEXT` to standard error, always as one line.
pub fn warn(name: &str, text: &str) {
    // Standard error may have no reader.
    let _ = writeln!(io::stderr(), "{name}: {}", one_line(text));
}

/// Success, or failure if `problem` is true.
pub fn code(problem: bool) -> ExitCode {
    if problem { ExitCode::from(EXIT_FAILURE) } else { ExitCode::SUCCESS }
}

/// Sends a command to members of the ring. Prints nothing if all confirmed it, else names the other
/// members.
///
/// # Errors
/// When the daemon refuses, or standard output cannot be written.
pub fn command(name: &str, common: &Common, request: RingRequest) -> Result<ExitCode> {
    reported(name, common, ask::command(&common.ring_options.rundir()?, request)?)
}

/// Sends a command about a job to the ring of that job.
///
/// # Errors
/// As for [`command`]; also when no ring has the job, or several rings have a job of this name.
pub fn job_command(name: &str, common: &Common, job: JobRef, order: JobOrder) -> Result<ExitCode> {
    reported(name, common, ask::job_command(&common.ring_options.rundir()?, job, order)?)
}

fn reported(name: &str, common: &Common, missing: Vec<DaemonName>) -> Result<ExitCode> {
    if common.json {
        print(&render::json(&ConsoleReply::Done { missing: missing.clone() }))?;
    }
    let problem = render::missing(&missing);
    if let Some(text) = &problem {
        warn(name, text);
    }
    Ok(code(problem.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_failed_write_is_printed_once() {
        let error = anyhow::Error::from(OutputError::from(io::Error::other("no space")));
        assert_eq!(format!("{error:#}"), "cannot write to standard output: no space");
    }
}
