//! Runs a program under conditions that a test sets.
//!
//!     t-run [soft-files=N] [files=N] [processes=N] [uid=N] [tty=PATH] [setsid] [umask=OCTAL]
//!           [core=N] [file-size=BYTES] [stdin-closed] [ignore=SIGNAL] [group] PROGRAM [ARGUMENT...]
//!
//! `files` and `processes` set both limits, `soft-files` the soft one. `tty` makes that terminal the controlling
//! terminal of a new session and opens it as 0, 1 and 2. The conditions are applied in the given order. The program
//! replaces this process. With `group` this process starts it in a separate process group, like a shell at a
//! terminal, and waits for it. Then it can be stopped and continued.
#![expect(unsafe_code, reason = "ignoring a signal: nix marks it unsafe")]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};

use nix::fcntl::{OFlag, open};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{
    Gid, Uid, dup2_stderr, dup2_stdin, dup2_stdout, setgid, setgroups, setsid, setuid,
};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let mut in_group = false;
    let program = loop {
        let argument = arguments.next().ok_or("t-run: no program")?;
        let Some(text) = argument.to_str() else { break argument };
        match text.split_once('=').unwrap_or((text, "")) {
            ("group", _) => in_group = true,
            ("setsid", _) => drop(setsid()?),
            ("stdin-closed", _) => nix::unistd::close(0)?,
            ("tty", path) => take_terminal(path)?,
            ("umask", mask) => drop(umask(Mode::from_bits_truncate(u32::from_str_radix(mask, 8)?))),
            ("files", n) => setrlimit(Resource::RLIMIT_NOFILE, n.parse()?, n.parse()?)?,
            ("processes", n) => setrlimit(Resource::RLIMIT_NPROC, n.parse()?, n.parse()?)?,
            ("core", n) => setrlimit(Resource::RLIMIT_CORE, n.parse()?, n.parse()?)?,
            ("file-size", n) => setrlimit(Resource::RLIMIT_FSIZE, n.parse()?, n.parse()?)?,
            ("soft-files", n) => {
                let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
                setrlimit(Resource::RLIMIT_NOFILE, n.parse()?, hard)?;
            }
            ("uid", n) => become_user(n.parse()?)?,
            ("ignore", name) => ignore(name.parse()?)?,
            _ => break argument,
        }
    };
    let mut command = Command::new(&program);
    command.args(arguments);
    if !in_group {
        return Err(command.exec().into());
    }
    let status = command.process_group(0).status()?;
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number));
    Ok(ExitCode::from(u8::try_from(code.unwrap_or(1))?))
}

fn take_terminal(path: &str) -> nix::Result<()> {
    setsid()?;
    // The first terminal that a session leader opens becomes its controlling terminal.
    let terminal = open(path, OFlag::O_RDWR, Mode::empty())?;
    dup2_stdin(&terminal)?;
    dup2_stdout(&terminal)?;
    dup2_stderr(&terminal)
}

fn become_user(id: u32) -> nix::Result<()> {
    setgroups(&[])?;
    setgid(Gid::from_raw(id))?;
    setuid(Uid::from_raw(id))
}

fn ignore(which: Signal) -> nix::Result<()> {
    // SAFETY: an ignored signal runs no code of this process.
    unsafe { signal(which, SigHandler::SigIgn) }.map(drop)
}
