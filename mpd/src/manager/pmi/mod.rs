//! The connections of the ranks' PMI and PMIx clients. The machine of `mpd-clients` decides what their bytes mean; this
//! module reads and writes them, listens for PMIx clients, and performs the machine's outputs.
//!
//! | module | has |
//! |---|---|
//! | [`listener`] | the listening socket for PMIx clients |
//! | [`stream`] | the connection of one client |
//! | [`transfer`] | reads and writes on connections of clients |

mod listener;
mod stream;
mod transfer;

use std::collections::{BTreeMap, VecDeque};
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use mio::event::Event as Ready;
use mpd_clients::{
    Accepted, Action, Client, Clients, ConnectionId, FromClient, Input, Level, Room,
};
use mpd_wire::Rank;

use self::listener::{Arrived, Listener};
use self::stream::{PmiStream, PmixStream};
use self::transfer::{ReadProgress, flush, read};
use super::context::Turn;
use super::pmi_socket::PmiSocket;
use super::tokens::{FIRST_PMIX, PMIX};

/// Most bytes of one read of PMI, and of PMIx.
const READ_BYTES: usize = 16 * 1024;
const READ_BYTES_PMIX: usize = 64 * 1024;

/// Most reads of a rank that has ended. Other processes may still write to its connection.
const MAX_READS: usize = 64;

/// The connections of clients, and the machine that decides about them.
#[derive(Debug)]
pub(super) struct Pmi {
    streams: BTreeMap<Rank, PmiStream>,
    /// By token, as counted from the first.
    pmix_streams: BTreeMap<usize, PmixStream>,
    /// The number of the next PMIx connection.
    next: usize,
    listener: Option<Listener>,
    /// A socket that is not used yet.
    bound: Option<TcpListener>,
    /// Connections with unread data.
    talking: VecDeque<Rank>,
    pmix_talking: VecDeque<usize>,
    /// Connections of which the machine wants to know more before it decides.
    probes: VecDeque<usize>,
    /// The listening socket is to be watched again.
    is_to_listen: bool,
    /// For reads. A new one for each read would have to be cleared, which takes longer than a short request.
    buffer: Vec<u8>,
}

impl Pmi {
    /// `listener` is for PMIx clients, if there is one already.
    pub(super) fn new(listener: Option<TcpListener>) -> Self {
        Self {
            streams: BTreeMap::new(),
            pmix_streams: BTreeMap::new(),
            next: 0,
            listener: None,
            bound: listener,
            talking: VecDeque::new(),
            pmix_talking: VecDeque::new(),
            probes: VecDeque::new(),
            is_to_listen: false,
            buffer: vec![0; READ_BYTES],
        }
    }

    pub(super) fn has_work(&self, clients: &Clients) -> bool {
        let has_arrivals = self.listener.as_ref().is_some_and(|it| it.is_ready);
        !self.talking.is_empty()
            || (!clients.is_paused()
                && (!self.pmix_talking.is_empty() || (has_arrivals && clients.may_accept())))
    }

    // ----- the machine -----

    /// Gives the machine an input, and performs its actions.
    fn give(&mut self, turn: &mut Turn<'_>, input: Input<'_>) {
        turn.lending.give_clients(turn.clock.now(), input);
        self.settle(turn);
    }

    /// Performs all actions. Then it resumes the listener or reads a probed connection, until nothing is left.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            while let Some(action) = turn.lending.next_of_clients(turn.clock.now()) {
                self.perform(turn, action);
            }
            if std::mem::take(&mut self.is_to_listen) {
                self.listen(turn);
            } else if let Some(number) = self.probes.pop_front() {
                self.read_pmix(turn, number);
                self.give(turn, Input::Probed(number));
            } else {
                return;
            }
        }
    }

    pub(super) fn perform(&mut self, turn: &mut Turn<'_>, action: Action) {
        match action {
            Action::Resume(number) => self.pmix_talking.push_back(number),
            Action::ResumeAll => self.talking.extend(self.streams.keys()),
            Action::Probe(number) => self.probes.push_back(number),
            Action::Close(ConnectionId::Pmi(rank)) => drop(self.streams.remove(&rank)),
            Action::Close(ConnectionId::Pmix(number)) => drop(self.pmix_streams.remove(&number)),
            Action::Rest => self.listener.iter_mut().for_each(|it| it.rest(turn.registry)),
            Action::Listen => self.is_to_listen = true,
            Action::MakeDirectory(path) => {
                if let Err(e) = private_directory(&path) {
                    log::warn!("cannot make {}: {e}", path.display());
                }
            }
            Action::Log(level, text) => log::log!(level_of(level), "{text}"),
        }
    }

    // ----- PMIx connections that arrive -----

    /// Listens for PMIx clients, since ranks are about to start. Returns the port.
    pub(super) fn go(&mut self, turn: &mut Turn<'_>) -> Option<u16> {
        let bound = self.bound.take();
        if turn.job.spec.no_pmix {
            return None;
        }
        match Listener::open(turn.registry, bound) {
            Ok(listener) => Some(self.listener.insert(listener).port),
            Err(e) => {
                self.give(turn, Input::NoPort(mpd_io::files::logging::plain(&e)));
                None
            }
        }
    }

    fn listen(&mut self, turn: &mut Turn<'_>) {
        let resumed = self.listener.as_mut().map(|listener| listener.resume(turn.registry));
        if let Some(Err(e)) = resumed {
            log::warn!("cannot watch for PMIx clients: {e}");
            self.give(turn, Input::NoWatch);
        }
    }

    fn accept(&mut self, turn: &mut Turn<'_>) {
        let may_accept = turn.lending.clients.may_accept();
        let listener = self.listener.as_mut().filter(|it| it.is_ready && may_accept);
        let Some(accepted) = listener.map(Listener::accept) else { return };
        let has_failed = accepted.is_err();
        let Arrived { own: streams, met_foreign, was_slow } = accepted.unwrap_or_else(|e| {
            log::warn!("cannot accept a PMIx client: {e}");
            Arrived::default()
        });
        let mut own = Vec::new();
        for stream in streams {
            match PmixStream::new(turn.registry, FIRST_PMIX + self.next, stream) {
                Ok(stream) => drop(self.pmix_streams.insert(self.next, stream)),
                Err(e) => {
                    log::warn!("cannot watch a PMIx client: {e}");
                    continue;
                }
            }
            own.push(self.next);
            self.pmix_talking.push_back(self.next);
            self.next += 1;
        }
        self.give(turn, Input::Accepted(Accepted { own, met_foreign, was_slow, has_failed }));
    }

    /// Notes a readiness event. Returns whether the token belongs to PMIx.
    pub(super) fn mark_pmix(&mut self, turn: &mut Turn<'_>, token: usize, event: &Ready) -> bool {
        if token == PMIX {
            self.listener.iter_mut().for_each(|listener| listener.is_ready = true);
            return true;
        }
        let Some(number) = token.checked_sub(FIRST_PMIX) else { return false };
        let Some(stream) = self.pmix_streams.get_mut(&number) else { return false };
        let has_ended = event.is_read_closed();
        stream.is_ending |= has_ended;
        if event.is_readable() || has_ended {
            self.pmix_talking.push_back(number);
        }
        turn.lending.clients.note_writable(ConnectionId::Pmix(number));
        true
    }

    // ----- PMI connections -----

    /// Adds the connection of a rank; a new one if the rank is debugged and starts again.
    pub(super) fn connect(
        &mut self,
        turn: &mut Turn<'_>,
        (rank, client): (Rank, Client),
        socket: PmiSocket,
    ) {
        self.streams.insert(rank, PmiStream { socket, is_ending: false });
        self.give(turn, Input::Connected(rank, client));
    }

    /// Notes an event: the connection is readable, has ended, or is writable.
    pub(super) fn mark(&mut self, turn: &mut Turn<'_>, rank: Rank, event: &Ready) {
        let Some(stream) = self.streams.get_mut(&rank) else { return };
        let has_ended = event.is_read_closed();
        stream.is_ending |= has_ended;
        if event.is_readable() || has_ended {
            self.talking.push_back(rank);
        } else {
            turn.lending.clients.note_writable(ConnectionId::Pmi(rank));
        }
    }

    // ----- reading -----

    /// Reads each connection with unread data once. A connection that may have more is read again later.
    /// `room` is how many more bytes of clients' texts and events the manager may queue.
    pub(super) fn serve(&mut self, turn: &mut Turn<'_>, room: Room) {
        turn.lending.clients.set_room(room);
        if !turn.lending.clients.is_paused() {
            self.accept(turn);
            for _ in 0..self.pmix_talking.len() {
                let Some(number) = self.pmix_talking.pop_front() else { break };
                if self.read_pmix(turn, number) == ReadProgress::More {
                    self.pmix_talking.push_back(number);
                }
            }
        }
        for _ in 0..self.talking.len() {
            let Some(rank) = self.talking.pop_front() else { break };
            // The first request of a paused rank waits unread.
            let is_paused = turn.lending.clients.is_paused() && turn.job.is_first(rank);
            if !is_paused && self.read(turn, rank) == ReadProgress::More {
                self.talking.push_back(rank);
            }
        }
    }

    /// Reads all remaining requests of a rank that has ended.
    pub(super) fn read_to_the_end(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        // It may have connected and finalized since the last turn.
        self.accept(turn);
        for (number, is_its) in turn.lending.clients.connections_of(rank) {
            if let Some(stream) = self.pmix_streams.get_mut(&number) {
                stream.is_ending |= is_its;
            }
            let mut reads = (0..MAX_READS).map(|_| self.read_pmix(turn, number));
            while reads.next() == Some(ReadProgress::More) {}
        }
        if let Some(stream) = self.streams.get_mut(&rank) {
            stream.is_ending = true;
            let mut reads = (0..MAX_READS).map(|_| self.read(turn, rank));
            while reads.next() == Some(ReadProgress::More) {}
        }
    }

    fn read(&mut self, turn: &mut Turn<'_>, rank: Rank) -> ReadProgress {
        let Self { streams, buffer, .. } = self;
        let Some(stream) = streams.get_mut(&rank) else { return ReadProgress::Drained };
        let id = ConnectionId::Pmi(rank);
        let buffer = &mut buffer[..READ_BYTES];
        let (lending, clock) = (&mut turn.lending, turn.clock);
        let received = |bytes: &[u8]| {
            lending.give_clients(clock.now(), Input::Client(id, FromClient::Received(bytes)));
        };
        let progress = read(&mut stream.socket.stream, buffer, stream.is_ending, received);
        if progress == ReadProgress::Closed {
            self.streams.remove(&rank);
            turn.lending.give_clients(turn.clock.now(), Input::Client(id, FromClient::Closed));
        }
        self.settle(turn);
        // When the request is read, the kernel already wakes the client. So the answer is written at once.
        self.write(turn, id);
        progress
    }

    fn read_pmix(&mut self, turn: &mut Turn<'_>, number: usize) -> ReadProgress {
        let id = ConnectionId::Pmix(number);
        let is_ending = self.pmix_streams.get(&number).is_some_and(|stream| stream.is_ending);
        let now = turn.now();
        let may_read = turn.lending.clients.may_read(now, turn.job, number, is_ending);
        self.settle(turn);
        let stream = self.pmix_streams.get_mut(&number).filter(|_| may_read);
        let Some(stream) = stream else { return ReadProgress::Drained };
        self.buffer.resize(READ_BYTES_PMIX, 0);
        let (lending, clock) = (&mut turn.lending, turn.clock);
        let received = |bytes: &[u8]| {
            lending.give_clients(clock.now(), Input::Client(id, FromClient::Received(bytes)));
        };
        let progress = read(&mut stream.stream, &mut self.buffer, is_ending, received);
        if progress == ReadProgress::Closed {
            turn.lending.give_clients(turn.clock.now(), Input::Client(id, FromClient::Closed));
        }
        self.settle(turn);
        progress
    }

    // ----- writing -----

    /// Writes the answers that do not follow the read of a request, such as those of fences.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        while let Some(id) = turn.lending.clients.next_answering() {
            self.give(turn, Input::Client(id, FromClient::Writing));
            self.write(turn, id);
        }
    }

    fn write(&mut self, turn: &mut Turn<'_>, id: ConnectionId) {
        let clients = &mut *turn.lending.clients;
        match id {
            ConnectionId::Pmi(rank) => {
                let Some(stream) = self.streams.get_mut(&rank) else { return };
                flush(
                    &mut stream.socket.stream,
                    clients,
                    |it| it.output(id),
                    |it, bytes| it.consume(id, bytes),
                );
                if !clients.output(id).is_empty()
                    && let Err(e) = stream.socket.watch_writing(turn.registry)
                {
                    log::error!("cannot watch a PMI connection: {e}");
                }
            }
            ConnectionId::Pmix(number) => {
                let Some(stream) = self.pmix_streams.get_mut(&number) else { return };
                flush(
                    &mut stream.stream,
                    clients,
                    |it| it.output(id),
                    |it, bytes| it.consume(id, bytes),
                );
            }
        }
        self.give(turn, Input::Client(id, FromClient::Written));
    }
}

pub(super) const fn level_of(level: Level) -> log::Level {
    match level {
        Level::Error => log::Level::Error,
        Level::Warning => log::Level::Warn,
        Level::Info => log::Level::Info,
        Level::Debug => log::Level::Debug,
    }
}

/// Makes a directory for this user alone, unless it exists.
fn private_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}
