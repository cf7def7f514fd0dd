//! A terminal used by one program for a while: drawn in place, read key by key, and restored at the end.

use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

use crate::raw;

/// Switches to the alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The size for a terminal that does not report one.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// The terminal at standard input and output.
#[derive(Debug)]
pub struct Screen {
    before: Termios,
}

impl Screen {
    /// Takes the terminal; `None` if standard input or output is no terminal.
    ///
    /// # Errors
    /// The terminal refuses the settings.
    pub fn open() -> io::Result<Option<Self>> {
        let is_terminal = io::IsTerminal::is_terminal(&io::stdout());
        let before = match tcgetattr(io::stdin()) {
            Ok(before) if is_terminal => before,
            _ => return Ok(None),
        };
        let mut keys = before.clone();
        keys.local_flags &= !(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &keys)?;
        let screen = Self { before };
        write(ENTER)?;
        Ok(Some(screen))
    }

    /// Columns and lines.
    pub fn size(&self) -> (u16, u16) {
        match raw::window_size(io::stdout().as_raw_fd()) {
            Some((columns, lines)) if columns > 0 && lines > 0 => (columns, lines),
            _ => USUAL_SIZE,
        }
    }

    /// Shows these lines from the top, and nothing else. They must fit the size.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        write(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\n")))
    }

    /// The keys that were typed. Waits for the first one, so call it when there is something to read.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn keys(&self) -> io::Result<Vec<u8>> {
        let mut buffer = [0; 64];
        match nix::unistd::read(io::stdin(), &mut buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => Ok(buffer[..n].to_vec()),
            Err(Errno::EINTR | Errno::EAGAIN) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
