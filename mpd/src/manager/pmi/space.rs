//! What the ranks of one world share by PMI, and how keys go between hosts at fences.

use std::collections::{BTreeMap, BTreeSet};

use mpd_job::manager::Input;
use mpd_wire::job::{Bytes, Failure};
use mpd_wire::message::{Down, FenceGroup, FenceMembers, Phase as Part, TreeKind, Up};
use mpd_wire::{Rank, RankSet};
use pmi_proto::pairs::Pieces;
use pmi_proto::{Answer, BarrierGroup, GroupMembers, Kvs, NodeAttributes, Ticket};

use super::{Asker, Pmi};
use crate::manager::context::Turn;
use crate::manager::event::ForLinks;
use crate::manager::links::End;
use crate::manager::worlds::World;

/// Answers about failed ranks, where others go on.
const DEAD: &[u8] = b"PMI_dead_processes";

/// See the module.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) kvs: Kvs,
    /// Keys put here or below since the last fence, which the other hosts do not have.
    fresh: BTreeSet<Vec<u8>>,
    /// What ranks of this host tell each other.
    pub(super) node: NodeAttributes<Asker>,
    /// Who is in the ring of PMI-2, which is closed when a fence is.
    pub(super) rings: BTreeMap<Rank, Ticket>,
    /// Ranks of this host that wait at barriers of groups, which PMI-1.2 has.
    meetings: BTreeMap<FenceGroup, Vec<Asker>>,
    /// Ranks that failed, as numbered here, in the order in which that was reported.
    dead: Vec<Rank>,
}

impl Space {
    /// That of a world, with what stands in it beforehand.
    pub(super) fn new(world: &World, preput: &[(Bytes, Bytes)]) -> Self {
        let mut kvs = Kvs::new();
        let places = world.parts.places_of(&world.numbers);
        if let Some(mapping) = pmi_proto::process_mapping::encode(&places) {
            // An empty store has room for some keys.
            let _ = kvs.put(b"PMI_process_mapping", mapping.as_bytes());
        }
        let _ = kvs.put(DEAD, b"");
        for (key, value) in preput {
            let _ = kvs.put(key, value);
        }
        Self {
            kvs,
            fresh: BTreeSet::new(),
            node: NodeAttributes::default(),
            rings: BTreeMap::new(),
            meetings: BTreeMap::new(),
            dead: Vec::new(),
        }
    }

    /// The other hosts are to have this key.
    pub(super) fn note_fresh(&mut self, key: Vec<u8>) {
        self.fresh.insert(key);
    }

    /// Keys and values that the other hosts do not have, in pieces that travel.
    pub(super) fn take_fresh(&mut self, first: Rank) -> Vec<Vec<u8>> {
        let mut pieces = Pieces::default();
        for key in std::mem::take(&mut self.fresh) {
            if let Some(value) = self.kvs.get(&key) {
                pieces.put(&key, value);
            }
        }
        let first = first.0.to_be_bytes();
        pieces.take().into_iter().map(|piece| [&first[..], &piece].concat()).collect()
    }

    /// A rank, as numbered here, has failed.
    pub(super) fn note_dead(&mut self, rank: Rank) {
        self.dead.push(rank);
        let list: Vec<String> = self.dead.iter().map(ToString::to_string).collect();
        let _ = self.kvs.put(DEAD, list.join(",").as_bytes());
    }
}

impl Pmi {
    /// Lets every rank of a world go on that waits in the fence.
    pub(in crate::manager) fn release_fence(&mut self, turn: &mut Turn<'_>, first: Rank) {
        turn.end(Part::Fence, None);
        let here = turn.job.worlds.of(first).map(|world| &world.here[..]).unwrap_or_default();
        for &rank in here {
            if let Some(connection) = self.connections.get_mut(&rank)
                && let Some(ticket) = connection.session.fence()
            {
                connection.session.answer(ticket, Answer::Fence);
                self.answering.push(rank);
            }
        }
        self.close_rings(turn, first);
        // A client may have sent its next request together with the fence.
        for &rank in here {
            self.perform_operations(turn, rank);
        }
    }

    /// A rank arrived at the barrier of a group.
    pub(super) fn enter_group(
        &mut self,
        turn: &mut Turn<'_>,
        (rank, ticket): Asker,
        group: BarrierGroup,
    ) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let in_job = |own: u32| world.numbers.in_job(Rank(own)).0;
        let members = match group.members {
            GroupMembers::World => FenceMembers::World,
            GroupMembers::Node => FenceMembers::Place(turn.job.order.place),
            GroupMembers::Ranks(ranks) => {
                let ranges = ranks.into_iter().map(|own| (in_job(own), in_job(own))).collect();
                FenceMembers::Ranks(RankSet::from_ranges(ranges))
            }
        };
        let group = FenceGroup { members, tag: group.tag };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        space.meetings.entry(group.clone()).or_default().push((rank, ticket));
        turn.post(Input::EnteredGroup(rank, group));
    }

    /// All ranks of a group have arrived.
    pub(in crate::manager) fn release_group(
        &mut self,
        turn: &mut Turn<'_>,
        first: Rank,
        group: &FenceGroup,
    ) {
        let space = self.spaces.get_mut(&first);
        let askers = space.and_then(|space| space.meetings.remove(group)).unwrap_or_default();
        for asker in askers {
            self.answer(asker, Answer::Fence);
            self.perform_operations(turn, asker.0);
        }
    }

    /// The managers below at these places release a fence of that world: the keys that they lack go before. Only the
    /// root has such keys: what ranks were told here and below goes up first.
    pub(in crate::manager) fn release_below(
        &mut self,
        turn: &mut Turn<'_>,
        (places, first): (Vec<usize>, Rank),
        release: Down,
    ) {
        let fresh = if turn.job.is_root() { self.take_fresh(turn, first) } else { Vec::new() };
        for piece in fresh {
            for &place in &places {
                turn.report(ForLinks::Bytes(End::Child(place), TreeKind::Keys, piece.clone()));
            }
        }
        turn.report(ForLinks::DownNow(places, release));
    }

    /// The manager above gets the entry of ranks into a fence: the keys that they have put go before.
    pub(in crate::manager) fn enter_above(&mut self, turn: &mut Turn<'_>, entered: Up) {
        if let Up::Entered { ranks } | Up::EnteredGroup { ranks, .. } = &entered
            && let Some(rank) = ranks.ranks().next()
        {
            for piece in self.take_fresh(turn, rank) {
                turn.report(ForLinks::Bytes(End::Parent, TreeKind::Keys, piece));
            }
        }
        turn.report(ForLinks::Up(entered));
    }

    /// Keys and values of the world of that rank that the other hosts do not have.
    fn take_fresh(&mut self, turn: &Turn<'_>, rank: Rank) -> Vec<Vec<u8>> {
        let Some(first) = turn.job.worlds.of(rank).map(|world| world.numbers.first) else {
            return Vec::new();
        };
        self.spaces.get_mut(&first).map(|space| space.take_fresh(first)).unwrap_or_default()
    }

    /// Keys and values of other hosts: into our own store, and on to where they are still unknown.
    pub(in crate::manager) fn take_keys(&mut self, turn: &mut Turn<'_>, from: End, payload: &[u8]) {
        let split = payload.split_first_chunk::<4>();
        let read = split.and_then(|(first, piece)| {
            Some((Rank(u32::from_be_bytes(*first)), pmi_proto::pairs::read(piece).ok()?))
        });
        let Some((rank, pairs)) = read else {
            let problem = "its manager sent malformed keys and values".to_owned();
            return turn.report(ForLinks::Broken(from, problem));
        };
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        for (key, value) in pairs {
            if space.kvs.put(key, value).is_err() {
                // A rank was told that it is stored: without it others would wait for ever.
                let problem = "the key-value space of the job is full".to_owned();
                return turn.post(Input::StartFailed(Failure::Suite { problem }));
            }
            if from != End::Parent {
                space.note_fresh(key.to_vec());
            }
        }
        if from == End::Parent {
            for &place in &world.below {
                turn.report(ForLinks::Bytes(End::Child(place), TreeKind::Keys, payload.to_vec()));
            }
        }
    }
}
