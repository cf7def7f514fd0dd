//! Ranks that run alone: each is rank 0 of 1, because their MPI library does not speak PMI (see [`mpd_io::alone`]).

use std::os::fd::{AsFd as _, AsRawFd as _};

use mio::unix::SourceFd;
use mio::{Interest, Token};
use mpd_job::manager::Input;
use mpd_wire::Rank;
use nix::unistd::Pid;

use super::clients::Client;
use super::{FIRST_LOOK, MPI_USERS, Process, Timer};
use crate::alone::Search;

/// Intervals between looks are doubled so often, up to 10 s.
const MOST_DOUBLINGS: u8 = 9;

/// The looks for such ranks.
#[derive(Debug, Default)]
pub(super) struct Alone {
    search: Option<Search>,
    /// A rank has spoken PMI, or one that runs alone was found.
    is_decided: bool,
}

impl Alone {
    /// A rank of the first world has spoken PMI.
    pub(super) fn end(&mut self) {
        self.search = None;
        self.is_decided = true;
    }

    /// The helper that is at work goes.
    pub(super) fn pause(&mut self) {
        self.search = None;
    }
}

impl Process {
    /// The ranks run. A rank of a world of one is rank 0 of 1, and ranks under our debugger are the user's to judge.
    pub(super) fn watch_loners(&mut self) {
        let spec = &self.spec;
        if spec.size() > 1 && spec.debug.is_none() && !spec.allow_alone {
            self.timers.set(Timer::Alone(0), self.now() + FIRST_LOOK);
        }
    }

    /// It is time for the next look.
    pub(super) fn look_for_loners(&mut self, looks: u8) {
        if self.alone.is_decided || self.ending {
            return;
        }
        if self.alone.search.is_none() && !self.deadly.is_coming() && !self.stopping {
            self.search_loners();
        }
        let next = (looks + 1).min(MOST_DOUBLINGS);
        self.timers.set(Timer::Alone(next), self.now() + FIRST_LOOK * (1 << next));
    }

    fn search_loners(&mut self) {
        let size = self.spec.size();
        let first_world = self.clients.started().filter(|(rank, _)| rank.0 < size);
        let living = |(rank, client): (Rank, &Client)| Some((rank, client.child()?));
        let ranks: Vec<(Rank, Pid)> = first_world.filter_map(living).collect();
        if ranks.is_empty() {
            return;
        }
        self.alone.search = Search::start(ranks, self.null.as_fd())
            .and_then(|search| {
                let fd = search.as_raw_fd();
                let registry = self.poll.registry();
                registry.register(&mut SourceFd(&fd), Token(MPI_USERS), Interest::READABLE)?;
                Ok(search)
            })
            .inspect_err(|e| log::warn!("cannot find out which MPI library ranks use: {e:#}"))
            .ok();
    }

    /// Hears what the helper has found, if it has ended.
    pub(super) fn hear_of_loners(&mut self) {
        let Some(found) = self.alone.search.as_mut().and_then(Search::hear) else { return };
        self.alone.search = None;
        let Some((rank, library)) = found else { return };
        log::info!("rank {}: uses {library} without PMI", self.name_of(rank));
        self.alone.is_decided = true;
        self.post(Input::Alone(rank, library));
    }

    /// A rank has spoken PMI. Those of other worlds say nothing of the first.
    pub(super) fn note_speaker(&mut self, rank: Rank) {
        if rank.0 < self.spec.size() {
            self.alone.end();
        }
    }
}
