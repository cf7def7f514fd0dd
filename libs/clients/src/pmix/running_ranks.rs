//! The ranks here whose processes have not ended, and how each stands to PMIx.

use std::collections::BTreeMap;

use mpd_wire::Rank;

use crate::client::Client;

#[derive(Debug, Default)]
pub(super) struct RunningRanks(BTreeMap<Rank, RunningRank>);

#[derive(Debug)]
struct RunningRank {
    client: Client,
    standing: Standing,
    /// The user has a report of its misbehaviour.
    has_misbehaved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has no PMIx connection and no PMI session.
    Expected,
    SpeaksPmi,
    /// It has the connection with this number.
    Connected(usize),
}

impl RunningRanks {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, rank: Rank) -> bool {
        self.0.contains_key(&rank)
    }

    pub(super) fn client(&self, rank: Rank) -> Option<Client> {
        self.0.get(&rank).map(|running| running.client)
    }

    pub(super) fn is_debugged(&self, rank: Rank) -> bool {
        self.client(rank) == Some(Client::Debugged)
    }

    pub(super) fn connection(&self, rank: Rank) -> Option<usize> {
        self.0.get(&rank).and_then(RunningRank::connection)
    }

    /// The connections of these ranks.
    pub(super) fn connections(&self, of: impl Fn(Rank) -> bool) -> Vec<usize> {
        let ranks = self.0.iter().filter(|(rank, _)| of(**rank));
        ranks.filter_map(|(_, running)| running.connection()).collect()
    }

    /// Whether a rank may connect.
    pub(super) fn is_any_expected(&self) -> bool {
        self.0.values().any(|running| running.standing == Standing::Expected)
    }

    /// The process of a rank runs.
    pub(super) fn insert(&mut self, rank: Rank, client: Client) {
        let new = RunningRank { client, standing: Standing::SpeaksPmi, has_misbehaved: false };
        self.0.entry(rank).or_insert(new).client = client;
    }

    /// The process of a rank has ended. Returns its connection.
    pub(super) fn remove(&mut self, rank: Rank) -> Option<usize> {
        self.0.remove(&rank).as_ref().and_then(RunningRank::connection)
    }

    /// A rank may connect from now on. False if that was so before, or if it has ended.
    pub(super) fn expect(&mut self, rank: Rank) -> bool {
        let Some(running) = self.0.get_mut(&rank) else { return false };
        std::mem::replace(&mut running.standing, Standing::Expected) != Standing::Expected
    }

    pub(super) fn speaks_pmi(&mut self, rank: Rank) {
        if let Some(running) = self.0.get_mut(&rank)
            && running.standing == Standing::Expected
        {
            running.standing = Standing::SpeaksPmi;
        }
    }

    pub(super) fn connect(&mut self, rank: Rank, number: usize) {
        if let Some(running) = self.0.get_mut(&rank) {
            running.standing = Standing::Connected(number);
        }
    }

    /// Notes misbehaviour. False if it was noted before.
    pub(super) fn misbehaves(&mut self, rank: Rank) -> bool {
        let running = self.0.get_mut(&rank);
        running.is_some_and(|running| !std::mem::replace(&mut running.has_misbehaved, true))
    }
}

impl RunningRank {
    const fn connection(&self) -> Option<usize> {
        match self.standing {
            Standing::Connected(number) => Some(number),
            Standing::Expected | Standing::SpeaksPmi => None,
        }
    }
}
