//! The ranks of this host: which they are, and their clients once started.

use std::ops::{Index, IndexMut};

use mpd_proto::{Rank, RankSet};

use super::clients::Client;

/// Clients by rank. A rank of another host has none here.
#[derive(Debug)]
pub(crate) struct Ranks {
    ranks: Vec<Rank>,
    /// Of the first ranks, as far as they were started.
    clients: Vec<Client>,
}

impl Ranks {
    /// None started yet.
    pub(crate) fn new(share: &RankSet) -> Self {
        Self { ranks: share.ranks().collect(), clients: Vec::new() }
    }

    /// How many run here, or will.
    pub(crate) fn size(&self) -> u32 {
        u32::try_from(self.ranks.len()).unwrap_or(u32::MAX)
    }

    /// The rank with this number on this host.
    pub(crate) fn rank(&self, local: usize) -> Option<Rank> {
        self.ranks.get(local).copied()
    }

    /// The number of a rank on this host.
    pub(crate) fn local(&self, rank: Rank) -> Option<usize> {
        self.ranks.binary_search(&rank).ok()
    }

    /// All of them, started or not.
    pub(crate) fn all(&self) -> &[Rank] {
        &self.ranks
    }

    /// The next one in order was started.
    pub(crate) fn push(&mut self, client: Client) {
        self.clients.push(client);
    }

    /// Ranks started so far.
    pub(crate) fn started(&self) -> impl Iterator<Item = (Rank, &Client)> {
        self.ranks.iter().copied().zip(&self.clients)
    }

    /// The same, to change them.
    pub(crate) fn started_mut(&mut self) -> impl Iterator<Item = (Rank, &mut Client)> {
        self.ranks.iter().copied().zip(&mut self.clients)
    }

    /// The client of a rank that was started here.
    pub(crate) fn get(&self, rank: Rank) -> Option<&Client> {
        self.clients.get(self.local(rank)?)
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, rank: Rank) -> Option<&mut Client> {
        let local = self.local(rank)?;
        self.clients.get_mut(local)
    }
}

impl Index<Rank> for Ranks {
    type Output = Client;

    /// The client of a rank that is known to be started here.
    fn index(&self, rank: Rank) -> &Client {
        self.get(rank).expect("a rank of this host")
    }
}

impl IndexMut<Rank> for Ranks {
    fn index_mut(&mut self, rank: Rank) -> &mut Client {
        self.get_mut(rank).expect("a rank of this host")
    }
}
