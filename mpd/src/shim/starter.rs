//! The process that becomes the program of a rank. It is needed if a tracer must be attached first, or if gdb
//! executes the program. It takes the PMI connection and executes the program.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mpd_io::network::passing::{self, Passed};
use mpd_io::process::spawn::own_environment;
use mpd_io::terminal::plain_terminal;
use mpd_io::wait::until_ready;
use mpd_io::{adopt_inherited, place_for_exec};
use nix::poll::PollFlags;
use nix::unistd::{execve, write};

/// The variable with the number of the socket over which the shim passes PMI connections.
pub(crate) const SOCKET_VARIABLE: &str = "MPD_SHIM_FD";

/// The number at which the program expects its connection.
const PMI_VARIABLE: &str = "PMI_FD";

/// Becomes `NAME PROGRAM [ARGUMENT…]` when its connection comes. Then its tracer is attached. An error number is
/// sent back over the socket.
pub(crate) fn run_when_traced(words: &[OsString]) -> Result<ExitCode> {
    let [name, words @ ..] = words else { bail!("no program to execute") };
    let number = number_in(SOCKET_VARIABLE).context("no socket of a shim")?;
    let socket = adopt_inherited(number).context("no socket of a shim")?;
    while matches!(until_ready(&socket, PollFlags::POLLIN, None), Ok(false)) {}
    let connection = newest_connection(&socket);
    // The connection gets the number of this socket.
    let shim = socket.try_clone().context("no socket of a shim")?;
    drop(socket);
    let error = become_program(Some(name), words, connection)?;
    let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
    let _ = write(&shim, &errno.to_ne_bytes());
    Ok(ExitCode::from(crate::cli::EXIT_FAILURE))
}

/// Becomes `PROGRAM [ARGUMENT…]`, which gdb executes on its plain terminal.
pub(crate) fn run_under_gdb(words: &[OsString]) -> Result<ExitCode> {
    let socket = number_in(SOCKET_VARIABLE).and_then(|number| adopt_inherited(number).ok());
    // A program whose input is redirected has no terminal on standard input.
    let _ = plain_terminal::make_plain(io::stdin());
    // The connection gets the number of this socket.
    let connection = socket.and_then(|socket| newest_connection(&socket));
    let error = become_program(None, words, connection)?;
    let program = words.first().map(|word| word.display().to_string()).unwrap_or_default();
    Err(error).with_context(|| format!("cannot execute {program}"))
}

/// Executes the program. Returns only the error of the kernel.
fn become_program(
    name: Option<&OsString>,
    words: &[OsString],
    connection: Option<OwnedFd>,
) -> Result<io::Error> {
    let Some((program, arguments)) = words.split_first() else { bail!("no program to execute") };
    let mut removed = vec![SOCKET_VARIABLE];
    match connection {
        Some(connection) => {
            let number = number_in(PMI_VARIABLE).context("no PMI_FD")?;
            place_for_exec(connection, number).context("cannot place the PMI connection")?;
        }
        // Without a connection the program may still run alone.
        None => removed.push(PMI_VARIABLE),
    }
    let mut environment = own_environment();
    environment.retain(|variable| {
        let name = variable.split(|&byte| byte == b'=').next().unwrap_or_default();
        !removed.iter().any(|removed| removed.as_bytes() == name)
    });
    let argv = std::iter::once(name.unwrap_or(program)).chain(arguments);
    let argv: Vec<CString> =
        argv.map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
    let environment: Vec<CString> =
        environment.into_iter().map(CString::new).collect::<Result<_, _>>()?;
    let path = CString::new(program.as_bytes())?;
    // Standard streams that were closed at the start are closed for the program.
    mpd_io::close_standard_at_exec(mpd_io::closed_at_start());
    // The start of every Rust program ignores this signal.
    mpd_io::default_signal(libc::SIGPIPE);
    let Err(error) = execve(&path, &argv, &environment);
    Ok(error.into())
}

/// The last connection that was passed. Earlier ones belong to runs that did not get here.
fn newest_connection(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut newest = None;
    while let Ok(Passed::Message(_, Some(connection))) = passing::receive(socket) {
        newest = Some(connection);
    }
    newest
}

fn number_in(variable: impl AsRef<OsStr>) -> Option<RawFd> {
    std::env::var(variable).ok()?.parse().ok()
}
