//! Fences of worlds and groups, and the keys that are sent between hosts with them.

use mpd_job::manager::{Input, LinkEnd};
use mpd_wire::job::Failure;
use mpd_wire::message::{FenceGroup, FenceMembers, TreeKind};
use mpd_wire::{Rank, RankSet};
use pmi_proto::{Answer, BarrierGroup, GroupMembers};

use super::{News, Pmi};
use crate::caller::Caller;
use crate::job::Job;
use crate::libraries::Beginnings;
use crate::output::LinkOutput;
use crate::turn::Turn;

impl Pmi {
    /// Answers the ranks of a world that wait in the fence, and those of its ring.
    pub(crate) fn release_fence(&mut self, job: &Job, first: Rank) {
        if let Some(space) = self.spaces.get_mut(&first) {
            space.beginnings = Beginnings::default();
        }
        for &rank in ranks_here(job, first) {
            if let Some(connection) = self.connections.get_mut(&rank)
                && let Some(ticket) = connection.session.fence()
            {
                connection.session.answer(ticket, Answer::Fence);
                self.answering.push(rank);
            }
        }
        self.close_rings(job, first);
    }

    /// Performs what clients have sent together with their fence.
    pub(crate) fn perform_after_fence(&mut self, turn: &mut Turn<'_>, first: Rank) {
        for &rank in ranks_here(turn.job, first) {
            self.perform_operations(turn, rank);
        }
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
    pub(crate) fn release_group(&mut self, turn: &mut Turn<'_>, first: Rank, group: &FenceGroup) {
        let space = self.spaces.get_mut(&first);
        let callers = space.and_then(|space| space.barriers.remove(group)).unwrap_or_default();
        for caller in callers {
            self.answer(caller, Answer::Fence);
            self.perform_operations(turn, caller.0);
        }
    }

    /// Keys and values that the other hosts do not have, of the world of that rank.
    pub(crate) fn take_fresh(&mut self, job: &Job, rank: Rank) -> Vec<Vec<u8>> {
        let Some(first) = job.worlds.of(rank).map(|world| world.numbers.first) else {
            return Vec::new();
        };
        self.spaces.get_mut(&first).map(|space| space.take_fresh(first)).unwrap_or_default()
    }

    /// Stores keys and values of other hosts, and sends them on to hosts that lack them.
    pub(crate) fn take_keys(&mut self, turn: &mut Turn<'_>, from: LinkEnd, payload: &[u8]) {
        let split = payload.split_first_chunk::<4>();
        let read = split.and_then(|(first, piece)| {
            Some((Rank(u32::from_be_bytes(*first)), pmi_proto::pairs::read(piece).ok()?))
        });
        let Some((rank, pairs)) = read else {
            let problem = "its manager sent malformed keys and values".to_owned();
            return turn.report(LinkOutput::Broken(from, problem));
        };
        let Some(world) = turn.job.worlds.of(rank) else { return };
        self.news.push_back(News::NewKeys(world.numbers.first, None));
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
                let (to, bytes) = (LinkEnd::Child(tree_index), payload.to_vec());
                turn.report(LinkOutput::Bytes(to, TreeKind::Keys, bytes));
            }
        }
    }
}

/// The ranks of a world that run here.
fn ranks_here(job: &Job, first: Rank) -> &[Rank] {
    job.worlds.of(first).map(|world| &world.here[..]).unwrap_or_default()
}
