//! Ranks that run alone: each is rank 0 of 1, since its MPI library does not speak PMI (see [`mpd_io::process::without_pmi`]).

use std::os::fd::{AsRawFd as _, BorrowedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_wire::Rank;
use nix::unistd::Pid;

use crate::manager::tokens::MPI_USERS;
use crate::mpi_users::Search;

/// The search for such ranks.
#[derive(Debug, Default)]
pub(super) struct Alone {
    search: Option<Search>,
    /// The search is over: a rank has spoken PMI, a rank that runs alone was found, or the job ends.
    is_decided: bool,
}

impl Alone {
    /// Ends the search for good.
    pub(super) fn end(&mut self) {
        self.search = None;
        self.is_decided = true;
    }

    /// Ends the running helper.
    pub(super) fn pause(&mut self) {
        self.search = None;
    }

    pub(super) const fn is_decided(&self) -> bool {
        self.is_decided
    }

    /// Starts a helper that examines these ranks, unless one is running.
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
            .inspect_err(|e| log::warn!("cannot find the MPI libraries of ranks: {e:#}"))
            .ok();
    }

    /// The finding of a helper that has ended: a rank and its library.
    pub(super) fn take_found(&mut self) -> Option<(Rank, String)> {
        let found = self.search.as_mut().and_then(Search::receive)?;
        self.search = None;
        self.is_decided |= found.is_some();
        found
    }
}
