//! The ranks of this host that were started, of all worlds, and the tokens of their descriptors.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use mpd_wire::Rank;

use super::clients::{Client, End, TOKENS};

/// Clients by rank. A rank of another host has none here.
#[derive(Debug)]
pub(crate) struct Ranks {
    first_token: usize,
    clients: BTreeMap<Rank, (usize, Client)>,
    /// Who has which tokens; those of clients that are gone are given out again.
    slots: Vec<Option<Rank>>,
    free: Vec<usize>,
    /// Ranks whose watcher has written something.
    reporting: Vec<Rank>,
    /// Ranks whose standard input takes more.
    hungry: Vec<Rank>,
}

impl Ranks {
    /// None started yet. Tokens are the clients' from `first_token` on.
    pub(crate) const fn new(first_token: usize) -> Self {
        Self {
            first_token,
            clients: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            reporting: Vec::new(),
            hungry: Vec::new(),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    /// The first of the tokens that the next client will have.
    pub(crate) fn next_token(&self) -> usize {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        self.first_token + slot * TOKENS
    }

    /// A rank was started, with [`Ranks::next_token`].
    pub(crate) fn insert(&mut self, rank: Rank, client: Client) {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(rank);
        self.clients.insert(rank, (slot, client));
    }

    /// Nothing more is to be heard of a rank, whose descriptors are closed.
    pub(crate) fn remove(&mut self, rank: Rank) {
        if let Some((slot, _)) = self.clients.remove(&rank) {
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }

    /// The first of the tokens of a rank.
    pub(crate) fn token_of(&self, rank: Rank) -> Option<usize> {
        self.clients.get(&rank).map(|(slot, _)| self.first_token + slot * TOKENS)
    }

    /// Whose token that is, and for what.
    pub(crate) fn of_token(&self, token: usize) -> Option<(Rank, End)> {
        let at = token.checked_sub(self.first_token)?;
        let rank = self.slots.get(at / TOKENS).copied().flatten()?;
        Some((rank, End::of(at)))
    }

    /// An event says that the rank's watcher has written something.
    pub(crate) fn note_reporting(&mut self, rank: Rank) {
        self.reporting.push(rank);
    }

    /// The ranks of [`Ranks::note_reporting`] since the last call.
    pub(crate) fn take_reporting(&mut self) -> Vec<Rank> {
        std::mem::take(&mut self.reporting)
    }

    /// An event says that the rank's standard input takes more.
    pub(crate) fn note_hungry(&mut self, rank: Rank) {
        self.hungry.push(rank);
    }

    /// The ranks of [`Ranks::note_hungry`] since the last call.
    pub(crate) fn take_hungry(&mut self) -> Vec<Rank> {
        std::mem::take(&mut self.hungry)
    }

    /// All of them.
    pub(crate) fn started(&self) -> impl Iterator<Item = (Rank, &Client)> {
        self.clients.iter().map(|(&rank, (_, client))| (rank, client))
    }

    /// The client of a rank that was started here.
    pub(crate) fn get(&self, rank: Rank) -> Option<&Client> {
        self.clients.get(&rank).map(|(_, client)| client)
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, rank: Rank) -> Option<&mut Client> {
        self.clients.get_mut(&rank).map(|(_, client)| client)
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
