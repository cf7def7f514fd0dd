//! What PMI-2 has beyond PMI-1: attributes of this host and of the job, and the ring.

use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::message::Phase as Part;
use pmi_proto::Answer;

use super::{Asker, Pmi};
use crate::manager::context::Turn;

impl Pmi {
    pub(super) fn put_node_attribute(
        &mut self,
        turn: &Turn<'_>,
        (rank, ticket): Asker,
        (key, value): (&[u8], &[u8]),
    ) {
        let Some(space) = self.space_of(turn, rank) else { return };
        let (put, woken) = match space.node.put(key, value) {
            Ok(woken) => (Ok(()), woken),
            Err(error) => (Err(error), Vec::new()),
        };
        self.answer((rank, ticket), Answer::Put(put));
        for asker in woken {
            self.answer(asker, Answer::Get(Some(value)));
        }
    }

    pub(super) fn get_node_attribute(
        &mut self,
        turn: &Turn<'_>,
        (rank, ticket): Asker,
        (key, wait): (&[u8], bool),
    ) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        let node = &mut space.node;
        if node.get(key).is_none() && wait && node.wait(key, (rank, ticket)).is_ok() {
            return;
        }
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.session.answer(ticket, Answer::Get(node.get(key)));
        }
    }

    /// What we have put beforehand is what there is to know of the world.
    pub(super) fn get_job_attribute(&mut self, turn: &Turn<'_>, (rank, ticket): Asker, key: &[u8]) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get(&world.numbers.first) else { return };
        let found = if key.starts_with(b"PMI_") { space.kvs.get(key) } else { None };
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.session.answer(ticket, Answer::Get(found));
        }
    }

    /// What another world of this job has put, if something of it runs here or below.
    pub(super) fn get_of(
        &mut self,
        turn: &Turn<'_>,
        (rank, ticket): Asker,
        (jobid, key): (&[u8], &[u8]),
    ) {
        let world = turn.job.worlds.of_name(jobid);
        if let Some(connection) = self.connections.get_mut(&rank) {
            let space = world.and_then(|world| self.spaces.get(&world.numbers.first));
            let found = space.and_then(|space| space.kvs.get(key));
            connection.session.answer(ticket, Answer::Get(found));
        }
    }

    /// A ring is a fence with two values of each rank.
    pub(super) fn enter_ring(
        &mut self,
        turn: &mut Turn<'_>,
        (rank, ticket): Asker,
        (left, right): (&[u8], &[u8]),
    ) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        for (side, value) in [(Side::Left, left), (Side::Right, right)] {
            let key = side.key(world.numbers.own(rank).0);
            if space.kvs.put(&key, value).is_err() {
                return self.answer((rank, ticket), Answer::Ring(Err("kvs_full")));
            }
            if world.is_spread {
                space.note_fresh(key);
            }
        }
        space.rings.insert(rank, ticket);
        turn.begin(Part::Fence, None);
        turn.post(Input::EnteredFence(rank));
    }

    /// All ranks of a world have arrived.
    pub(super) fn close_rings(&mut self, turn: &Turn<'_>, first: Rank) {
        let Some(world) = turn.job.worlds.of(first) else { return };
        let Some(space) = self.spaces.get_mut(&first) else { return };
        let size = world.numbers.size;
        for (rank, ticket) in std::mem::take(&mut space.rings) {
            let own = world.numbers.own(rank).0;
            let before = own.checked_sub(1).unwrap_or(size.saturating_sub(1));
            let behind = (own + 1) % size;
            let left = space.kvs.get(&Side::Right.key(before)).unwrap_or_default();
            let right = space.kvs.get(&Side::Left.key(behind)).unwrap_or_default();
            if let Some(connection) = self.connections.get_mut(&rank) {
                connection.session.answer(ticket, Answer::Ring(Ok((left, right))));
                self.answering.push(rank);
            }
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
