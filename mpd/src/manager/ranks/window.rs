//! The size of the terminals that ranks have here: four bytes in memory that each `pty` of theirs shares,
//! columns and lines in network order, none before the first change. `SIGWINCH` says that they changed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use mpd_wire::job::JobSpec;
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Where it stands.
#[derive(Debug)]
pub(crate) struct Window {
    memory: File,
}

impl Window {
    /// None if no rank has a terminal.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn of(spec: &JobSpec) -> io::Result<Option<Self>> {
        if spec.argsets.iter().all(|argset| argset.pty.is_none()) {
            return Ok(None);
        }
        let memory = memfd_create(c"mpd-window", MFdFlags::MFD_CLOEXEC)?;
        Ok(Some(Self { memory: File::from(memory) }))
    }

    /// Columns and lines from now on.
    pub(crate) fn set(&self, (columns, lines): (u16, u16)) {
        let [a, b] = columns.to_be_bytes();
        let [c, d] = lines.to_be_bytes();
        // Memory for four bytes is there.
        let _ = self.memory.write_all_at(&[a, b, c, d], 0);
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}
