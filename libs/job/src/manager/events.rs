//! The events of the job, as its root records them.

use crate::manager::Output;
use crate::manager::job::Job;
use crate::manager::rank_table::Ended;
use mpd_sansio::Time;
use mpd_wire::job::RankEnd;
use mpd_wire::message::HostChange;
use mpd_wire::{DaemonName, Rank};

impl Job {
    /// Ranks were started. The start of each is an event once.
    pub(super) fn learn_pids(&mut self, now: Time, pids: Vec<(Rank, u32)>) {
        for &(rank, pid) in pids.iter().filter(|(_, pid)| *pid != 0) {
            // A rank whose end is known may be in the table no longer.
            let is_late = self.recorder.started_late(now, rank, pid);
            let is_new = self.rank_table.member_mut(rank).is_some_and(|member| {
                !std::mem::replace(&mut member.is_started, true) && member.end.is_none()
            });
            if is_new
                && !is_late
                && let Some(host) = self.host_of(rank)
            {
                self.recorder.started(now, rank, pid, host);
            }
        }
        self.emit(Output::Pids(pids));
    }

    /// Notes the end of a living rank.
    pub(super) fn end_rank(&mut self, now: Time, rank: Rank, end: RankEnd) -> Option<Ended> {
        let (host, member) = (self.host_of(rank), self.rank_table.member(rank));
        let is_started = member.is_some_and(|member| member.is_started);
        let ended = self.rank_table.end(rank, end)?;
        if let Some(host) = host {
            self.recorder.ended(now, rank, is_started, host, end);
        }
        Some(ended)
    }

    /// Hosts of the ring have changed.
    pub(super) fn hosts_changed(
        &mut self,
        now: Time,
        changes: Vec<HostChange>,
        found: Vec<DaemonName>,
    ) {
        found.into_iter().for_each(|host| self.recorder.host_found(now, host));
        changes.into_iter().for_each(|change| self.recorder.host_changed(now, change));
    }

    /// Reports the events that the daemon does not have, if there is a subscriber.
    pub(super) fn report_events(&mut self) {
        loop {
            let events = self.recorder.take_unreported();
            if events.is_empty() {
                return;
            }
            self.emit(Output::Events(events));
        }
    }

    fn host_of(&self, rank: Rank) -> Option<DaemonName> {
        let host_slice = self.host_slices.get(self.tree_index_of(rank)?)?;
        Some(host_slice.member.clone())
    }
}
