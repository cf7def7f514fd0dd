//! The machine: the clients of one host, behind the methods that every machine has.

use std::collections::VecDeque;

use mpd_sansio::{Time, UNDRAINED};
use mpd_wire::Rank;

use crate::client::ConnectionId;
use crate::input::Input;
use crate::job::Job;
use crate::output::Output;
use crate::pmix::Room;
use crate::router::Router;
use crate::turn::Turn;

/// The PMI and PMIx clients among the ranks of one host.
///
/// It is driven as every machine: after each call, the owner takes all outputs before the next call. Each call also gets the
/// facts of the job. The bytes for clients are no outputs: the owner writes those of [`Clients::output`] for each
/// connection that [`Clients::next_answering`] names. So they are not copied.
#[derive(Debug)]
pub struct Clients {
    router: Router,
    outputs: VecDeque<Output>,
}

impl Clients {
    /// The clients of a job whose ranks have not been started.
    pub fn new(job: &Job) -> Self {
        Self { router: Router::new(job), outputs: VecDeque::new() }
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Time, job: &Job, input: Input<'_>) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.router.route(&mut Turn::new(now, job, &mut self.outputs), input);
    }

    /// Acts on every deadline at or before `now`.
    pub fn handle_timeout(&mut self, now: Time, job: &Job) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.router.expire(&mut Turn::new(now, job, &mut self.outputs));
    }

    /// The next output; `None` when all are taken.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Clients::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.router.next_deadline()
    }

    // ----- reading -----

    /// Whether the owner must not read ranks of the first world or PMIx clients, because the console holds the job.
    pub const fn is_paused(&self) -> bool {
        self.router.is_paused
    }

    /// Whether PMIx connections may be accepted now.
    pub fn may_accept(&self) -> bool {
        self.router.pmix.may_accept()
    }

    /// Whether a PMIx connection may be read now. `is_ending`: its client has closed it.
    pub fn may_read(&mut self, now: Time, job: &Job, number: usize, is_ending: bool) -> bool {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        let turn = &mut Turn::new(now, job, &mut self.outputs);
        self.router.pmix.may_read(turn, number, is_ending)
    }

    /// The PMIx connections that may be of a rank that has ended, and whether each is known to be its own. The others
    /// have not introduced themselves.
    pub fn connections_of(&self, rank: Rank) -> Vec<(usize, bool)> {
        self.router.pmix.connections_of(rank)
    }

    /// Sets how many more bytes of clients' texts and events the manager may queue.
    pub const fn set_room(&mut self, room: Room) {
        self.router.pmix.note_room(room);
    }

    // ----- writing -----

    /// Whether answers are to be written.
    pub fn has_answers(&self) -> bool {
        self.router.pmi.has_answers() || self.router.pmix.has_answers()
    }

    /// A client accepts bytes.
    pub fn note_writable(&mut self, id: ConnectionId) {
        match id {
            ConnectionId::Pmi(rank) => self.router.pmi.note_writable(rank),
            ConnectionId::Pmix(number) => self.router.pmix.note_writable(number),
        }
    }

    /// The next connection whose answers are to be written.
    pub fn next_answering(&mut self) -> Option<ConnectionId> {
        let pmix = self.router.pmix.next_answering().map(ConnectionId::Pmix);
        pmix.or_else(|| self.router.pmi.next_answering().map(ConnectionId::Pmi))
    }

    /// The bytes for a client.
    pub fn output(&self, id: ConnectionId) -> &[u8] {
        match id {
            ConnectionId::Pmi(rank) => self.router.pmi.output(rank),
            ConnectionId::Pmix(number) => self.router.pmix.output(number),
        }
    }

    /// The first `bytes` of these were written.
    pub fn consume(&mut self, id: ConnectionId, bytes: usize) {
        match id {
            ConnectionId::Pmi(rank) => self.router.pmi.consume(rank, bytes),
            ConnectionId::Pmix(number) => self.router.pmix.consume(number, bytes),
        }
    }
}
