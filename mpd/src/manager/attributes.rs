//! What PMI-2 has beyond PMI-1: attributes of this host and of the job, and the ring.

use std::collections::BTreeMap;

use mpd_proto::Rank;
use mpd_proto::manager::Input;
use mpd_proto::message::Phase as Part;
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
        let put = self.attributes.node.put(key, value);
        let (put, woken) = match put {
            Ok(woken) => (Ok(()), woken),
            Err(error) => (Err(error), Vec::new()),
        };
        self.clients[rank].pmi.session.answer(ticket, Answer::Put(put));
        for (rank, ticket) in woken {
            self.clients[rank].pmi.session.answer(ticket, Answer::Get(Some(value)));
            // What the client has asked for behind it is decoded with the next of its turns.
            self.answering.push(rank);
        }
    }

    pub(super) fn get_node_attribute(&mut self, (rank, ticket): Asker, key: &[u8], wait: bool) {
        let node = &mut self.attributes.node;
        if node.get(key).is_none() && wait && node.wait(key, (rank, ticket)).is_ok() {
            return;
        }
        self.clients[rank].pmi.session.answer(ticket, Answer::Get(node.get(key)));
    }

    /// What we have put beforehand is what there is to know of the job.
    pub(super) fn get_job_attribute(&mut self, (rank, ticket): Asker, key: &[u8]) {
        let found = if key.starts_with(b"PMI_") { self.kvs.get(key) } else { None };
        self.clients[rank].pmi.session.answer(ticket, Answer::Get(found));
    }

    /// A ring is a fence with two values of each rank.
    pub(super) fn enter_ring(&mut self, (rank, ticket): Asker, left: &[u8], right: &[u8]) {
        for (side, value) in [(Side::Left, left), (Side::Right, right)] {
            let key = side.key(rank.0);
            if self.kvs.put(&key, value).is_err() {
                let refusal = Answer::Ring(Err("kvs_full"));
                return self.clients[rank].pmi.session.answer(ticket, refusal);
            }
            if self.order.shares.len() > 1 {
                self.fresh.insert(key);
            }
        }
        self.attributes.rings.insert(rank, ticket);
        self.begin_span(Part::Fence, None);
        self.tell(Input::EnteredFence(rank));
    }

    /// All ranks have arrived.
    pub(super) fn close_rings(&mut self) {
        let size = self.spec.size();
        for (rank, ticket) in std::mem::take(&mut self.attributes.rings) {
            let before = rank.0.checked_sub(1).unwrap_or(size.saturating_sub(1));
            let behind = (rank.0 + 1) % size;
            let left = self.kvs.get(&Side::Right.key(before)).unwrap_or_default();
            let right = self.kvs.get(&Side::Left.key(behind)).unwrap_or_default();
            self.clients[rank].pmi.session.answer(ticket, Answer::Ring(Ok((left, right))));
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
