//! The process of one `pty`: its signals, its program, and the terminal of the user.
//! [`mpd_io::terminal::pty_relay`] copies the bytes.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::{Context, Result, anyhow};
use mpd_io::files::input::Input;
use mpd_io::files::output::Output;
use mpd_io::process::signals::{self, Signals};
use mpd_io::process::spawn::{self, Extra, Fate, Spawn, SpawnError, Step, own_environment};
use mpd_io::terminal::controlling;
use mpd_io::terminal::pty::{self, Pty, RawTerminal, Settings};
use mpd_io::terminal::pty_relay::PtyRelay;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, killpg, raise};
use nix::unistd::Pid;

use crate::cli::Cli;
use mpd_io::wait;

/// The end of `pty`.
#[derive(Debug)]
pub enum Ending {
    /// It exits with this code, as the program did.
    Exit(u8),
    /// It ends by this signal, as the program did.
    Signal(i32),
    /// It reports an error of its own and exits with this code.
    Failed(anyhow::Error, u8),
}

/// Runs the program to its end.
///
/// # Errors
/// No terminal can be created, or the own input, output or terminal cannot be used.
pub fn run(cli: &Cli) -> Result<Ending> {
    let ignored = signals::ignored();
    let passed_on = signals::for_programs().chain([libc::SIGTSTP, libc::SIGCONT]);
    let wanted = passed_on.filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let wanted: Vec<i32> = wanted.chain([libc::SIGWINCH, libc::SIGCHLD]).collect();
    let signals = Signals::catch(&wanted).context("cannot catch signals")?;
    let stdin = Input::new(own(io::stdin().as_fd())?).context("standard input")?;
    let stdout = Output::new(own(io::stdout().as_fd())?).context("standard output")?;
    let shows = stdout.is_terminal();
    let keyboard = RawTerminal::open(!shows).context("cannot set the terminal")?;
    let settings = Settings {
        like: keyboard.as_ref().map(|keyboard| keyboard.before().clone()),
        processes_output: shows && keyboard.is_some(),
        size: pty::own_size().unwrap_or_else(|| cli.size()),
    };
    let pty = Pty::open(&settings).context("cannot create a terminal")?;
    let program = match start(cli, &pty) {
        Ok(program) => program,
        Err(error) => return Ok(not_started(cli, error)),
    };
    let relay = PtyRelay::new(pty, (stdin, stdout), keyboard.is_some());
    let relay = relay.context("cannot create an event queue")?;
    let mut session = Session { signals, relay, keyboard, program, ending: None };
    while !session.relay.is_over() {
        session.turn()?;
    }
    Ok(match (session.relay.lost(), session.ending) {
        (Some(e), _) if e.kind() == io::ErrorKind::BrokenPipe => Ending::Signal(libc::SIGPIPE),
        (Some(e), _) => Ending::Failed(anyhow!("cannot write to standard output: {e}"), 1),
        (None, ending) => ending.unwrap_or(Ending::Exit(0)),
    })
}

fn own(fd: BorrowedFd<'_>) -> Result<std::os::fd::OwnedFd> {
    fd.try_clone_to_owned().context("cannot use an inherited descriptor")
}

/// Starts the program from the first directory of `PATH` where this is possible, as `execvp` does.
fn start(cli: &Cli, pty: &Pty) -> Result<Pid, SpawnError> {
    let nul = |_| child_error(libc::EINVAL);
    let (program, arguments) =
        cli.command.split_first().ok_or_else(|| child_error(libc::ENOENT))?;
    let argv: Vec<Vec<u8>> =
        std::iter::once(program).chain(arguments).map(|w| w.clone().into_vec()).collect();
    let mut failed = child_error(libc::ENOENT);
    for path in candidates(program) {
        let mut spawn = Spawn::new(&path, argv.clone(), own_environment()).map_err(nul)?;
        spawn.script(true).on_terminal().with_inherited().die_with_parent();
        let end = pty.program();
        match spawn.start(&[end, end, end], Extra::default(), None) {
            Err(error) if errno_of(&error) == Some(libc::EACCES) => failed = error,
            Err(error) if matches!(errno_of(&error), Some(libc::ENOENT | libc::ENOTDIR)) => {}
            result => return result,
        }
    }
    Err(failed)
}

/// The paths at which the program may be, in the order of `PATH`.
fn candidates(program: &OsStr) -> Vec<Vec<u8>> {
    const DEFAULT: &[u8] = b"/usr/local/bin:/usr/bin:/bin";
    let name = program.as_bytes();
    if name.contains(&b'/') {
        return vec![name.to_vec()];
    }
    let path = std::env::var_os("PATH").map_or_else(|| DEFAULT.to_vec(), OsStringExt::into_vec);
    let candidate = |directory: &[u8]| match directory {
        b"" => [b"./", name].concat(),
        _ => [directory, b"/", name].concat(),
    };
    path.split(|&b| b == b':').map(candidate).collect()
}

fn child_error(errno: i32) -> SpawnError {
    SpawnError::Child { step: Step::Exec, error: io::Error::from_raw_os_error(errno) }
}

/// Why the program could not be executed.
fn errno_of(error: &SpawnError) -> Option<i32> {
    match error {
        SpawnError::Child { step: Step::Exec, error } => error.raw_os_error(),
        _ => None,
    }
}

fn not_started(cli: &Cli, error: SpawnError) -> Ending {
    let name = cli.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
    match errno_of(&error) {
        Some(errno) => {
            let code = if errno == libc::ENOENT { 127 } else { 126 };
            let reason = Errno::from_raw(errno).desc();
            Ending::Failed(anyhow!("cannot run {name}: {reason}"), code)
        }
        None => Ending::Failed(anyhow!(error).context(format!("cannot run {name}")), 125),
    }
}

struct Session {
    signals: Signals,
    relay: PtyRelay,
    /// The terminal at standard input. A drop restores its settings.
    keyboard: Option<RawTerminal>,
    program: Pid,
    ending: Option<Ending>,
}

impl Session {
    fn turn(&mut self) -> Result<()> {
        self.wait()?;
        for signal in self.signals.pending() {
            self.take_signal(signal)?;
        }
        if self.relay.turn() && self.ending.is_none() {
            self.relay.stop(self.program, self.can_wake());
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        let flags = PollFlags::POLLIN;
        let fds = [self.signals.as_fd(), self.relay.as_fd()];
        let mut fds = fds.map(|fd| PollFd::new(fd, flags));
        wait::wait(&mut fds, self.relay.wait()).context("cannot wait for events")?;
        Ok(())
    }

    fn take_signal(&mut self, signal: i32) -> Result<()> {
        match signal {
            libc::SIGCHLD => self.reap()?,
            libc::SIGWINCH => self.resize(),
            libc::SIGHUP if self.keyboard.is_some() && !controlling::is_there() => {
                self.relay.hang_up();
            }
            _ => self.pass_on(signal),
        }
        Ok(())
    }

    /// Gives the size of the user's terminal to the new terminal. Without a terminal of the user, the
    /// program gets the signal.
    fn resize(&self) {
        if !pty::own_size().is_some_and(|size| self.relay.resize(size)) {
            self.pass_on(libc::SIGWINCH);
        }
    }

    /// Sends a signal to the program, unless it was reaped: another process may have its number then.
    fn pass_on(&self, signal: i32) {
        if self.ending.is_none() {
            self.relay.pass_on(self.program, signal, self.can_wake());
        }
    }

    /// Whether a shell continues the program, or the sender of a signal.
    fn can_wake(&self) -> bool {
        self.keyboard.is_none() || controlling::has_job_control()
    }

    fn reap(&mut self) -> Result<()> {
        if self.ending.is_some() {
            return Ok(());
        }
        let fate = spawn::fate_of(self.program).context("cannot wait for the program")?;
        let ending = match fate {
            None => return Ok(()),
            Some(Fate::Stopped) => return self.stop(),
            Some(Fate::Exited(code)) => Ending::Exit(code),
            Some(Fate::Killed { signal, .. }) => Ending::Signal(signal),
        };
        self.ending = Some(ending);
        self.relay.end_program();
        Ok(())
    }

    /// Stops this process. When a shell continues it, it continues the program.
    fn stop(&mut self) -> Result<()> {
        if !controlling::has_job_control() {
            return Ok(());
        }
        let Some(keyboard) = &self.keyboard else { return Ok(()) };
        keyboard.leave();
        let _ = raise(Signal::SIGSTOP);
        keyboard.enter().context("cannot set the terminal")?;
        self.resize();
        let _ = killpg(self.program, Signal::SIGCONT);
        Ok(())
    }
}
