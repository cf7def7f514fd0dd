//! Fences of worlds and groups, and the keys that are sent between hosts with them.

use mpd_job::manager::Input;
use mpd_wire::job::Failure;
use mpd_wire::message::{Down, FenceGroup, FenceMembers, Phase as Part, TreeKind, Up};
use mpd_wire::{Rank, RankSet};
use pmi_proto::{Answer, BarrierGroup, GroupMembers};

use super::Pmi;
use super::libraries::Beginnings;
use super::pmix::Collective;
use crate::manager::caller::Caller;
use crate::manager::context::Turn;
use crate::manager::event::ForLinks;
use crate::manager::links::branches::LinkEnd;

impl Pmi {
    /// Releases the ranks of a world that wait in the fence.
    pub(in crate::manager) fn release_fence(&mut self, turn: &mut Turn<'_>, first: Rank) {
        turn.end(Part::Fence, None);
        if let Some(space) = self.spaces.get_mut(&first) {
            space.beginnings = Beginnings::default();
        }
        let here = turn.job.worlds.of(first).map(|world| &world.here[..]).unwrap_or_default();
        for &rank in here {
            if let Some(connection) = self.connections.get_mut(&rank)
                && let Some(ticket) = connection.session.fence()
            {
                connection.session.answer(ticket, Answer::Fence);
                self.answering.push(rank);
            }
        }
        self.pmix.release(turn, &Collective::World(first));
        self.close_rings(turn, first);
        // A client may have sent its next request together with the fence.
        for &rank in here {
            self.perform_operations(turn, rank);
        }
        self.settle_gets_of_pmix(turn);
    }

    /// Adds a rank to the barrier of a group.
    pub(super) fn enter_group(
        &mut self,
        turn: &mut Turn<'_>,
        (rank, ticket): Caller,
        group: BarrierGroup,
    ) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let in_job = |own: u32| world.numbers.in_job(Rank(own)).0;
        let members = match group.members {
            GroupMembers::World => FenceMembers::World,
            GroupMembers::Node => FenceMembers::TreeIndex(turn.job.order.tree_index),
            GroupMembers::Ranks(ranks) => {
                let ranges = ranks.into_iter().map(|own| (in_job(own), in_job(own))).collect();
                FenceMembers::Ranks(RankSet::from_ranges(ranges))
            }
        };
        let group = FenceGroup { members, tag: group.tag, name: String::new() };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        space.barriers.entry(group.clone()).or_default().push((rank, ticket));
        turn.post(Input::EnteredGroup(rank, group));
    }

    /// Answers the ranks of a group, all of which have arrived.
    pub(in crate::manager) fn release_group(
        &mut self,
        turn: &mut Turn<'_>,
        first: Rank,
        group: &FenceGroup,
    ) {
        if !group.name.is_empty() {
            return self.pmix.release(turn, &Collective::Group(group.clone()));
        }
        let space = self.spaces.get_mut(&first);
        let callers = space.and_then(|space| space.barriers.remove(group)).unwrap_or_default();
        for caller in callers {
            self.answer(caller, Answer::Fence);
            self.perform_operations(turn, caller.0);
        }
    }

    /// Releases a fence of that world in the children at these tree indices. The keys that they lack are sent
    /// first. Only the root has such keys, since other managers send theirs to the parent.
    pub(in crate::manager) fn release_children(
        &mut self,
        turn: &mut Turn<'_>,
        (tree_indices, first): (Vec<usize>, Rank),
        release: Down,
    ) {
        let fresh = if turn.job.is_root() { self.take_fresh(turn, first) } else { Vec::new() };
        for piece in fresh {
            for &tree_index in &tree_indices {
                turn.report(ForLinks::Bytes(
                    LinkEnd::Child(tree_index),
                    TreeKind::Keys,
                    piece.clone(),
                ));
            }
        }
        let shared = if turn.job.is_root() { self.pmix.take_shared() } else { Vec::new() };
        for frame in shared {
            for &tree_index in &tree_indices {
                let bytes = frame.clone();
                turn.report(ForLinks::Bytes(LinkEnd::Child(tree_index), TreeKind::Pmix, bytes));
            }
        }
        turn.report(ForLinks::DownNow(tree_indices, release));
    }

    /// Reports ranks that entered a fence to the parent. The keys that they have put are sent first.
    pub(in crate::manager) fn report_entered(&mut self, turn: &mut Turn<'_>, entered: Up) {
        if let Up::Entered { ranks } | Up::EnteredGroup { ranks, .. } = &entered
            && let Some(rank) = ranks.ranks().next()
        {
            for piece in self.take_fresh(turn, rank) {
                turn.report(ForLinks::Bytes(LinkEnd::Parent, TreeKind::Keys, piece));
            }
        }
        for frame in self.pmix.take_shared() {
            turn.report(ForLinks::Bytes(LinkEnd::Parent, TreeKind::Pmix, frame));
        }
        turn.report(ForLinks::Up(entered));
    }

    /// Keys and values that the other hosts do not have, of the world of that rank.
    fn take_fresh(&mut self, turn: &Turn<'_>, rank: Rank) -> Vec<Vec<u8>> {
        let Some(first) = turn.job.worlds.of(rank).map(|world| world.numbers.first) else {
            return Vec::new();
        };
        self.spaces.get_mut(&first).map(|space| space.take_fresh(first)).unwrap_or_default()
    }

    /// Stores keys and values of other hosts, and sends them on to hosts that lack them.
    pub(in crate::manager) fn take_keys(
        &mut self,
        turn: &mut Turn<'_>,
        from: LinkEnd,
        payload: &[u8],
    ) {
        let split = payload.split_first_chunk::<4>();
        let read = split.and_then(|(first, piece)| {
            Some((Rank(u32::from_be_bytes(*first)), pmi_proto::pairs::read(piece).ok()?))
        });
        let Some((rank, pairs)) = read else {
            let problem = "its manager sent malformed keys and values".to_owned();
            return turn.report(ForLinks::Broken(from, problem));
        };
        let Some(world) = turn.job.worlds.of(rank) else { return };
        self.pmix.look_for_keys(world.numbers.first);
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        for (key, value) in pairs {
            if space.kvs.put(key, value).is_err() {
                // The rank that put the key has a positive answer. Without the key other ranks would wait forever.
                let problem = "the key-value space of the job is full".to_owned();
                return turn.post(Input::StartFailed(Failure::Suite { problem }));
            }
            if from != LinkEnd::Parent {
                space.note_fresh(key.to_vec());
            }
        }
        if from == LinkEnd::Parent {
            for &tree_index in &world.children {
                turn.report(ForLinks::Bytes(
                    LinkEnd::Child(tree_index),
                    TreeKind::Keys,
                    payload.to_vec(),
                ));
            }
        }
        self.settle_gets_of_pmix(turn);
    }
}
