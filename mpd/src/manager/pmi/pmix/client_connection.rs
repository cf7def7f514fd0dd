//! The connections of PMIx clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_wire::Rank;
use mpd_wire::job::MpiLibrary;
use pmix_proto::Session;

use super::listener::Listener;
use crate::manager::pmi::transfer::{ReadProgress, flush, read};

/// All connections, and the port where they arrive.
#[derive(Debug, Default)]
pub(super) struct Clients {
    pub(super) listener: Option<Listener>,
    /// A socket that is not used yet.
    pub(super) bound: Option<TcpListener>,
    /// By token, as counted from the first.
    pub(super) connections: BTreeMap<usize, ClientConnection>,
    pub(super) next: usize,
    /// The connection of each client.
    pub(super) admitted: BTreeMap<Rank, usize>,
    /// Connections with unread data.
    pub(super) talking: VecDeque<usize>,
    /// Connections with answers to write.
    pub(super) answering: BTreeSet<usize>,
}

/// One connection. It has a rank once it is admitted.
#[derive(Debug)]
pub(super) struct ClientConnection {
    stream: TcpStream,
    pub(super) session: Session,
    pub(super) rank: Option<Rank>,
    /// Its MPI library, as far as its commits have shown it.
    pub(super) library: Option<MpiLibrary>,
    /// Gets that were answered with data.
    pub(super) gets: u32,
    /// Whether the user has a report of events that it misses.
    pub(super) misses_events: bool,
    /// The client has received the data of all ranks of a world.
    pub(super) has_all: bool,
    /// It is not read until its rank is within its budget.
    is_held: bool,
    /// The client has closed its end, so the end of the stream is to be read.
    pub(super) is_ending: bool,
}

impl ClientConnection {
    /// An accepted connection, whose events have that token.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn new(registry: &Registry, token: usize, stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&stream.as_raw_fd()), Token(token), both)?;
        Ok(Self {
            stream,
            session: Session::new(),
            rank: None,
            library: None,
            gets: 0,
            misses_events: false,
            has_all: false,
            is_held: false,
            is_ending: false,
        })
    }

    /// Whether nothing is to be read now, because the requests of the client that wait use its budget.
    pub(super) const fn waits_for_budget(&mut self) -> bool {
        self.is_held = !self.is_ending && self.session.is_over_budget();
        self.is_held
    }

    /// Whether the client is to be read again, since some of its requests were answered.
    pub(super) const fn may_continue(&mut self) -> bool {
        let may = self.is_held && !self.session.is_over_budget();
        self.is_held &= !may;
        may
    }

    /// Reads once.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> ReadProgress {
        read(&mut self.stream, buffer, self.is_ending, |bytes| self.session.receive(bytes))
    }

    /// Writes the output of the session as far as the client accepts it.
    pub(super) fn flush(&mut self) {
        flush(&mut self.stream, &mut self.session, Session::output, Session::consume);
    }
}
