//! A standard stream that this process inherited, used without blocking and without changing flags that other
//! processes share.
//!
//! A pipe or terminal is opened a second time through `/proc/self/fd`, which gives a descriptor with flags of its
//! own. A socket is used with `MSG_DONTWAIT`. A regular file never blocks. If the second opening is refused, the
//! descriptor is polled before each use.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::wait;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::PollFlags;
use nix::sys::stat::{FileStat, SFlag, fstat, major, minor};
use nix::unistd::isatty;

/// How the descriptor is used without blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// A file or `/dev/null`: it never blocks, and epoll does not accept it.
    File,
    /// Opened again by this process, non-blocking.
    Own,
    /// A socket, with flags per call.
    Socket,
    /// With flags shared with other processes: polled before each use.
    Polled,
}

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// A standard stream.
#[derive(Debug)]
pub(crate) struct Inherited {
    pub(crate) fd: OwnedFd,
    pub(crate) how: How,
    way: Way,
    /// Device and inode.
    pub(crate) identity: (u64, u64),
    pub(crate) is_terminal: bool,
    pub(crate) is_pipe: bool,
}

impl Inherited {
    /// Takes over `fd`.
    ///
    /// # Errors
    /// The kernel gives no status of the descriptor.
    pub(crate) fn new(fd: OwnedFd, way: Way) -> io::Result<Self> {
        let stat = fstat(&fd)?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        let (fd, how) = match kind {
            SFlag::S_IFSOCK => (fd, How::Socket),
            SFlag::S_IFCHR if is_null(&stat) && is_open_for(&fd, way) => (fd, How::File),
            SFlag::S_IFIFO | SFlag::S_IFCHR => match reopen(&fd, way) {
                Ok(own) => (own, How::Own),
                Err(_) => (fd, How::Polled),
            },
            _ => (fd, How::File),
        };
        let may_be_terminal = kind == SFlag::S_IFCHR && how != How::File;
        let is_terminal = may_be_terminal && isatty(&fd).unwrap_or(false);
        let identity = (stat.st_dev, stat.st_ino);
        Ok(Self { fd, how, way, identity, is_terminal, is_pipe: kind == SFlag::S_IFIFO })
    }

    /// Whether a read or write would not block now.
    pub(crate) fn is_ready(&self) -> io::Result<bool> {
        let wanted = match self.way {
            Way::In => PollFlags::POLLIN,
            Way::Out => PollFlags::POLLOUT,
        };
        wait::is_ready(&self.fd, wanted)
    }
}

/// Whether it is `/dev/null`.
fn is_null(stat: &FileStat) -> bool {
    (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3)
}

/// Whether the descriptor was opened for that direction.
fn is_open_for(fd: &OwnedFd, way: Way) -> bool {
    let wrong = match way {
        Way::In => OFlag::O_WRONLY,
        Way::Out => OFlag::O_RDONLY,
    };
    let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
    flags.is_ok_and(|flags| flags & OFlag::O_ACCMODE != wrong)
}

/// Opens the same file again, with an open file description of its own. So a flag set here does not affect other
/// processes.
fn reopen(fd: &impl AsFd, way: Way) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = OpenOptions::new();
    options.read(way == Way::In).write(way == Way::Out).custom_flags(flags.bits());
    Ok(options.open(path)?.into())
}

impl AsFd for Inherited {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Inherited {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
