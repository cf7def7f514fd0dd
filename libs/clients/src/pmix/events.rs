//! Events: those that clients send to each other, and the failures of ranks in a job that continues.
//!
//! The root decides the order. An event goes up to the root, and from there to all hosts. Each host delivers it to its
//! clients in the range, and keeps it for its ranks that register later. An event and a fence stay in order on each
//! link: a process that leaves a fence after an event can register and gets it.

use std::rc::Rc;

use mpd_job::manager::Input;
use mpd_wire::Rank;
use pmix_proto::event_log::OrderedEvent;
use pmix_proto::limits::MAX_EVENT_BYTES;
use pmix_proto::message::write_relayed;
use pmix_proto::view::{Info, Proc, WILDCARD};
use pmix_proto::{Answer, Event, Range, Status};

use super::notice::Notice;
use super::peer_message::{PeerMessage, Route};
use super::routing::{pass_down, send};
use super::waiter::Waiter;
use super::world_info::ROOT;
use super::{Pmix, describe};
use crate::job::Job;
use crate::turn::Turn;

impl Pmix {
    /// Handles the failure of a rank in a job that continues. Ranks that registered for it get an event; so do ranks of
    /// its world that register later.
    pub(crate) fn note_dead(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let proc = describe::proc_of(turn.job, &world.numbers, rank);
        self.world_data(world.numbers.first).dead.insert(rank);
        let event = Event {
            status: Status::ABORTED_BY_SIGNAL,
            source: proc.clone(),
            range: Range::Namespace,
            targets: Vec::new(),
            info: vec![Info::new("pmix.evproc", proc.value())],
        };
        // Every host learns of the failure, but only the root's event counts.
        if turn.job.is_root() {
            self.order(turn, rank, Notice { host: 0, has_default: false, event });
        }
    }

    /// A client sends an event.
    pub(super) fn forward(
        &mut self,
        turn: &mut Turn<'_>,
        waiter: Waiter,
        rank: Rank,
        event: Event,
    ) {
        let is_too_long = write_relayed(&event).len() > MAX_EVENT_BYTES;
        let status = if is_too_long { Status::OUT_OF_RESOURCE } else { Status::SUCCESS };
        self.answer(waiter, Answer::Done(status));
        // Libraries deliver to the process itself, and there is no other manager of resources.
        if is_too_long || matches!(event.range, Range::Manager | Range::Own) {
            return;
        }
        let host = u32::try_from(turn.job.tree_index()).unwrap_or(u32::MAX);
        let notice = Notice { host, has_default: true, event };
        match turn.job.is_root() {
            true => self.order(turn, rank, notice),
            false => send(turn, ROOT, &PeerMessage::Notify(rank, Box::new(notice))),
        }
    }

    /// At the root: the event is the next one for all hosts.
    pub(super) fn order(&mut self, turn: &mut Turn<'_>, rank: Rank, notice: Notice) {
        let message = PeerMessage::Event(rank, Box::new(notice.clone()));
        for frame in message.frames(Route::Shared) {
            pass_down(turn, &frame);
        }
        self.take_event(turn, notice);
    }

    /// The next event, as the root ordered it.
    pub(super) fn take_event(&mut self, turn: &Turn<'_>, notice: Notice) {
        let Notice { host, has_default, event } = notice;
        if event.range == Range::Local && host as usize != turn.job.tree_index() {
            return;
        }
        self.last_event += 1;
        let bytes = write_relayed(&event).len();
        let ordered = Rc::new(OrderedEvent { number: self.last_event, has_default, event });
        for (number, connection) in &mut self.clients.connections {
            let session = &mut connection.session;
            let is_for_it = connection.rank.is_some() && is_for(&ordered.event, session.proc());
            if is_for_it && session.notify(&ordered) {
                self.clients.answering.insert(*number);
            }
        }
        let here = turn.job.worlds.all().filter(|world| !world.here.is_empty());
        for world in here {
            let namespace = describe::namespace(turn.job, world.numbers.number);
            if may_reach(&ordered.event, namespace.as_bytes()) {
                let world_data = self.worlds_data.entry(world.numbers.first).or_default();
                world_data.events.record(Rc::clone(&ordered), bytes);
            }
        }
    }

    /// Sends the kept events to a client that has just registered, as far as it wants them and has not got them.
    /// `codes` are those that it has registered for the first time.
    pub(super) fn deliver_late(&mut self, turn: &mut Turn<'_>, number: usize, codes: &[Status]) {
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        let Some(rank) = connection.rank else { return };
        let Some(first) = first_of(turn.job, rank) else { return };
        let Some(world_data) = self.worlds_data.get(&first) else { return };
        if world_data.events.has_gap(codes) && !connection.misses_events {
            connection.misses_events = true;
            let name = turn.job.name_of(rank);
            let text = "misses events of PMIx: too many came before it registered for them";
            turn.post(Input::Notice(format!("rank {name}: {text}")));
        }
        for ordered in world_data.events.kept() {
            if is_for(&ordered.event, connection.session.proc()) {
                connection.session.notify(ordered);
            }
        }
        self.clients.answering.insert(number);
    }
}

fn first_of(job: &Job, rank: Rank) -> Option<Rank> {
    job.worlds.of(rank).map(|world| world.numbers.first)
}

/// Whether an event may reach processes of a namespace of this job.
fn may_reach(event: &Event, namespace: &[u8]) -> bool {
    match event.range {
        Range::Manager | Range::Own => false,
        Range::Namespace => event.source.namespace == namespace,
        Range::Custom => event.targets.iter().any(|target| target.namespace == namespace),
        Range::Local | Range::Session | Range::Global => true,
    }
}

/// Whether an event is for a process here. The library of the sender delivers it to the sender.
fn is_for(event: &Event, proc: &Proc) -> bool {
    let is_of = |target: &Proc| {
        target.namespace == proc.namespace && (target.rank == proc.rank || target.rank == WILDCARD)
    };
    *proc != event.source
        && may_reach(event, &proc.namespace)
        && (event.range != Range::Custom || event.targets.iter().any(is_of))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(range: Range, targets: &[Proc]) -> Event {
        let source = Proc::new("a", 0);
        Event { status: Status::ERROR, source, range, targets: targets.to_vec(), info: vec![] }
    }

    #[test]
    fn an_event_is_for_the_processes_of_its_range_but_not_for_its_sender() {
        let procs =
            [("a", 0), ("a", 1), ("b", 0), ("b", 1)].map(|(name, rank)| Proc::new(name, rank));
        let receivers = |event: &Event| procs.clone().map(|proc| is_for(event, &proc));
        for range in [Range::Manager, Range::Own] {
            assert_eq!(receivers(&event(range, &[])), [false; 4]);
        }
        assert_eq!(receivers(&event(Range::Namespace, &[])), [false, true, false, false]);
        for range in [Range::Local, Range::Session, Range::Global] {
            assert_eq!(receivers(&event(range, &[])), [false, true, true, true]);
        }
        let one = event(Range::Custom, &[Proc::new("b", 1), Proc::new("c", 0)]);
        assert_eq!(receivers(&one), [false, false, false, true]);
        let all = event(Range::Custom, &[Proc::all("a")]);
        assert_eq!(receivers(&all), [false, true, false, false]);
    }
}
