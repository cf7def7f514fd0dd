//! The PMI session of one rank.

use mpd_wire::Rank;
use mpd_wire::job::MpiLibrary;
use pmi_proto::{Facts, Session};

use crate::client::Client;
use crate::worlds::World;

/// The PMI session of one rank.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) session: Session,
    pub(super) client: Client,
    /// Whether the process of the rank has not ended.
    pub(super) is_alive: bool,
    /// Whether the client has closed its connection, and this is not reported.
    pub(super) is_closed: bool,
    /// Its MPI library, as far as its requests have shown it.
    pub(super) library: Option<MpiLibrary>,
}

impl Connection {
    /// The session of a rank, before its first byte.
    pub(super) fn new(client: Client, facts: Facts) -> Self {
        let session = match client {
            Client::Program | Client::Debugged => Session::new(facts),
            Client::Adopted => Session::of_singleton(facts),
        };
        Self { session, client, is_alive: true, is_closed: false, library: None }
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
