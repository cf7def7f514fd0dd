//! Events: those that clients send to each other, and the failure of a rank in a job that continues.

use mpd_wire::Rank;
use pmix_proto::view::{Info, Proc, WILDCARD};
use pmix_proto::{Event, Range, Status};

use super::{Pmix, describe};
use crate::manager::context::Turn;

impl Pmix {
    /// Handles the failure of a rank in a job that continues. Ranks that registered for it get an event; so do ranks of
    /// its world that register later.
    pub(in crate::manager::pmi) fn note_dead(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let proc = describe::proc_of(turn.job, &world.numbers, rank);
        let world_data = self.world_data(world.numbers.first);
        world_data.dead.insert(rank);
        let event = Event {
            status: Status::ABORTED_BY_SIGNAL,
            source: proc.clone(),
            range: Range::Namespace,
            targets: Vec::new(),
            info: vec![Info::new("pmix.evproc", proc.value())],
        };
        world_data.events.record(event.clone());
        self.deliver(&event);
    }

    /// Sends an event of a client to the clients that may have it.
    pub(super) fn forward(&mut self, turn: &Turn<'_>, from: Rank, event: Event) {
        if matches!(event.range, Range::Manager | Range::Own) {
            return;
        }
        let Some(world) = turn.job.worlds.of(from) else { return };
        self.deliver(&event);
        self.world_data(world.numbers.first).events.record(event);
    }

    /// Sends an event to the clients here that are registered for it.
    pub(super) fn deliver(&mut self, event: &Event) {
        for (number, connection) in &mut self.clients.connections {
            let proc = connection.session.proc();
            let matches = *proc != event.source && is_in_range(event, proc);
            if connection.rank.is_some() && matches && connection.session.notify(event, false) {
                self.clients.answering.insert(*number);
            }
        }
    }

    /// Sends the kept events of these codes to a client that has just registered for them.
    pub(super) fn deliver_late(&mut self, turn: &Turn<'_>, number: usize, codes: &[Status]) {
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        let world = connection.rank.and_then(|rank| turn.job.worlds.of(rank));
        let world_data = world.and_then(|world| self.worlds_data.get(&world.numbers.first));
        let Some(world_data) = world_data else { return };
        let late = world_data.events.late(codes);
        if late.is_incomplete {
            log::warn!("events for a late registration are lost: more than are kept");
        }
        for event in late.events {
            let proc = connection.session.proc();
            if *proc != event.source && is_in_range(event, proc) {
                connection.session.notify(event, false);
            }
        }
        self.clients.answering.insert(number);
    }
}

/// Whether an event of a process of this job may reach a process here.
fn is_in_range(event: &Event, proc: &Proc) -> bool {
    let is_of = |target: &Proc| {
        target.namespace == proc.namespace && (target.rank == proc.rank || target.rank == WILDCARD)
    };
    match event.range {
        Range::Manager | Range::Own => false,
        Range::Namespace => event.source.namespace == proc.namespace,
        Range::Custom => event.targets.iter().any(is_of),
        Range::Local | Range::Session | Range::Global => true,
    }
}
