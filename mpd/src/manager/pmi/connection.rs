//! The PMI connection of one rank.

use mio::Registry;
use mpd_wire::Rank;
use mpd_wire::job::MpiLibrary;
use pmi_proto::{Facts, Session};

use super::transfer::{ReadProgress, flush, read};
use crate::manager::event::Client;
use crate::manager::pmi_socket::PmiSocket;
use crate::manager::worlds::World;

/// The PMI connection of one rank.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Option<PmiSocket>,
    pub(super) session: Session,
    /// The client closed its end, so the end of the stream is to be read.
    pub(super) ending: bool,
    pub(super) client: Client,
    /// Whether the process of the rank has not ended.
    pub(super) is_alive: bool,
    /// Its MPI library, as far as its requests have shown it.
    pub(super) library: Option<MpiLibrary>,
}

impl Connection {
    /// The connection of a rank, still without a socket.
    pub(super) fn new(client: Client, facts: Facts) -> Self {
        let session = match client {
            Client::Program | Client::Debugged => Session::new(facts),
            Client::Adopted => Session::of_singleton(facts),
        };
        Self { socket: None, session, ending: false, client, is_alive: true, library: None }
    }

    /// Reads once.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> ReadProgress {
        let Some(socket) = &mut self.socket else { return ReadProgress::Drained };
        read(&mut socket.stream, buffer, self.ending, |bytes| self.session.receive(bytes))
    }

    /// Writes the output of the session as far as the client accepts it.
    /// If the client has to read before more can be written, an event reports that it has.
    pub(super) fn flush(&mut self, registry: &Registry) {
        let Some(socket) = &mut self.socket else { return };
        flush(&mut socket.stream, &mut self.session, Session::output, Session::consume);
        if !self.session.output().is_empty()
            && let Err(e) = socket.watch_writing(registry)
        {
            log::error!("cannot watch a PMI connection: {e}");
        }
    }
}

/// The data that the PMI session of a rank needs.
pub(super) fn facts(world: &World, rank: Rank) -> Facts {
    let argset = world.argset_of(rank);
    let appnum = world.appnums.get(argset).copied().flatten();
    Facts {
        kvsname: world.kvsname.clone(),
        rank: world.numbers.own(rank).0,
        size: world.numbers.size,
        appnum: appnum.unwrap_or(i32::try_from(argset).unwrap_or(0)),
        spawner: world.spawner.as_ref().map(|spawner| spawner.kvsname.clone()),
    }
}
