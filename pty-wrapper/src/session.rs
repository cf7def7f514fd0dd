//! The process of one `pty`: its loop and its descriptors.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use mio::{Events, Interest, Poll, Token};
use mpd_io::input::Input;
use mpd_io::output::Output;
use mpd_io::pty::{self, Mode, Pty, RawTerminal, Settings};
use mpd_io::signals::{self, Signals};
use mpd_io::spawn::{self, Extra, Fate, Spawn, SpawnError, Step, own_environment};
use mpd_io::watch::watch;
use mpd_io::{adopt_inherited, terminal};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg, raise};
use nix::unistd::{Pid, getpgid};

use crate::cli::Cli;
use crate::relay::{Feed, Relay};

const SIGNALS: Token = Token(0);
const STDIN: Token = Token(1);
const STDOUT: Token = Token(2);
const TERMINAL: Token = Token(3);

/// How often a terminal that is not ours is looked at again while input waits in it.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(200);

/// After which time it is looked again whether the end of input can be told: nobody says when the program
/// sets its terminal anew. Doubled each time, up to the second.
const PATIENCE: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Bytes that are read at once.
const AT_ONCE: usize = 16 << 10;

/// How `pty` is to end.
#[derive(Debug)]
pub enum Ending {
    /// With this code.
    Exit(u8),
    /// By this signal.
    Signal(i32),
    /// For a reason of our own, with this code.
    Failed(anyhow::Error, u8),
}

/// Runs the program to its end.
///
/// # Errors
/// When there is no terminal to be had for it, or ours cannot be used.
pub fn run(cli: &Cli) -> Result<Ending> {
    let window = cli.size_fd.map(adopt_inherited).transpose().context("--size-fd")?.map(File::from);
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
        size: pty::own_size().or_else(|| told_size(window.as_ref())).unwrap_or_else(|| cli.size()),
    };
    let pty = Pty::open(&settings).context("cannot make a terminal")?;
    let program = match start(cli, &pty) {
        Ok(program) => program,
        Err(error) => return Ok(not_started(cli, error)),
    };
    let mut session = Session {
        poll: Poll::new().context("cannot make an event queue")?,
        signals,
        relay: Relay::new(keyboard.is_some()),
        keyboard,
        window,
        stdin: Some(stdin),
        stdin_ready: true,
        stdout,
        stdout_ready: true,
        lost: None,
        pty: Some(pty),
        output_ready: true,
        feed_ready: true,
        later: None,
        patience: PATIENCE[0],
        program,
        ending: None,
    };
    session.register()?;
    while !session.relay.is_over() {
        session.turn()?;
    }
    Ok(match (session.lost, session.ending) {
        (Some(e), _) if e.kind() == io::ErrorKind::BrokenPipe => Ending::Signal(libc::SIGPIPE),
        (Some(e), _) => Ending::Failed(anyhow!(e).context("cannot write to standard output"), 1),
        (None, ending) => ending.unwrap_or(Ending::Exit(0)),
    })
}

fn own(fd: BorrowedFd<'_>) -> Result<std::os::fd::OwnedFd> {
    fd.try_clone_to_owned().context("cannot use what pty was started with")
}

/// The size that who started us tells, if it ever changed.
fn told_size(window: Option<&File>) -> Option<pty::Size> {
    let mut bytes = [0; 4];
    window?.read_exact_at(&mut bytes, 0).ok()?;
    let [a, b, c, d] = bytes;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// The first place in `PATH` where the program can be started, as `execvp` looks for it.
fn start(cli: &Cli, pty: &Pty) -> Result<Pid, SpawnError> {
    let nul = |_| child_error(libc::EINVAL);
    let (program, arguments) =
        cli.command.split_first().ok_or_else(|| child_error(libc::ENOENT))?;
    let name = cli.name.as_ref().unwrap_or(program);
    let argv: Vec<Vec<u8>> =
        std::iter::once(name).chain(arguments).map(|w| w.clone().into_vec()).collect();
    let mut failed = child_error(libc::ENOENT);
    for path in places(program) {
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

fn places(program: &OsStr) -> Vec<Vec<u8>> {
    const DEFAULT: &[u8] = b"/usr/local/bin:/usr/bin:/bin";
    let name = program.as_bytes();
    if name.contains(&b'/') {
        return vec![name.to_vec()];
    }
    let path = std::env::var_os("PATH").map_or_else(|| DEFAULT.to_vec(), OsStringExt::into_vec);
    let place = |directory: &[u8]| match directory {
        b"" => [b"./", name].concat(),
        _ => [directory, b"/", name].concat(),
    };
    path.split(|&b| b == b':').map(place).collect()
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
    poll: Poll,
    signals: Signals,
    relay: Relay,
    /// Our terminal, if standard input is one. Left as it was by drop.
    keyboard: Option<RawTerminal>,
    /// Where who started us tells its size.
    window: Option<File>,
    stdin: Option<Input>,
    stdin_ready: bool,
    stdout: Output,
    stdout_ready: bool,
    /// Why nobody takes output any more.
    lost: Option<io::Error>,
    /// None: hung up.
    pty: Option<Pty>,
    output_ready: bool,
    feed_ready: bool,
    /// How long it waits where nobody says when; set while it does.
    later: Option<Duration>,
    patience: Duration,
    program: Pid,
    ending: Option<Ending>,
}

impl Session {
    fn register(&self) -> Result<()> {
        self.watch(self.signals.as_raw_fd(), SIGNALS, Interest::READABLE)?;
        if let Some(stdin) = &self.stdin
            && !stdin.is_always_ready()
        {
            self.watch(stdin.as_raw_fd(), STDIN, Interest::READABLE)?;
        }
        if self.stdout.can_block() {
            self.watch(self.stdout.as_raw_fd(), STDOUT, Interest::WRITABLE)?;
        }
        if let Some(pty) = &self.pty {
            self.watch(pty.as_raw_fd(), TERMINAL, Interest::READABLE | Interest::WRITABLE)?;
        }
        Ok(())
    }

    fn watch(&self, fd: RawFd, token: Token, interest: Interest) -> Result<()> {
        watch(self.poll.registry(), fd, token, interest).context("cannot wait for a descriptor")
    }

    fn turn(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(8);
        let wait = self.wait();
        match self.poll.poll(&mut events, wait) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => result.context("cannot wait for events")?,
        }
        for event in &events {
            match event.token() {
                STDIN => self.stdin_ready = true,
                STDOUT => self.stdout_ready = true,
                TERMINAL => {
                    self.output_ready |= event.is_readable();
                    self.feed_ready |= event.is_writable();
                }
                _ => {}
            }
        }
        let pressed = events.is_empty() && self.later.is_some();
        if pressed {
            self.feed_ready = true;
            self.patience = PATIENCE[1].min(self.patience * 2);
        }
        for signal in self.signals.pending() {
            self.hear(signal)?;
        }
        self.read_stdin();
        self.feed(pressed);
        self.read_terminal();
        self.show();
        Ok(())
    }

    fn wait(&self) -> Option<Duration> {
        let background = self.stdin.as_ref().is_some_and(Input::is_in_background);
        let can_read = self.stdin_ready && self.relay.room_for_input() > 0;
        let can_move = (can_read && !background)
            || (self.feed_ready && self.relay.has_feed() && self.pty.is_some())
            || (self.output_ready && self.relay.room_for_output() > 0 && self.pty.is_some())
            || (self.stdout_ready && !self.relay.shown().is_empty());
        if can_move {
            return Some(Duration::ZERO);
        }
        let background = (can_read && background).then_some(BACKGROUND_INTERVAL);
        [self.later, background].into_iter().flatten().min()
    }

    fn hear(&mut self, signal: i32) -> Result<()> {
        match signal {
            libc::SIGCHLD => self.reap(),
            libc::SIGWINCH => {
                self.resize();
                Ok(())
            }
            libc::SIGHUP if self.keyboard.is_some() && !terminal::is_there() => {
                self.hang_up();
                Ok(())
            }
            _ => {
                self.pass_on(signal);
                Ok(())
            }
        }
    }

    /// To the new terminal's size that of ours, or the news that somebody has another one.
    fn resize(&self) {
        let size = pty::own_size().or_else(|| told_size(self.window.as_ref()));
        match (size, &self.pty) {
            (Some(size), Some(pty)) => drop(pty.set_size(size)),
            _ => self.pass_on(libc::SIGWINCH),
        }
    }

    fn foreground(&self) -> Pid {
        self.pty.as_ref().and_then(Pty::foreground).unwrap_or(self.program)
    }

    /// To the foreground of the new terminal.
    fn pass_on(&self, signal: i32) {
        if self.has_ended() {
            return;
        }
        let foreground = self.foreground();
        let _ = signals::send_to_group(foreground, signal);
        if signal == libc::SIGHUP && foreground != self.program {
            // Who leads the session has to know that it ends.
            let _ = signals::send_to_group(self.program, signal);
        }
        if signal == libc::SIGTSTP {
            self.stop_program();
        }
    }

    /// The number of a program that has been reaped may be somebody else's.
    fn has_ended(&self) -> bool {
        self.ending.is_some()
    }

    /// The kernel stops nobody by a key who has no parent in the session: it takes a signal that does not
    /// ask. Only where somebody can wake us, and for a program that leaves it to the system.
    fn stop_program(&self) {
        let is_alone = self.foreground() == getpgid(Some(self.program)).unwrap_or(self.program);
        let can_wake = self.keyboard.is_none() || terminal::has_job_control();
        if is_alone && can_wake && signals::is_default(self.program, Signal::SIGTSTP) {
            let _ = killpg(self.program, Signal::SIGSTOP);
        }
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
            Some(Fate::Killed(signal)) => Ending::Signal(signal),
        };
        self.ending = Some(ending);
        self.relay.end_program();
        self.stdin = None;
        self.output_ready = true;
        Ok(())
    }

    /// Stops with the program, and goes on with it.
    fn stop(&mut self) -> Result<()> {
        if !terminal::has_job_control() {
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

    fn hang_up(&mut self) {
        // Closing our end is what tells the program.
        self.pty = None;
        self.stdin = None;
        self.relay.hang_up();
    }

    fn read_stdin(&mut self) {
        let room = self.relay.room_for_input();
        let Some(stdin) = &self.stdin else { return };
        if !self.stdin_ready || room == 0 || stdin.is_in_background() {
            return;
        }
        let mut buffer = [0; AT_ONCE];
        match stdin.read(&mut buffer[..room.min(AT_ONCE)]) {
            Ok(n @ 1..) => self.relay.input(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                // What waits in a terminal that is not ours makes no new event.
                self.stdin_ready = stdin.is_in_background();
            }
            // A terminal that is ours has no end but its own.
            Ok(_) | Err(_) if self.keyboard.is_some() => self.hang_up(),
            Ok(_) | Err(_) => {
                self.relay.end_input();
                self.stdin = None;
            }
        }
    }

    /// Gives the terminal what it can take.
    fn feed(&mut self, pressed: bool) {
        let Some(pty) = &self.pty else { return };
        if !self.feed_ready || !self.relay.has_feed() {
            return;
        }
        let Ok(mode) = pty.mode() else { return };
        let (bytes, is_end) = match self.relay.feed(mode, pressed, || pty.is_read()) {
            Feed::Bytes(bytes) => (bytes, false),
            Feed::End(key) => (&[key][..], true),
            waiting @ (Feed::Nothing | Feed::WhenRead | Feed::Later) => {
                self.feed_ready = false;
                self.later = (waiting != Feed::Nothing).then_some(self.patience);
                return;
            }
        };
        self.later = None;
        let Ok(count) = pty.write(bytes) else {
            self.feed_ready = false;
            return;
        };
        let stops = self.keyboard.is_some() && presses_suspend(mode, &bytes[..count]);
        if is_end {
            self.relay.ended();
        } else {
            self.relay.fed(count);
            self.patience = PATIENCE[0];
        }
        if stops {
            self.stop_program();
        }
    }

    fn read_terminal(&mut self) {
        let Some(pty) = &self.pty else { return };
        let room = self.relay.room_for_output();
        if !self.output_ready || room == 0 {
            return;
        }
        let mut buffer = [0; AT_ONCE];
        match pty.read(&mut buffer[..room.min(AT_ONCE)]) {
            Ok(n @ 1..) => self.relay.output(&buffer[..n]),
            Ok(_) | Err(_) => {
                self.output_ready = false;
                self.relay.no_output();
            }
        }
    }

    fn show(&mut self) {
        if !self.stdout_ready || self.relay.shown().is_empty() {
            return;
        }
        match self.stdout.write(self.relay.shown()) {
            Ok(n) => self.relay.showed(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.stdout_ready = false,
            Err(e) => {
                self.lost = Some(e);
                self.relay.lose_reader();
                self.hang_up();
            }
        }
    }
}

fn presses_suspend(mode: Mode, bytes: &[u8]) -> bool {
    mode.signals && mode.suspend.is_some_and(|key| bytes.contains(&key))
}
