//! Pseudo-terminals: a pair of ends, the settings of the user's terminal, and the terminal of this process.
//!
//! A terminal whose input comes from a pipe or file is set to `EXTPROC` (RFC 1143). Then the kernel passes the input
//! unchanged, and no key has a meaning, regardless of later settings by the program. One exception remains: in line
//! mode, an end-of-file key that a read finds alone is the end of the file.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::PollFlags;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{
    InputFlags, LocalFlags, OutputFlags, SetArg, SpecialCharacterIndices, Termios, cfmakeraw,
    tcgetattr, tcsetattr,
};
use nix::unistd::{Pid, getpgrp, read, tcgetpgrp, write};

pub use mpd_stdio::relay::Mode;

use crate::raw;
use crate::wait::is_ready;

/// Columns and lines of a terminal.
pub type Size = (u16, u16);

/// The size for a terminal that does not report one.
pub const USUAL_SIZE: Size = (80, 24);

/// The settings of a new terminal.
#[derive(Debug)]
pub struct Settings {
    /// The terminal to copy settings from. `None`: input comes from a pipe or file, so there is no echo.
    pub like: Option<Termios>,
    /// Whether ends of lines become carriage return and line feed, if `like` has that setting.
    pub processes_output: bool,
    pub size: Size,
}

/// A pseudo-terminal, with both ends open here.
#[derive(Debug)]
pub struct Pty {
    keys: PtyMaster,
    program: OwnedFd,
}

impl Pty {
    /// Opens a new pseudo-terminal.
    ///
    /// # Errors
    /// The system has no free pseudo-terminal, or does not support them.
    pub fn open(settings: &Settings) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let keys = posix_openpt(flags)?;
        grantpt(&keys)?;
        unlockpt(&keys)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
        let program = OwnedFd::from(options.open(ptsname_r(&keys)?)?);
        let terminal = Self { keys, program };
        let mut termios = match &settings.like {
            Some(like) => like.clone(),
            None => piped(tcgetattr(&terminal.program)?),
        };
        if !settings.processes_output {
            termios.output_flags.remove(OutputFlags::OPOST);
        }
        tcsetattr(&terminal.program, SetArg::TCSANOW, &termios)?;
        terminal.set_size(settings.size)?;
        Ok(terminal)
    }

    /// The end for the program that uses the terminal.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Sets the size. If it differs, the processes in the foreground get `SIGWINCH`.
    ///
    /// # Errors
    /// The system's.
    pub fn set_size(&self, size: Size) -> io::Result<()> {
        resize(self.keys.as_fd(), size)
    }

    /// The process group in the foreground.
    pub fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.keys).ok().filter(|group| group.as_raw() > 0)
    }

    /// What keys cause now.
    ///
    /// # Errors
    /// The system's.
    pub fn mode(&self) -> io::Result<Mode> {
        const DISABLED: u8 = 0;
        let termios = tcgetattr(&self.program)?;
        let flags = termios.local_flags;
        let key = |index: SpecialCharacterIndices| {
            Some(termios.control_chars[index as usize]).filter(|&key| key != DISABLED)
        };
        Ok(Mode {
            lines: flags.contains(LocalFlags::ICANON),
            signals: flags.contains(LocalFlags::ISIG),
            end: key(SpecialCharacterIndices::VEOF),
            suspend: key(SpecialCharacterIndices::VSUSP),
        })
    }

    /// Whether the program has read all bytes written here; in line mode without the unfinished line. When the program
    /// has read nearly all bytes, this end becomes writable again.
    pub fn is_read(&self) -> bool {
        // The poll comes first: it makes the kernel deliver bytes on their way.
        is_ready(&self.program, PollFlags::POLLIN).is_ok_and(|is_ready| !is_ready)
            && raw::readable_bytes(self.program.as_raw_fd()).is_ok_and(|count| count == 0)
    }

    /// Reads output of the program.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing, or the system's.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| read(&self.keys, buffer))
    }

    /// Writes as many bytes as fit now.
    ///
    /// # Errors
    /// `WouldBlock`, or the system's.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        retry(|| write(&self.keys, bytes))
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.keys.as_fd()
    }
}

impl AsRawFd for Pty {
    fn as_raw_fd(&self) -> RawFd {
        self.keys.as_raw_fd()
    }
}

/// Settings for input from a pipe or file, with `EXTPROC`.
fn piped(mut termios: Termios) -> Termios {
    termios.input_flags.insert(InputFlags::IUTF8);
    termios.local_flags.remove(LocalFlags::ECHO);
    termios.local_flags.insert(LocalFlags::EXTPROC);
    termios
}

fn retry(mut call: impl FnMut() -> nix::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

/// The size of the terminal at standard input, else output, else error.
pub fn own_size() -> Option<Size> {
    let mut sizes = (0..=2).filter_map(raw::window_size);
    sizes.find(|&(columns, lines)| columns > 0 && lines > 0)
}

/// Sets the size of a terminal, as its emulator does. The foreground processes get `SIGWINCH`.
///
/// # Errors
/// The system's.
pub fn resize(terminal: BorrowedFd<'_>, size: Size) -> io::Result<()> {
    raw::set_window_size(terminal.as_raw_fd(), size)
}

/// The size that `COLUMNS` and `LINES` state, else the usual one.
pub fn size_of_environment() -> Size {
    let number = |name| std::env::var(name).ok()?.parse().ok().filter(|&n: &u16| n > 0);
    let (columns, lines) = USUAL_SIZE;
    (number("COLUMNS").unwrap_or(columns), number("LINES").unwrap_or(lines))
}

/// The terminal at standard input, set to pass keys unchanged until this value is dropped.
#[derive(Debug)]
pub struct RawTerminal {
    before: Termios,
    raw: Termios,
}

impl RawTerminal {
    /// Sets the terminal. `None` if standard input is no terminal, or one with `EXTPROC`, such as a [`Pty`]. Output
    /// is not processed unless `processes_output`. A process in the background waits here for the foreground.
    ///
    /// # Errors
    /// The terminal refuses the settings.
    pub fn open(processes_output: bool) -> io::Result<Option<Self>> {
        let Ok(before) = tcgetattr(io::stdin()) else { return Ok(None) };
        if before.local_flags.contains(LocalFlags::EXTPROC) {
            return Ok(None);
        }
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        if processes_output {
            raw.output_flags = before.output_flags;
        }
        let terminal = Self { before, raw };
        terminal.enter()?;
        Ok(Some(terminal))
    }

    /// The settings before this value was made.
    pub fn before(&self) -> &Termios {
        &self.before
    }

    /// Sets the terminal again.
    ///
    /// # Errors
    /// The terminal refuses the settings.
    pub fn enter(&self) -> io::Result<()> {
        loop {
            match tcsetattr(io::stdin(), SetArg::TCSANOW, &self.raw) {
                Err(Errno::EINTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Restores the former settings, unless the terminal belongs to another process group now.
    pub fn leave(&self) {
        // Without a controlling terminal there is no foreground.
        let is_of_others = tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground != getpgrp());
        if !is_of_others {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.leave();
    }
}
