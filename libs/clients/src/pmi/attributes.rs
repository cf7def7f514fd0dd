//! The operations of PMI-2 that PMI-1 lacks: attributes of this host and of the job, and the ring.

use mpd_job::manager::Input;
use mpd_wire::Rank;
use pmi_proto::Answer;

use super::Pmi;
use crate::caller::Caller;
use crate::job::Job;
use crate::output::Output;
use crate::turn::Turn;
use crate::universe;

impl Pmi {
    pub(super) fn put_node_attribute(
        &mut self,
        turn: &Turn<'_>,
        (rank, ticket): Caller,
        key: &[u8],
        value: &[u8],
    ) {
        let Some(space) = self.space_of(turn, rank) else { return };
        let (put, woken) = match space.node.put(key, value) {
            Ok(woken) => (Ok(()), woken),
            Err(error) => (Err(error), Vec::new()),
        };
        self.answer((rank, ticket), Answer::Put(put));
        for caller in woken {
            self.answer(caller, Answer::Get(Some(value)));
        }
    }

    pub(super) fn get_node_attribute(
        &mut self,
        turn: &Turn<'_>,
        (rank, ticket): Caller,
        key: &[u8],
        wait: bool,
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

    pub(super) fn tell_universe_size(&mut self, turn: &Turn<'_>, (rank, ticket): Caller) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let size = universe::bounded(turn.job, world.numbers.size);
        self.answer((rank, ticket), Answer::UniverseSize(size));
    }

    /// Answers with an attribute of the world. All of them were put before the start.
    pub(super) fn get_job_attribute(
        &mut self,
        turn: &Turn<'_>,
        (rank, ticket): Caller,
        key: &[u8],
    ) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get(&world.numbers.first) else { return };
        let found = if key.starts_with(b"PMI_") { space.kvs.get(key) } else { None };
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.session.answer(ticket, Answer::Get(found));
        }
    }

    /// Answers with a value of another world of this job, if ranks of that world run in this subtree.
    pub(super) fn get_of(
        &mut self,
        turn: &Turn<'_>,
        (rank, ticket): Caller,
        jobid: &[u8],
        key: &[u8],
    ) {
        let world = turn.job.worlds.of_name(jobid);
        if let Some(connection) = self.connections.get_mut(&rank) {
            let space = world.and_then(|world| self.spaces.get(&world.numbers.first));
            let found = space.and_then(|space| space.kvs.get(key));
            connection.session.answer(ticket, Answer::Get(found));
        }
    }

    /// Enters a rank into a ring: a fence in which each rank gives two values.
    pub(super) fn enter_ring(
        &mut self,
        turn: &mut Turn<'_>,
        (rank, ticket): Caller,
        left: &[u8],
        right: &[u8],
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
        turn.report(Output::FenceBegins);
        turn.post(Input::EnteredFence(rank));
    }

    /// Answers all ranks of a ring, since all ranks of the world have arrived.
    pub(super) fn close_rings(&mut self, job: &Job, first: Rank) {
        let Some(world) = job.worlds.of(first) else { return };
        let Some(space) = self.spaces.get_mut(&first) else { return };
        let size = world.numbers.size;
        for (rank, ticket) in std::mem::take(&mut space.rings) {
            let own = world.numbers.own(rank).0;
            let left_neighbour = own.checked_sub(1).unwrap_or(size.saturating_sub(1));
            let right_neighbour = (own + 1) % size;
            let left = space.kvs.get(&Side::Right.key(left_neighbour)).unwrap_or_default();
            let right = space.kvs.get(&Side::Left.key(right_neighbour)).unwrap_or_default();
            if let Some(connection) = self.connections.get_mut(&rank) {
                connection.session.answer(ticket, Answer::Ring(Ok((left, right))));
                self.answering.push(rank);
            }
        }
    }
}

/// The neighbour for which a rank gives a value.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

impl Side {
    /// The key of the value in the key-value space; clients put nothing there.
    fn key(self, rank: u32) -> Vec<u8> {
        let side = match self {
            Self::Left => "left",
            Self::Right => "right",
        };
        format!("PMI_ring_{side}_{rank}").into_bytes()
    }
}
