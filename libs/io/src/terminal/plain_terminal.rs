//! A terminal for a program that is debugged.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{
    ControlFlags, InputFlags, LocalFlags, OutputFlags, SetArg, SpecialCharacterIndices, tcgetattr,
    tcsetattr,
};
use nix::unistd::ttyname;

/// The size that programs read from this terminal.
const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// No control character.
const NONE: u8 = 0;

/// A terminal: our end, and the path of the other end.
#[derive(Debug)]
pub struct Pair {
    /// Non-blocking and close-on-exec.
    pub master: OwnedFd,
    /// Path of the other end.
    pub slave: PathBuf,
}

/// A new terminal. Its settings last until its other end is closed. The process that opens the other end again sets
/// them with [`make_plain`].
///
/// # Errors
/// Those of the system.
pub fn open() -> io::Result<Pair> {
    let pair = openpty(&SIZE, None)?;
    let path = ttyname(&pair.slave)?;
    fcntl(&pair.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    fcntl(&pair.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(Pair { master: pair.master, slave: path })
}

/// Sets the terminal at `fd` to pass bytes unchanged. Input is still read by lines, and Control-D ends it. The
/// terminal echoes nothing, and no byte causes a signal.
///
/// # Errors
/// The descriptor is no terminal.
pub fn make_plain(fd: impl AsFd) -> io::Result<()> {
    let mut settings = tcgetattr(&fd)?;
    settings.input_flags = InputFlags::empty();
    settings.output_flags = OutputFlags::empty();
    settings.control_flags.remove(ControlFlags::CSIZE | ControlFlags::PARENB);
    settings.control_flags.insert(ControlFlags::CS8);
    settings.local_flags = LocalFlags::ICANON;
    settings.control_chars.fill(NONE);
    settings.control_chars[SpecialCharacterIndices::VEOF as usize] = 4;
    tcsetattr(&fd, SetArg::TCSANOW, &settings)?;
    Ok(())
}

/// Whether a read or write failed because the other end is not open.
pub fn is_closed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
}

impl AsRawFd for Pair {
    fn as_raw_fd(&self) -> RawFd {
        self.master.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_plain_terminal_passes_bytes_unchanged_and_lines_of_input_with_an_end() {
        let pair = open().unwrap();
        let mut slave = OpenOptions::new().read(true).write(true).open(&pair.slave).unwrap();
        make_plain(&slave).unwrap();
        let mut master = File::from(pair.master);
        slave.write_all(b"a\nb\x03\r\n").unwrap();
        let mut bytes = [0; 16];
        assert_eq!(master.read(&mut bytes).unwrap(), 6);
        assert_eq!(&bytes[..6], b"a\nb\x03\r\n");
        master.write_all(b"in\x03\x7f\n\x04").unwrap();
        assert_eq!(slave.read(&mut bytes).unwrap(), 5);
        assert_eq!(slave.read(&mut bytes).unwrap(), 0);
        assert_eq!(master.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(slave);
        assert!(is_closed(&master.read(&mut bytes).unwrap_err()));
    }
}
