//! A process that is no child of this one, held so that no other process is mistaken for it.
//!
//! The number of such a process may be given to another process at any time. A pidfd refers to the process for which
//! it was opened, also after it was passed on.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::poll::PollFlags;
use nix::unistd::Pid;

use crate::raw;
use crate::wait::until_ready;

/// A process, held by a pidfd.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// The process that has this number now.
    ///
    /// # Errors
    /// There is no such process, or the kernel knows no pidfds.
    pub fn open(pid: Pid) -> io::Result<Self> {
        raw::pidfd_open(pid.as_raw().unsigned_abs()).map(Self)
    }

    /// Takes a pidfd that another process has opened.
    ///
    /// # Errors
    /// The descriptor is not a pidfd.
    pub fn received(fd: OwnedFd) -> io::Result<Self> {
        let pidfd = Self(fd);
        match pidfd.line()? {
            Some(_) => Ok(pidfd),
            None => Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no pidfd")),
        }
    }

    /// The number of the process; `None` when it has ended and was reaped.
    pub fn pid(&self) -> Option<Pid> {
        let number: i32 = self.line().ok().flatten()?.trim().parse().ok()?;
        (number > 0).then(|| Pid::from_raw(number))
    }

    /// Whether the process has ended.
    pub fn is_over(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Waits for the end of the process, at most `patience`. Returns whether it has ended.
    pub fn wait(&self, patience: Duration) -> bool {
        matches!(until_ready(&self.0, PollFlags::POLLIN, Some(patience)), Ok(true))
    }

    /// Sends the process a signal.
    ///
    /// # Errors
    /// The process is gone, or this process may not send it signals.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        raw::pidfd_signal(self.0.as_raw_fd(), signal)
    }

    /// The line of the kernel about the process of a pidfd; `None` for other descriptors.
    fn line(&self) -> io::Result<Option<String>> {
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", self.0.as_raw_fd()))?;
        Ok(text.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::to_owned))
    }
}

impl AsRawFd for Pidfd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Pidfd> for OwnedFd {
    fn from(pidfd: Pidfd) -> Self {
        pidfd.0
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_known_until_its_end_and_never_mistaken() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let pidfd = Pidfd::open(pid).unwrap();
        assert_eq!((pidfd.pid(), pidfd.is_over()), (Some(pid), false));
        assert!(!pidfd.wait(Duration::from_millis(1)));
        pidfd.signal(libc::SIGKILL).unwrap();
        child.wait().unwrap();
        assert_eq!((pidfd.pid(), pidfd.is_over()), (None, true));
        assert!(pidfd.signal(libc::SIGKILL).is_err());
        assert!(Pidfd::received(pidfd.into()).is_ok());
        assert!(Pidfd::received(fs::File::open("/dev/null").unwrap().into()).is_err());
    }
}
