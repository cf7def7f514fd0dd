//! The helper process that finds users of shared memory, and its findings.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd as _;

use mio::unix::SourceFd;
use mio::{Interest, Token};
use mpd_wire::Rank;

use crate::manager::context::Turn;
use crate::manager::tokens::SHM_USERS;
use crate::users::{FileKind, Helper};

/// The running helper, if any, and its findings.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    pub(super) helper: Option<Helper>,
    /// Inodes of files that the job left and that are in use.
    pub(super) in_use: BTreeSet<u64>,
    /// Worlds whose ranks stay in their fence until the users of new files are known.
    pub(super) fences: Vec<Rank>,
}

impl Helpers {
    pub(super) const fn are_running(&self) -> bool {
        self.helper.is_some()
    }

    pub(super) fn stop(&mut self) {
        self.helper = None;
    }

    pub(super) fn start(&mut self, turn: &Turn<'_>, kind: FileKind, inodes: &[u64]) {
        self.helper = Helper::start(kind, inodes, turn.null)
            .and_then(|helper| {
                let fd = helper.as_raw_fd();
                turn.registry.register(&mut SourceFd(&fd), Token(SHM_USERS), Interest::READABLE)?;
                self.in_use.clear();
                Ok(helper)
            })
            .inspect_err(|e| log::warn!("cannot find the users of shared memory: {e:#}"))
            .ok();
    }
}
