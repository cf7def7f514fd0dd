//! Ranks that run alone: each is rank 0 of 1, because their MPI library does not speak PMI (see [`mpd_io::alone`]).

use std::os::fd::{AsRawFd as _, BorrowedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_wire::Rank;
use nix::unistd::Pid;

use crate::alone::Search;
use crate::manager::tokens::MPI_USERS;

/// The looks for such ranks.
#[derive(Debug, Default)]
pub(super) struct Alone {
    search: Option<Search>,
    /// A rank has spoken PMI, or one that runs alone was found, or the job ends.
    is_decided: bool,
}

impl Alone {
    /// Nothing is looked for any more.
    pub(super) fn end(&mut self) {
        self.search = None;
        self.is_decided = true;
    }

    /// The helper that is at work goes.
    pub(super) fn pause(&mut self) {
        self.search = None;
    }

    pub(super) const fn is_decided(&self) -> bool {
        self.is_decided
    }

    /// Has a helper look at these ranks, unless one is at work.
    pub(super) fn search(
        &mut self,
        ranks: Vec<(Rank, Pid)>,
        registry: &Registry,
        null: BorrowedFd<'_>,
    ) {
        if self.search.is_some() || ranks.is_empty() {
            return;
        }
        self.search = Search::start(ranks, null)
            .and_then(|search| {
                let fd = search.as_raw_fd();
                registry.register(&mut SourceFd(&fd), Token(MPI_USERS), Interest::READABLE)?;
                Ok(search)
            })
            .inspect_err(|e| log::warn!("cannot find out which MPI library ranks use: {e:#}"))
            .ok();
    }

    /// What the helper has found, if it has ended: a rank and its library.
    pub(super) fn take_found(&mut self) -> Option<(Rank, String)> {
        let found = self.search.as_mut().and_then(Search::hear)?;
        self.search = None;
        self.is_decided |= found.is_some();
        found
    }
}
