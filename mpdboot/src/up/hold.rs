//! The holder: a process that stays after the boot because its remote shells stay, as with Slurm.
//!
//! The user's `mpdboot` starts it with the same arguments and waits for its report, the exit code. The holder does
//! the whole boot. Then it keeps the remote shells, and reads what they print, until all have ended. A daemon of
//! this host that no remote shell has started ends with the holder.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use mpd_boot::child::Child;
use mpd_io::adopt_inherited;
use mpd_io::process::signals::{self, Signals};
use mpd_io::process::spawn::{Extra, Fate, Spawn, own_environment, wait_for};
use mpd_io::wait;
use nix::poll::{PollFd, PollFlags};
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout};

/// The option of the holder.
const OPTION: &str = "--hold";

/// The descriptor of the report.
const REPORT: i32 = 3;

/// Lets a holder do the boot. Returns its exit code when it has reported it. Signals are passed on to it. It
/// also ends if this process ends before the report.
pub(super) fn run_in_holder(signals: &mut Signals) -> Result<ExitCode> {
    let (input, alive) = io::pipe().context("cannot make a pipe")?;
    let (report, writer) = io::pipe().context("cannot make a pipe")?;
    let mut arguments: Vec<Vec<u8>> = std::env::args_os().map(OsStringExt::into_vec).collect();
    arguments.insert(1.min(arguments.len()), OPTION.into());
    let spawn = Spawn::new(b"/proc/self/exe", arguments, own_environment())?;
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let streams = [input.as_fd(), stdout.as_fd(), stderr.as_fd(), writer.as_fd()];
    let pid = spawn
        .start(&streams, Extra::default(), None)
        .context("cannot start the process that holds the remote shells")?;
    drop((input, writer));
    let code = wait(pid, report, signals)?;
    drop(alive);
    Ok(ExitCode::from(code))
}

/// Waits for the report or the end of the holder.
fn wait(pid: Pid, mut report: PipeReader, signals: &mut Signals) -> Result<u8> {
    loop {
        let mut fds = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(report.as_fd(), PollFlags::POLLIN),
        ];
        wait::wait(&mut fds, None).context("cannot wait for the boot")?;
        let is_readable = fds[1].any().unwrap_or(true);
        for signal in signals.pending().into_iter().filter(|&signal| signal != libc::SIGCHLD) {
            let _ = signals::send(pid, signal);
        }
        if is_readable {
            break;
        }
    }
    let mut code = [0];
    match report.read(&mut code).context("cannot read the result of the boot")? {
        1 => Ok(code[0]),
        // It failed and has printed the reason.
        _ => match wait_for(pid) {
            Ok(Fate::Exited(code)) => Ok(code),
            Ok(Fate::Killed { signal, .. }) => {
                bail!("the boot was killed by {}", signals::name(signal))
            }
            _ => bail!("the boot ended without a result"),
        },
    }
}

/// The pipe for the report, in the holder. No child may inherit it.
pub(super) fn report() -> Result<File> {
    Ok(adopt_inherited(REPORT).context("--hold is for mpdboot itself")?.into())
}

/// Reports the exit code of the boot, then keeps the remote shells until all have ended. A signal ends them:
/// Slurm passes it on to the daemons, which leave the ring.
pub(super) fn stay(
    code: u8,
    mut report: File,
    mut shells: Vec<Child>,
    mut signals: Signals,
) -> Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    // The directory of the caller may be removed.
    let _ = std::env::set_current_dir("/");
    // The user's mpdboot may have ended.
    let _ = report.write_all(&[code]);
    drop(report);
    loop {
        shells.iter_mut().for_each(|shell| drop(shell.pump()));
        shells.retain_mut(|shell| shell.ended().is_none());
        if shells.is_empty() {
            return Ok(());
        }
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(shells.iter().flat_map(Child::poll_fds));
        wait::wait(&mut fds, None).context("cannot wait for the remote shells")?;
        if signals.pending().into_iter().any(|signal| signal != libc::SIGCHLD) {
            shells.iter_mut().for_each(Child::end);
        }
    }
}
