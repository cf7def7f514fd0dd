//! A pseudo-terminal, with the standard input and output that it is connected to. `pty` and the launcher shim use it.
//! [`Relay`] decides; this module has the descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid};

use crate::files::input::Input;
use crate::files::output::Output;
use crate::process::signals;
use crate::terminal::pty::{Pty, Size};
use mpd_stdio::relay::{Feed, Relay};

const STDIN: u64 = 0;
const STDOUT: u64 = 1;
const TERMINAL: u64 = 2;

/// While input waits: the interval at which a terminal of another process group is checked again.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(200);

/// The time after which the end of input is tried again, because no event reports new settings of the program's
/// terminal. The time doubles, up to the second value.
const PATIENCE: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Most bytes of one read.
const AT_ONCE: usize = 16 << 10;

/// A terminal and its relay.
#[derive(Debug)]
pub struct PtyRelay {
    epoll: Epoll,
    relay: Relay,
    /// Whether a user types at standard input.
    typed: bool,
    stdin: Option<Input>,
    stdout: Output,
    /// `None` after a hang-up.
    pty: Option<Pty>,
    ready: Ready,
    later: Later,
    /// The error that ended writing to standard output.
    lost: Option<io::Error>,
}

/// Descriptors that had an event since they last blocked.
#[derive(Debug)]
struct Ready {
    stdin: bool,
    stdout: bool,
    output: bool,
    feed: bool,
}

/// The next attempt to write to a terminal that sends no event.
#[derive(Debug)]
struct Later {
    at: Option<Instant>,
    patience: Duration,
}

impl PtyRelay {
    /// Relays between the terminal and these streams.
    ///
    /// # Errors
    /// The system's.
    pub fn new(pty: Pty, (stdin, stdout): (Input, Output), typed: bool) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let (readable, writable) = (EpollFlags::EPOLLIN, EpollFlags::EPOLLOUT);
        if !stdin.is_always_ready() {
            watch(&epoll, stdin.as_fd(), STDIN, readable)?;
        }
        if stdout.can_block() {
            watch(&epoll, stdout.as_fd(), STDOUT, writable)?;
        }
        watch(&epoll, pty.as_fd(), TERMINAL, readable | writable)?;
        Ok(Self {
            epoll,
            relay: Relay::new(typed),
            typed,
            stdin: Some(stdin),
            stdout,
            pty: Some(pty),
            ready: Ready { stdin: true, stdout: true, output: true, feed: true },
            later: Later { at: None, patience: PATIENCE[0] },
            lost: None,
        })
    }

    /// The time after which [`PtyRelay::turn`] is due without an event of its descriptor.
    pub fn wait(&self) -> Option<Duration> {
        let background = self.stdin.as_ref().is_some_and(Input::is_in_background);
        let can_read = self.ready.stdin && self.stdin.is_some() && self.relay.room_for_input() > 0;
        let has_pty = self.pty.is_some();
        let can_move = (can_read && !background)
            || (self.ready.feed && self.relay.has_feed() && has_pty)
            || (self.ready.output && self.relay.room_for_output() > 0 && has_pty)
            || (self.ready.stdout && !self.relay.shown().is_empty());
        if can_move {
            return Some(Duration::ZERO);
        }
        let later = self.later.at.map(|at| at.saturating_duration_since(Instant::now()));
        let background = (can_read && background).then_some(BACKGROUND_INTERVAL);
        [later, background].into_iter().flatten().min()
    }

    /// Moves the bytes that can be moved. Returns whether a key was pressed that stops programs.
    pub fn turn(&mut self) -> bool {
        let any = self.take_events();
        let pressed = !any && self.later.at.is_some_and(|at| at <= Instant::now());
        if pressed {
            self.ready.feed = true;
            self.later.patience = PATIENCE[1].min(self.later.patience * 2);
        }
        self.read_stdin();
        let stops = self.feed(pressed);
        self.read_terminal();
        self.show();
        stops
    }

    fn take_events(&mut self) -> bool {
        let mut events = [EpollEvent::empty(); 8];
        let count = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for event in &events[..count] {
            let readable = !event.events().intersection(!EpollFlags::EPOLLOUT).is_empty();
            match event.data() {
                STDIN => self.ready.stdin = true,
                STDOUT => self.ready.stdout = true,
                _ => {
                    self.ready.output |= readable;
                    self.ready.feed |= event.events().contains(EpollFlags::EPOLLOUT);
                }
            }
        }
        count > 0
    }

    /// Sets the size. Returns whether there is a terminal.
    pub fn resize(&self, size: Size) -> bool {
        self.pty.as_ref().is_some_and(|pty| {
            let _ = pty.set_size(size);
            true
        })
    }

    /// The program has ended; its output is still passed on.
    pub fn end_program(&mut self) {
        self.relay.end_program();
        self.stdin = None;
        self.ready.output = true;
    }

    /// The terminal hangs up.
    pub fn hang_up(&mut self) {
        // The program detects that this end is closed.
        self.pty = None;
        self.stdin = None;
        self.relay.hang_up();
    }

    /// Whether the program has ended, and all its output was passed on.
    pub fn is_over(&self) -> bool {
        self.relay.is_over()
    }

    /// The error that ended writing to standard output, if there is one.
    pub const fn lost(&self) -> Option<&io::Error> {
        self.lost.as_ref()
    }

    // ----- signals -----

    fn foreground(&self, program: Pid) -> Pid {
        self.pty.as_ref().and_then(Pty::foreground).unwrap_or(program)
    }

    /// Sends a signal to the foreground of the terminal. `program` leads its session, and was not
    /// reaped yet. `can_wake`: a stopped program can be continued.
    pub fn pass_on(&self, program: Pid, signal: i32, can_wake: bool) {
        let foreground = self.foreground(program);
        let _ = signals::send_to_group(foreground, signal);
        if signal == libc::SIGHUP && foreground != program {
            // The leader of the session also gets the signal, because its session ends.
            let _ = signals::send_to_group(program, signal);
        }
        if signal == libc::SIGTSTP {
            self.stop(program, can_wake);
        }
    }

    /// Stops the foreground. The kernel ignores SIGTSTP for a process without a parent in its session, so such a
    /// program gets SIGSTOP. SIGSTOP is sent only if the program can be continued and has not changed its action for
    /// SIGTSTP.
    pub fn stop(&self, program: Pid, can_wake: bool) {
        let is_alone = self.foreground(program) == getpgid(Some(program)).unwrap_or(program);
        if is_alone && can_wake && signals::is_default(program, Signal::SIGTSTP) {
            let _ = killpg(program, Signal::SIGSTOP);
        }
    }

    // ----- bytes -----

    fn read_stdin(&mut self) {
        let room = self.relay.room_for_input();
        let Some(stdin) = &self.stdin else { return };
        if !self.ready.stdin || room == 0 || stdin.is_in_background() {
            return;
        }
        let mut buffer = [0; AT_ONCE];
        match stdin.read(&mut buffer[..room.min(AT_ONCE)]) {
            Ok(n @ 1..) => self.relay.input(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                // Input that waits in the terminal of another group causes no new event.
                self.ready.stdin = stdin.is_in_background();
            }
            // The end of a user's terminal is a hang-up.
            Ok(_) | Err(_) if self.typed => self.hang_up(),
            Ok(_) | Err(_) => {
                self.relay.end_input();
                self.stdin = None;
            }
        }
    }

    /// Writes as many bytes to the terminal as it accepts.
    fn feed(&mut self, pressed: bool) -> bool {
        let Some(pty) = &self.pty else { return false };
        if !self.ready.feed || !self.relay.has_feed() {
            return false;
        }
        let Ok(mode) = pty.mode() else { return false };
        let (bytes, is_end) = match self.relay.feed(mode, pressed, || pty.is_read()) {
            Feed::Bytes(bytes) => (bytes, false),
            Feed::End(key) => (&[key][..], true),
            waiting @ (Feed::Nothing | Feed::WhenRead | Feed::Later) => {
                self.ready.feed = false;
                let patience = self.later.patience;
                self.later.at = (waiting != Feed::Nothing).then(|| Instant::now() + patience);
                return false;
            }
        };
        self.later.at = None;
        let Ok(count) = pty.write(bytes) else {
            self.ready.feed = false;
            return false;
        };
        let stops = self.typed && mode.presses_suspend(&bytes[..count]);
        if is_end {
            self.relay.ended();
        } else {
            self.relay.fed(count);
            self.later.patience = PATIENCE[0];
        }
        stops
    }

    fn read_terminal(&mut self) {
        let Some(pty) = &self.pty else { return };
        let room = self.relay.room_for_output();
        if !self.ready.output || room == 0 {
            return;
        }
        let mut buffer = [0; AT_ONCE];
        match pty.read(&mut buffer[..room.min(AT_ONCE)]) {
            Ok(n @ 1..) => self.relay.output(&buffer[..n]),
            Ok(_) | Err(_) => {
                self.ready.output = false;
                self.relay.no_output();
            }
        }
    }

    fn show(&mut self) {
        if !self.ready.stdout || self.relay.shown().is_empty() {
            return;
        }
        match self.stdout.write(self.relay.shown()) {
            Ok(n) => self.relay.showed(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.ready.stdout = false,
            Err(e) => {
                self.lost = Some(e);
                self.relay.lose_reader();
                self.hang_up();
            }
        }
    }
}

impl AsFd for PtyRelay {
    /// Readable when a turn is due.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

/// A descriptor like `/dev/null` is always ready, and has no events.
fn watch(epoll: &Epoll, fd: BorrowedFd<'_>, token: u64, flags: EpollFlags) -> io::Result<()> {
    debug_assert!(fd.as_raw_fd() >= 0 && token <= TERMINAL);
    match epoll.add(fd, EpollEvent::new(flags | EpollFlags::EPOLLET, token)) {
        Err(Errno::EPERM) => Ok(()),
        result => Ok(result?),
    }
}
