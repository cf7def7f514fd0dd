//! The state of the spawns of a job, for listings: which ranks are blocked, and which spawns wait. The root reports it to
//! its daemon when it has changed, and not more often than every [`INTERVAL`].

use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::RankSet;
use mpd_wire::message::{MAX_LISTED_RANKS, MAX_READY, ReadySpawn, SpawnState};

use super::order::SpawnOrder;
use super::queue::SpawnQueue;
use super::request::Request;
use crate::manager::job::Job;

/// The shortest time between two reports.
const INTERVAL: Duration = Duration::from_millis(200);

/// Most characters of a program's name in a report.
const MAX_PROGRAM: usize = 100;

/// What was reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The counts of changes of the ranks and of the queue at the last report.
    at: (u64, u64),
    /// The time from which on the next report may be sent.
    next: Option<Time>,
    /// There is something to report then.
    is_due: bool,
}

impl Reports {
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.next.filter(|_| self.is_due)
    }

    /// The next daemon knows nothing.
    pub(super) fn begin_again(&mut self) {
        *self = Self::default();
    }

    /// The state to report now, if it may have changed.
    pub(super) fn next(
        &mut self,
        now: Time,
        job: &Job,
        queue: &SpawnQueue<Request>,
    ) -> Option<SpawnState> {
        let at = (job.rank_table.freed(), queue.changes());
        if (queue.changes() == 0 && !job.shrinks()) || at == self.at {
            return None;
        }
        self.is_due = self.next.is_some_and(|next| now < next);
        if self.is_due {
            return None;
        }
        (self.at, self.next) = (at, Some(now + INTERVAL));
        Some(state_of(job, queue))
    }
}

fn state_of(job: &Job, queue: &SpawnQueue<Request>) -> SpawnState {
    let blocked = job.rank_table.blocked(queue.waiting().filter_map(|(spawner, _)| spawner)).ranks;
    let ready = queue.waiting().take(MAX_READY).map(|(spawner, request)| {
        // It was checked when it came.
        let order = SpawnOrder::decode(&request.order.0).ok();
        let argset = order.as_ref().and_then(|order| order.spec.argsets.first());
        let program = argset.map(|argset| String::from_utf8_lossy(&argset.program));
        let program = program.unwrap_or_default().chars().take(MAX_PROGRAM).collect();
        ReadySpawn { spawner, size: request.size, program }
    });
    SpawnState {
        blocked: blocked.into_iter().take(MAX_LISTED_RANKS).collect::<RankSet>(),
        ended: job.rank_table.ended().ranks().take(MAX_LISTED_RANKS).collect(),
        running: job.running(),
        ready: ready.collect(),
        more_ready: u32::try_from(queue.waiting().len().saturating_sub(MAX_READY))
            .unwrap_or(u32::MAX),
    }
}
