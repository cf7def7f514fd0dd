//! Barriers of groups, which PMI-1.2 has: who of this host waits in which.

use std::collections::BTreeMap;

use mpd_job::manager::Input;
use mpd_wire::message::{FenceGroup, FenceMembers};
use mpd_wire::{Rank, RankSet};
use pmi_proto::{Answer, BarrierGroup, GroupMembers};

use super::Process;
use super::attributes::Asker;

/// Ranks of this host that wait, by group.
pub(super) type Meetings = BTreeMap<FenceGroup, Vec<Asker>>;

impl Process {
    /// A rank arrived at the barrier of a group.
    pub(super) fn enter_group(&mut self, (rank, ticket): Asker, group: BarrierGroup) {
        let place = self.order.place;
        let Some(world) = self.worlds.of_mut(rank) else { return };
        let in_job = |own: u32| world.numbers.in_job(Rank(own)).0;
        let members = match group.members {
            GroupMembers::World => FenceMembers::World,
            GroupMembers::Node => FenceMembers::Place(place),
            GroupMembers::Ranks(ranks) => {
                let ranges = ranks.into_iter().map(|own| (in_job(own), in_job(own))).collect();
                FenceMembers::Ranks(RankSet::from_ranges(ranges))
            }
        };
        let group = FenceGroup { members, tag: group.tag };
        world.meetings.entry(group.clone()).or_default().push((rank, ticket));
        self.post(Input::EnteredGroup(rank, group));
    }

    /// All ranks of a group have arrived.
    pub(super) fn release_group(&mut self, first: Rank, group: &FenceGroup) {
        let world = self.worlds.of_mut(first);
        let askers = world.and_then(|world| world.meetings.remove(group)).unwrap_or_default();
        for asker in askers {
            self.answer(asker, Answer::Fence);
            self.perform_operations(asker.0);
        }
    }
}
