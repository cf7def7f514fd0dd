//! What PMI-2 has beyond PMI-1: attributes of this host and of the job, and the ring.

use std::collections::BTreeMap;

use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::message::Phase as Part;
use pmi_proto::{Answer, NodeAttributes, Ticket};

use super::Process;

/// Who waits for an answer.
pub(super) type Asker = (Rank, Ticket);

/// What the ranks of this host have said, and who waits.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    node: NodeAttributes<Asker>,
    /// Who is in the ring, which is closed when a fence is.
    rings: BTreeMap<Rank, Ticket>,
}

impl Process {
    pub(super) fn put_node_attribute(&mut self, (rank, ticket): Asker, key: &[u8], value: &[u8]) {
        let Some(world) = self.worlds.of_mut(rank) else { return };
        let (put, woken) = match world.attributes.node.put(key, value) {
            Ok(woken) => (Ok(()), woken),
            Err(error) => (Err(error), Vec::new()),
        };
        self.answer((rank, ticket), Answer::Put(put));
        for asker in woken {
            self.answer(asker, Answer::Get(Some(value)));
        }
    }

    pub(super) fn get_node_attribute(&mut self, (rank, ticket): Asker, key: &[u8], wait: bool) {
        let Some(world) = self.worlds.of_mut(rank) else { return };
        let node = &mut world.attributes.node;
        if node.get(key).is_none() && wait && node.wait(key, (rank, ticket)).is_ok() {
            return;
        }
        if let Some(client) = self.clients.get_mut(rank) {
            client.pmi.session.answer(ticket, Answer::Get(node.get(key)));
        }
    }

    /// What we have put beforehand is what there is to know of the world.
    pub(super) fn get_job_attribute(&mut self, (rank, ticket): Asker, key: &[u8]) {
        let Some(world) = self.worlds.of(rank) else { return };
        let found = if key.starts_with(b"PMI_") { world.kvs.get(key) } else { None };
        if let Some(client) = self.clients.get_mut(rank) {
            client.pmi.session.answer(ticket, Answer::Get(found));
        }
    }

    /// What another world of this job has put, if something of it runs here or below.
    pub(super) fn get_of(&mut self, (rank, ticket): Asker, jobid: &[u8], key: &[u8]) {
        let world = self.worlds.of_name(jobid);
        if let Some(client) = self.clients.get_mut(rank) {
            let found = world.and_then(|world| world.kvs.get(key));
            client.pmi.session.answer(ticket, Answer::Get(found));
        }
    }

    /// A ring is a fence with two values of each rank.
    pub(super) fn enter_ring(&mut self, (rank, ticket): Asker, left: &[u8], right: &[u8]) {
        let Some(world) = self.worlds.of_mut(rank) else { return };
        for (side, value) in [(Side::Left, left), (Side::Right, right)] {
            let key = side.key(world.numbers.own(rank).0);
            if world.kvs.put(&key, value).is_err() {
                return self.answer((rank, ticket), Answer::Ring(Err("kvs_full")));
            }
            if world.is_spread {
                world.fresh.insert(key);
            }
        }
        world.attributes.rings.insert(rank, ticket);
        self.begin_span(Part::Fence, None);
        self.post(Input::EnteredFence(rank));
    }

    /// All ranks of a world have arrived.
    pub(super) fn close_rings(&mut self, first: Rank) {
        let Some(world) = self.worlds.of_mut(first) else { return };
        let size = world.numbers.size;
        for (rank, ticket) in std::mem::take(&mut world.attributes.rings) {
            let own = world.numbers.own(rank).0;
            let before = own.checked_sub(1).unwrap_or(size.saturating_sub(1));
            let behind = (own + 1) % size;
            let left = world.kvs.get(&Side::Right.key(before)).unwrap_or_default();
            let right = world.kvs.get(&Side::Left.key(behind)).unwrap_or_default();
            if let Some(client) = self.clients.get_mut(rank) {
                client.pmi.session.answer(ticket, Answer::Ring(Ok((left, right))));
                self.answering.push(rank);
            }
        }
    }

    /// Answers a rank that may have ended. What its client has asked for behind it is decoded with the next
    /// of its turns.
    pub(super) fn answer(&mut self, (rank, ticket): Asker, answer: Answer<'_>) {
        if let Some(client) = self.clients.get_mut(rank) {
            client.pmi.session.answer(ticket, answer);
            self.answering.push(rank);
        }
    }
}

/// For which neighbour a rank gives a value.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

impl Side {
    /// Where the value stands in the key-value space; clients put nothing there.
    fn key(self, rank: u32) -> Vec<u8> {
        let side = match self {
            Self::Left => "left",
            Self::Right => "right",
        };
        format!("PMI_ring_{side}_{rank}").into_bytes()
    }
}
