//! Connections that arrive, and which of them are admitted as clients.

use std::time::Duration;

use mpd_job::manager::Input;
use mpd_wire::Rank;
use pmix_proto::connect::{Expectation, Introduction};
use pmix_proto::view::WILDCARD;

use super::client_connection::ClientConnection;
use super::{Pmix, Timer, describe};
use crate::client::Client;
use crate::input::Accepted;
use crate::output::{Action, Level, Output};
use crate::turn::Turn;

/// How long a connection may take to introduce itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// When to accept again after descriptors have run out, or while too many connections have not introduced themselves.
/// Also after a foreign connection, unless a rank here may be behind it.
const REST: Duration = Duration::from_millis(100);

/// Most connections that have not introduced themselves, besides one for each rank here.
const MAX_UNIDENTIFIED: usize = 64;

impl Pmix {
    // ----- the port -----

    /// Whether connections may be accepted now.
    pub(crate) fn may_accept(&self) -> bool {
        !(self.timers.is_set(Timer::Accept) || self.timers.is_set(Timer::Rest))
    }

    /// Handles connections that have arrived.
    pub(crate) fn accept(&mut self, turn: &mut Turn<'_>, accepted: &Accepted) {
        let again = turn.now() + REST;
        if accepted.has_failed {
            self.timers.set(Timer::Accept, again);
        }
        // Those of other users wait, so that their number does not matter. An own one may wait among them.
        if accepted.met_foreign && (accepted.was_slow || !self.running.is_any_expected()) {
            turn.report(Output::Act(Action::Rest));
            self.timers.set(Timer::Rest, again);
        }
        for &number in &accepted.own {
            self.clients.connections.insert(number, ClientConnection::default());
            self.timers.set(Timer::Introduce(number), turn.now() + PATIENCE);
        }
        // Among many others, a rank has time to introduce itself.
        if !self.too_many_unidentified().is_empty() {
            self.timers.set(Timer::Accept, again);
        }
    }

    /// There is no port, so clients of PMIx run alone.
    pub(crate) fn report_no_port(turn: &mut Turn<'_>, problem: &str) {
        let host = turn.job.host();
        let text = format!("host {host}: programs of Open MPI will not work: {problem}");
        turn.post(Input::Notice(text));
    }

    /// Ends a rest of the port, if there is one.
    pub(super) fn end_rest(&mut self, turn: &mut Turn<'_>) {
        if self.timers.is_set(Timer::Rest) {
            self.timers.stop(Timer::Rest);
            turn.report(Output::Act(Action::Listen));
        }
    }

    /// The port could not end its rest.
    pub(crate) fn rest_again(&mut self, turn: &Turn<'_>) {
        self.timers.set(Timer::Rest, turn.now() + REST);
    }

    /// The oldest connections that have not introduced themselves, beyond the limit.
    fn too_many_unidentified(&self) -> Vec<usize> {
        let connections = self.clients.connections.iter();
        let unidentified = connections.filter(|(_, connection)| connection.rank.is_none());
        let mut oldest: Vec<usize> = unidentified.map(|(number, _)| *number).collect();
        let most = MAX_UNIDENTIFIED + self.running.len();
        oldest.truncate(oldest.len().saturating_sub(most));
        oldest
    }

    pub(super) fn close_unidentified(&mut self, turn: &mut Turn<'_>) {
        for number in self.too_many_unidentified() {
            self.close(turn, number);
        }
    }

    // ----- reading -----

    /// Whether a connection may be read now. `is_ending`: its client has closed it.
    pub(crate) fn may_read(&mut self, turn: &mut Turn<'_>, number: usize, is_ending: bool) -> bool {
        let Some(connection) = self.clients.connections.get_mut(&number) else { return false };
        let waits = connection.waits_for_budget(is_ending);
        if waits {
            self.note_over_budget(turn, number);
        }
        !waits
    }

    /// The connections that may be of a rank, and whether each is known to be its own.
    pub(crate) fn connections_of(&self, rank: Rank) -> Vec<(usize, bool)> {
        let connections = self.clients.connections.iter();
        let possible = connections.filter(|(_, it)| it.rank.is_none_or(|of| of == rank));
        possible.map(|(number, it)| (*number, it.rank.is_some())).collect()
    }

    // ----- introductions -----

    /// A connection says which rank its client is.
    pub(super) fn introduce(
        &mut self,
        turn: &mut Turn<'_>,
        number: usize,
        introduction: Introduction,
    ) {
        // A program that replaced another one may connect before the end of the old connection was read.
        let rank = rank_of(turn, &introduction).map(|(rank, _)| rank);
        let old = rank.and_then(|rank| self.running.connection(rank));
        match old.filter(|old| *old != number) {
            Some(old) => {
                self.clients.introduced.push((old, number, introduction));
                turn.report(Output::Act(Action::Probe(old)));
            }
            None => self.decide(turn, number, &introduction),
        }
    }

    /// An old connection was read.
    pub(crate) fn probed(&mut self, turn: &mut Turn<'_>, old: usize) {
        let waiting: Vec<_> = self.clients.introduced.extract_if(.., |it| it.0 == old).collect();
        for (_, number, introduction) in waiting {
            self.decide(turn, number, &introduction);
            self.perform_operations(turn, number);
            self.clients.answering.insert(number);
        }
    }

    /// Admits or refuses a client.
    fn decide(&mut self, turn: &mut Turn<'_>, number: usize, introduction: &Introduction) {
        let (rank, namespace) = rank_of(turn, introduction).unzip();
        let uid = turn.job.host_facts.user();
        let decision = introduction.check(&Expectation {
            // A namespace that no client can name: a name has no zero byte.
            namespace: namespace.as_ref().map_or(b"\0", |name| name.as_bytes()),
            uid,
            // The kernel was asked when the connection was accepted.
            peer_uid: Some(uid),
            is_running: introduction.rank != WILDCARD
                && rank.is_some_and(|rank| self.running.contains(rank)),
            is_connected: rank.is_some_and(|rank| self.running.connection(rank).is_some()),
        });
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        self.timers.stop(Timer::Introduce(number));
        match (decision, rank) {
            (Ok(encoding), Some(rank)) => {
                connection.rank = Some(rank);
                connection.session.admit(introduction, encoding, introduction.rank);
                self.running.connect(rank, number);
                self.recount(turn.job, rank);
                self.initialized(turn, rank);
            }
            (Err(refusal), _) => {
                turn.log(Level::Info, format!("a PMIx client is refused: {refusal}"));
                connection.session.refuse(refusal);
            }
            (Ok(_), None) => {}
        }
    }

    fn initialized(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let name = turn.job.name_of(rank);
        turn.log(Level::Debug, format!("rank {name}: speaks PMIx"));
        self.timers.stop(Timer::Lost(rank));
        if let Some(world) = turn.job.worlds.of(rank) {
            let directory = describe::directory(turn.job, world.numbers.number);
            turn.report(Output::Act(Action::MakeDirectory(directory)));
        }
        // Only ranks of the first world count.
        if turn.job.is_first(rank) {
            turn.report(Output::Speaks);
        }
        if self.running.client(rank) != Some(Client::Adopted) {
            turn.post(Input::Initialized(rank));
        }
    }
}

/// The rank here that a connection introduces itself as, and the namespace of its world.
fn rank_of(turn: &Turn<'_>, introduction: &Introduction) -> Option<(Rank, String)> {
    let number = describe::number_of(turn.job, &introduction.namespace)?;
    let world = turn.job.worlds.all().find(|one| one.numbers.number == number)?;
    let numbers = Some(world.numbers).filter(|numbers| introduction.rank < numbers.size)?;
    let namespace = describe::namespace(turn.job, number);
    Some((numbers.in_job(Rank(introduction.rank)), namespace))
}
