//! The state of the spawns of a job, for listings: which ranks are blocked, and which spawns wait. The root reports it to
//! its daemon when it has changed, and not more often than every [`INTERVAL`].

use std::time::Duration;

use mpd_job::manager::{Manager, SpawnQueue};
use mpd_machine::Time;
use mpd_wire::RankSet;
use mpd_wire::message::{MAX_LISTED_RANKS, MAX_READY, ManagerReport, ReadySpawn, SpawnState};

use super::order::SpawnOrder;
use super::request::Request;
use crate::manager::context::Turn;

/// The shortest time between two reports.
const INTERVAL: Duration = Duration::from_millis(200);

/// Most characters of a program's name in a report.
const MAX_PROGRAM: usize = 100;

/// What was reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The counts of changes of the machine and of the queue at the last report.
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

    /// Reports the state if it may have changed.
    pub(super) fn report(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        queue: &SpawnQueue<Request>,
    ) {
        let at = (machine.freed(), queue.changes());
        if (queue.changes() == 0 && !machine.shrinks()) || at == self.at {
            return;
        }
        let now = turn.now();
        self.is_due = self.next.is_some_and(|next| now < next);
        if !self.is_due {
            (self.at, self.next) = (at, Some(now + INTERVAL));
            turn.send_to_daemon(ManagerReport::Spawns { state: state_of(machine, queue) });
        }
    }
}

fn state_of(machine: &Manager, queue: &SpawnQueue<Request>) -> SpawnState {
    let blocked = machine.blocked(queue.waiting().filter_map(|(spawner, _)| spawner)).ranks;
    let ready = queue.waiting().take(MAX_READY).map(|(spawner, request)| {
        // It was checked when it came.
        let order = SpawnOrder::decode(&request.order).ok();
        let argset = order.as_ref().and_then(|order| order.spec.argsets.first());
        let program = argset.map(|argset| String::from_utf8_lossy(&argset.program));
        let program = program.unwrap_or_default().chars().take(MAX_PROGRAM).collect();
        ReadySpawn { spawner, size: request.size, program }
    });
    SpawnState {
        blocked: blocked.into_iter().take(MAX_LISTED_RANKS).collect::<RankSet>(),
        ended: machine.ended().ranks().take(MAX_LISTED_RANKS).collect(),
        running: machine.running(),
        ready: ready.collect(),
        more_ready: u32::try_from(queue.waiting().len().saturating_sub(MAX_READY))
            .unwrap_or(u32::MAX),
    }
}
