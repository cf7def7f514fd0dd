//! The way in and the way out of every tool: options, standard output, one line of error, exit code.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use mpd_io::logging::one_line;
use mpd_wire::DaemonName;
use mpd_wire::message::{ConsoleReply, JobRef, RingRequest};

use crate::cli::Common;
use crate::{ask, render};

/// It could not be done, or something is wrong; the reason is on standard error.
pub const EXIT_FAILURE: u8 = 1;

/// Nobody reads standard output any more: what a shell says of a program that `SIGPIPE` ended.
pub const EXIT_READER_GONE: u8 = 141;

/// Standard output does not take what is written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
pub struct OutputError(#[from] io::Error);

/// Runs a tool: its options are parsed (a wrong command line ends it with 2), `run` does the work,
/// and an error is told in one line.
pub fn main<C: Parser>(run: impl FnOnce(&C) -> Result<ExitCode>) -> ExitCode {
    main_of(std::env::args_os(), run)
}

/// The same for arguments that were touched up before.
pub fn main_of<C: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(&C) -> Result<ExitCode>,
) -> ExitCode {
    mpd_io::reserve_standard_descriptors();
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

/// Where the tool `name` is, for another host on which the suite is installed at the same place. This very
/// file has the name of another tool.
///
/// # Errors
/// When the system does not tell.
pub fn own_path(name: &str) -> Result<String> {
    let own = std::env::current_exe().context("cannot find this program")?;
    Ok(own.with_file_name(name).display().to_string())
}

fn is_reader_gone(error: &anyhow::Error) -> bool {
    let output = error.downcast_ref::<OutputError>();
    output.is_some_and(|OutputError(e)| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes `text` to standard output, at once.
///
/// # Errors
/// [`OutputError`].
pub fn print(text: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes `NAME: TEXT` to standard error, as one line whatever `text` holds.
pub fn warn(name: &str, text: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "{name}: {}", one_line(text));
}

/// Success, or failure if `problem` is true.
pub fn code(problem: bool) -> ExitCode {
    if problem { ExitCode::from(EXIT_FAILURE) } else { ExitCode::SUCCESS }
}

/// Gives a command to members of the ring: silent if all were told, else the others are named.
///
/// # Errors
/// When the daemon does not carry it out, or standard output does not take the answer.
pub fn command(name: &str, common: &Common, request: RingRequest) -> Result<ExitCode> {
    told(name, common, ask::command(&common.place.rundir()?, request)?)
}

/// The same for a command about a job, to the ring that has it.
///
/// # Errors
/// As for [`command`]; also when no ring has the job, or several have one that is called so.
pub fn job_command(
    name: &str,
    common: &Common,
    job: JobRef,
    request: impl FnOnce(JobRef) -> RingRequest,
) -> Result<ExitCode> {
    told(name, common, ask::job_command(&common.place.rundir()?, job, request)?)
}

fn told(name: &str, common: &Common, missing: Vec<DaemonName>) -> Result<ExitCode> {
    if common.json {
        print(&render::json(&ConsoleReply::Done { missing: missing.clone() }))?;
    }
    let problem = render::missing(&missing);
    if let Some(text) = &problem {
        warn(name, text);
    }
    Ok(code(problem.is_some()))
}
