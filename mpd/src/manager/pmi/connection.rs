//! The PMI connection of one rank.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use mpd_wire::Rank;
use pmi_proto::{Facts, Session};

use crate::manager::event::Client;
use crate::manager::worlds::World;

/// What a turn of the connection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing, or all there was: an event will tell of more.
    Drained,
    /// Something, and there may be more.
    More,
    /// The end.
    Closed,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Option<UnixStream>,
    pub(super) session: Session,
    /// The client closed its end: there is an end to be read.
    pub(super) ending: bool,
    pub(super) client: Client,
    /// The process of the rank has not ended.
    pub(super) lives: bool,
}

impl Connection {
    /// That of a rank of a world, without a socket.
    pub(super) fn new(client: Client, facts: Facts) -> Self {
        let session = match client {
            Client::Program | Client::Debugged => Session::new(facts),
            Client::Adopted => Session::of_singleton(facts),
        };
        Self { stream: None, session, ending: false, client, lives: true }
    }

    /// Reads once.
    pub(super) fn read(&mut self) -> Heard {
        let mut buffer = [0_u8; 16 * 1024];
        let Some(stream) = &mut self.stream else { return Heard::Drained };
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Heard::Closed,
                Ok(n) => {
                    self.session.receive(&buffer[..n]);
                    let more = n == buffer.len() || self.ending;
                    return if more { Heard::More } else { Heard::Drained };
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Heard::Drained,
                Err(_) => return Heard::Closed,
            }
        }
    }

    /// Writes what the session has to say, as far as the client takes it.
    pub(super) fn flush(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        while !self.session.output().is_empty() {
            match stream.write(self.session.output()) {
                Ok(n) => self.session.consume(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Full: a writable event will come. Gone: its end is told by reading.
                Err(_) => return,
            }
        }
    }
}

/// What the PMI session of a rank must know.
pub(super) fn facts(world: &World, rank: Rank, universe_size: Option<u32>) -> Facts {
    let argset = world.argset_of(rank);
    let appnum = world.appnums.get(argset).copied().flatten();
    Facts {
        kvsname: world.kvsname.clone(),
        rank: world.numbers.own(rank).0,
        size: world.numbers.size,
        appnum: appnum.unwrap_or(i32::try_from(argset).unwrap_or(0)),
        universe_size,
        spawner: world.spawner.clone(),
    }
}
