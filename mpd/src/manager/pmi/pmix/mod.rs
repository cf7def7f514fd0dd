//! The PMIx clients among the ranks here: one listening socket on the loopback interface, and a connection per client.
//!
//! | module | has |
//! |---|---|
//! | [`listener`], [`client_connection`] | the listening socket, and the connection of one client |
//! | [`world_data`] | the data of the clients of one world |
//! | [`describe`], [`world_info`], [`known_worlds`] | the facts about worlds, of this host and of others; the variables of ranks |
//! | [`requests`], [`waiter`] | the operations of the clients, and the numbers of waiting operations |
//! | [`collective_operations`], [`collectives`] | fences and other operations of several processes |
//! | [`meetings`], [`across_jobs`], [`foreign_message`] | operations with processes of other jobs, and messages between the jobs |
//! | [`gets`], [`pending_gets`], [`missing`] | data that other processes committed, or not |
//! | [`peer_message`], [`routing`] | messages between managers |
//! | [`published`], [`name_requests`] | names that clients publish and look up |
//! | [`dynamic`] | processes that clients spawn |
//! | [`queries`] | questions about the system |
//! | [`events`], [`notice`] | events of clients, and of ranks that failed |
//! | [`budget`], [`ledger`] | what is kept for each rank, up to its budget |
//! | [`outward`], [`logs`] | texts and events of clients on their way out |
//! | [`clean_up`] | files and directories that clients register for removal |

mod across_jobs;
mod budget;
mod clean_up;
mod client_connection;
mod collective_operations;
mod collectives;
mod describe;
mod dynamic;
mod events;
mod foreign_message;
mod gets;
mod known_worlds;
mod ledger;
mod listener;
mod logs;
mod meetings;
mod missing;
mod name_requests;
mod notice;
mod outward;
mod peer_message;
mod pending_gets;
mod published;
mod queries;
mod requests;
mod routing;
mod waiter;
mod world_data;
mod world_info;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::time::Duration;

use mpd_job::manager::Input;
use mpd_machine::{Time, Timers};
use mpd_placement::locality::Topology;
use mpd_wire::Rank;
use pmix_proto::{Answer, Operation, Phase, Ticket};

use self::across_jobs::AcrossJobs;
use self::clean_up::CleanUps;
use self::client_connection::{ClientConnection, Clients};
pub(super) use self::collectives::Collective;
use self::collectives::Collectives;
pub(in crate::manager) use self::describe::variables_of;
use self::ledger::Ledger;
use self::listener::{Accepted, Listener};
use self::logs::Logs;
pub(in crate::manager) use self::logs::Room;
use self::name_requests::NameRequests;
pub(super) use self::name_requests::plain_value;
use self::pending_gets::Gets;
pub(super) use self::waiter::NameTicket;
use self::waiter::{Spawning, Waiter};
use self::world_data::WorldData;
use self::world_info::OtherWorlds;
use super::transfer::ReadProgress;
use crate::manager::context::{Job, Turn};
use crate::manager::event::Client;
use crate::manager::tokens::{FIRST_PMIX, PMIX};

/// How long a client that closed its connection early may take to end, or to connect again.
const CLOSED_GRACE: Duration = Duration::from_secs(2);

/// How long a connection may take to introduce itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// When to accept again after descriptors have run out, or while too many connections have not introduced themselves.
/// Also after a foreign connection, unless a rank here may be behind it.
const REST: Duration = Duration::from_millis(100);

/// Most connections that have not introduced themselves, besides one for each rank here.
const MAX_UNIDENTIFIED: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Descriptors may be free again.
    Accept,
    /// There may be room for texts and events.
    Out,
    /// The rest after foreign connections is over.
    Rest,
    /// A connection should have introduced itself.
    Introduce(usize),
    /// A client that closed its connection early should have ended.
    Lost(Rank),
    /// The time that a client gave for its request is over.
    Answer(Waiter),
    /// Names that are waited for may be there.
    Look(u64),
    /// The time of another host's or job's request for a key that a rank here does not offer is over.
    Missing(u64),
}

/// The PMIx clients of the ranks here.
#[derive(Debug, Default)]
pub(super) struct Pmix {
    clients: Clients,
    /// The ranks whose processes have not ended.
    running: BTreeMap<Rank, Client>,
    /// Those that may connect: they have no PMIx connection and no PMI session.
    expected: BTreeSet<Rank>,
    /// By the first rank of the world.
    worlds_data: BTreeMap<Rank, WorldData>,
    others: OtherWorlds,
    across_jobs: AcrossJobs,
    collectives: Collectives,
    gets: Gets,
    name_requests: NameRequests,
    spawning: Spawning,
    clean_ups: CleanUps,
    ledger: Ledger,
    logs: Logs,
    /// The number of the last event.
    last_event: u64,
    /// That of this host, once it is needed.
    topology: OnceCell<Topology>,
    /// Ranks whose misbehaviour was reported to the user.
    misbehaved: BTreeSet<Rank>,
    timers: Timers<Timer>,
    buffer: Vec<u8>,
}

impl Pmix {
    /// With this socket, else with one that is made when ranks are about to start.
    pub(super) fn listening(listener: Option<TcpListener>) -> Self {
        Self { clients: Clients { bound: listener, ..Clients::default() }, ..Self::default() }
    }

    /// Listens, since ranks are about to start. Returns the port. Without one, clients of PMIx run alone.
    pub(super) fn open(&mut self, turn: &mut Turn<'_>) -> Option<u16> {
        if turn.job.spec.no_pmix {
            self.clients.bound = None;
            return None;
        }
        match Listener::open(turn.registry, self.clients.bound.take()) {
            Ok(listener) => Some(self.clients.listener.insert(listener).port),
            Err(e) => {
                let (host, problem) = (turn.job.host(), mpd_io::logging::plain(&e));
                let text = format!("host {host}: programs of Open MPI will not work: {problem}");
                turn.post(Input::Notice(text));
                None
            }
        }
    }

    pub(super) fn has_work(&self) -> bool {
        !self.clients.talking.is_empty()
            || self
                .clients
                .listener
                .as_ref()
                .is_some_and(|listener| listener.is_ready && !self.is_paused())
    }

    fn is_paused(&self) -> bool {
        self.timers.is_set(Timer::Accept) || self.timers.is_set(Timer::Rest)
    }

    pub(super) fn has_answers(&self) -> bool {
        !self.clients.answering.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.across_jobs.next_deadline()).min()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        self.expire_meetings(turn);
        while let Some(timer) = self.timers.pop_expired(turn.now()) {
            match timer {
                Timer::Accept => self.close_unidentified(turn),
                Timer::Rest => self.resume(turn),
                Timer::Out => self.send_waiting(turn),
                Timer::Introduce(number) => self.close(turn, number),
                Timer::Lost(rank) => {
                    let problem = "closed its PMIx connection before MPI_Finalize".to_owned();
                    turn.post(Input::BrokeProtocol(rank, problem));
                }
                Timer::Answer(waiter) => self.expire_request(turn.job, waiter),
                Timer::Look(number) => self.look_again(turn.job, number),
                Timer::Missing(number) => self.expire_missing(turn, number),
            }
        }
    }

    fn expire_request(&mut self, job: &Job, (number, ticket): Waiter) {
        self.withdraw(|waiter| *waiter == (number, ticket));
        if let Some(rank) = self.rank_of(number) {
            self.recount(job, rank);
        }
        if let Some(connection) = self.clients.connections.get_mut(&number) {
            connection.session.expire(ticket);
            self.clients.answering.insert(number);
        }
    }

    /// Forgets the requests that match.
    fn withdraw(&mut self, matches: impl Fn(&Waiter) -> bool) {
        self.collectives.withdraw(&matches);
        self.gets.withdraw(&matches);
        self.name_requests.withdraw(&matches);
        self.logs.withdraw(&matches);
        self.spawning.retain(|_, waiter| !matches(waiter));
        for pending in self.others.pending.values_mut() {
            pending.retain(|one| !matches(&one.waiter()));
        }
    }

    // ----- ranks and worlds -----

    /// Notes that the process of a rank runs.
    pub(super) fn rank_started(&mut self, turn: &Turn<'_>, rank: Rank, client: Client) {
        self.running.insert(rank, client);
        self.expect(turn, rank);
    }

    /// Notes that a rank may connect.
    fn expect(&mut self, turn: &Turn<'_>, rank: Rank) {
        if self.running.contains_key(&rank) && self.expected.insert(rank) {
            self.resume(turn);
        }
    }

    /// Notes that a rank speaks PMI.
    pub(super) fn speaks_pmi(&mut self, rank: Rank) {
        self.expected.remove(&rank);
    }

    /// Notes that the process of a rank has ended, or has left the job.
    pub(super) fn rank_ended(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        self.running.remove(&rank);
        self.expected.remove(&rank);
        let first = self.collective(turn.job, rank).map(|(first, _)| first);
        if let Some(first) = first {
            self.world_data(first).ended.insert(rank);
        }
        self.timers.stop(Timer::Lost(rank));
        self.misbehaved.remove(&rank);
        if let Some(number) = self.clients.admitted.get(&rank).copied() {
            self.close(turn, number);
        }
        self.collectives.forget(rank);
        self.name_requests.rank_ended(rank, first);
        self.spawning.retain(|(spawner, _), _| *spawner != rank);
        self.review_gets(turn);
    }

    /// Forgets a spawned world whose ranks have ended.
    pub(super) fn forget_world(&mut self, first: Rank) {
        self.worlds_data.remove(&first);
        self.name_requests.world_ended(first);
    }

    /// Prepares another start of the debugged programs: their clients connect again.
    pub(super) fn restart(&mut self, turn: &mut Turn<'_>) {
        let first = self.clients.admitted.iter().filter(|(rank, _)| turn.job.is_first(**rank));
        for number in first.map(|(_, number)| *number).collect::<Vec<_>>() {
            self.close(turn, number);
        }
        self.worlds_data.remove(&Rank(0));
        self.collectives = Collectives::default();
    }

    fn world_data(&mut self, first: Rank) -> &mut WorldData {
        self.worlds_data.entry(first).or_default()
    }

    // ----- connections -----

    /// Notes an event. Whether the token is one of PMIx.
    pub(super) fn mark(&mut self, token: usize, is_readable: bool, has_ended: bool) -> bool {
        if token == PMIX {
            self.clients.listener.iter_mut().for_each(|listener| listener.is_ready = true);
            return true;
        }
        let Some(number) = token.checked_sub(FIRST_PMIX) else { return false };
        let Some(connection) = self.clients.connections.get_mut(&number) else { return false };
        connection.is_ending |= has_ended;
        if is_readable || has_ended {
            self.clients.talking.push_back(number);
        }
        self.clients.answering.insert(number);
        true
    }

    /// Accepts waiting connections, and reads each connection with unread data once.
    pub(super) fn serve(&mut self, turn: &mut Turn<'_>) {
        self.accept(turn);
        for _ in 0..self.clients.talking.len() {
            let Some(number) = self.clients.talking.pop_front() else { return };
            if self.read(turn, number) == ReadProgress::More {
                self.clients.talking.push_back(number);
            }
        }
    }

    fn accept(&mut self, turn: &mut Turn<'_>) {
        let is_paused = self.is_paused();
        let listener = self.clients.listener.as_mut();
        let Some(listener) = listener.filter(|it| it.is_ready && !is_paused) else { return };
        let accepted = listener.accept().unwrap_or_else(|e| {
            log::warn!("cannot accept a PMIx client: {e}");
            self.timers.set(Timer::Accept, turn.now() + REST);
            Accepted::default()
        });
        // Those of other users wait, so that their number does not matter. An own one may wait among them.
        if accepted.met_foreign && (accepted.was_slow || self.expected.is_empty()) {
            listener.rest(turn.registry);
            self.timers.set(Timer::Rest, turn.now() + REST);
        }
        for stream in accepted.own {
            let number = self.clients.next;
            match ClientConnection::new(turn.registry, FIRST_PMIX + number, stream) {
                Ok(connection) => drop(self.clients.connections.insert(number, connection)),
                Err(e) => {
                    log::warn!("cannot watch a PMIx client: {e}");
                    continue;
                }
            }
            self.clients.next += 1;
            self.timers.set(Timer::Introduce(number), turn.now() + PATIENCE);
            self.clients.talking.push_back(number);
        }
        // Among many others, a rank has time to introduce itself.
        if !self.too_many_unidentified().is_empty() {
            self.timers.set(Timer::Accept, turn.now() + REST);
        }
    }

    /// Ends a rest of the listener.
    fn resume(&mut self, turn: &Turn<'_>) {
        self.timers.stop(Timer::Rest);
        let resumed = self.clients.listener.as_mut().map(|listener| listener.resume(turn.registry));
        if let Some(Err(e)) = resumed {
            log::warn!("cannot watch for PMIx clients: {e}");
            self.timers.set(Timer::Rest, turn.now() + REST);
        }
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

    fn close_unidentified(&mut self, turn: &mut Turn<'_>) {
        for number in self.too_many_unidentified() {
            self.close(turn, number);
        }
    }

    fn read(&mut self, turn: &mut Turn<'_>, number: usize) -> ReadProgress {
        const READ: usize = 64 * 1024;
        self.buffer.resize(READ, 0);
        let Some(connection) = self.clients.connections.get_mut(&number) else {
            return ReadProgress::Drained;
        };
        if connection.waits_for_budget() {
            self.note_over_budget(turn, number);
            return ReadProgress::Drained;
        }
        let progress = connection.read(&mut self.buffer);
        if progress == ReadProgress::Closed {
            self.end_of_stream(turn, number);
        } else {
            self.perform_operations(turn, number);
        }
        self.clients.answering.insert(number);
        progress
    }

    /// The client has closed its connection. What it sent before is still performed.
    fn end_of_stream(&mut self, turn: &mut Turn<'_>, number: usize) {
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        let is_unfinished = connection.session.phase() == Phase::Connected;
        connection.session.end_of_stream();
        self.perform_operations(turn, number);
        let Some(connection) = self.clients.connections.get(&number) else { return };
        let has_finalized = !is_unfinished || connection.session.phase() == Phase::Finalized;
        if let Some(rank) = connection.rank.filter(|_| !has_finalized) {
            // Debugged programs may end and start again.
            let client = self.running.get(&rank).copied();
            if client.is_some_and(|client| client != Client::Debugged) {
                self.timers.set(Timer::Lost(rank), turn.now() + CLOSED_GRACE);
            }
        }
        self.close(turn, number);
    }

    /// Forgets a connection and its requests.
    fn close(&mut self, turn: &mut Turn<'_>, number: usize) {
        let Some(connection) = self.clients.connections.remove(&number) else { return };
        self.timers.stop(Timer::Introduce(number));
        self.withdraw(|waiter| waiter.0 == number);
        for ticket in connection.session.open() {
            self.timers.stop(Timer::Answer((number, ticket)));
        }
        if let Some(rank) = connection.rank {
            self.clients.admitted.remove(&rank);
            self.expect(turn, rank);
            log::debug!("rank {}: its PMIx connection is closed", turn.job.name_of(rank));
        }
    }

    /// Reads all remaining requests of a rank that has ended.
    pub(super) fn read_to_the_end(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        // Bounded: the rank is dead, but other processes may still write to its connection.
        const MAX_READS: usize = 64;
        // It may have connected and finalized since the last turn.
        self.accept(turn);
        let unidentified = self
            .clients
            .connections
            .iter()
            .filter(|(_, connection)| connection.rank.is_none_or(|of| of == rank));
        for number in unidentified.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(connection) = self.clients.connections.get_mut(&number) {
                connection.is_ending |= connection.rank.is_some();
            }
            for _ in 0..MAX_READS {
                if self.read(turn, number) != ReadProgress::More {
                    break;
                }
            }
        }
    }

    /// Performs the waiting requests of a client.
    fn perform_operations(&mut self, turn: &mut Turn<'_>, number: usize) {
        while let Some((ticket, operation)) = self.next_operation(number) {
            self.perform(turn, (number, ticket), operation);
        }
    }

    fn next_operation(&mut self, number: usize) -> Option<(Ticket, Operation)> {
        self.clients.connections.get_mut(&number)?.session.poll_operation()
    }

    /// Writes the answers of a turn. All waiting requests are read before, as for PMI.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        while let Some(number) = self.clients.answering.pop_first() {
            self.perform_operations(turn, number);
            let Some(connection) = self.clients.connections.get_mut(&number) else { continue };
            connection.flush();
            if connection.may_continue() {
                self.clients.talking.push_back(number);
            }
            if connection.session.is_to_be_closed() {
                self.close(turn, number);
                continue;
            }
            // Requests that waited for room in the output buffer follow now.
            while let Some((ticket, operation)) = self.next_operation(number) {
                self.perform(turn, (number, ticket), operation);
                self.clients.answering.insert(number);
            }
        }
    }

    fn answer(&mut self, (number, ticket): Waiter, answer: Answer<'_>) {
        self.timers.stop(Timer::Answer((number, ticket)));
        if let Some(connection) = self.clients.connections.get_mut(&number) {
            connection.session.answer(ticket, answer);
            self.clients.answering.insert(number);
        }
    }

    /// Begins the time that a client gave for its request.
    fn limit(&mut self, turn: &Turn<'_>, waiter: Waiter, seconds: Option<u32>) {
        if let Some(seconds) = seconds {
            let limit = Duration::from_secs(seconds.into());
            self.timers.set(Timer::Answer(waiter), turn.now() + limit);
        }
    }

    /// The estimated memory of a request that waits.
    fn size_of(&self, (number, ticket): Waiter) -> usize {
        let connection = self.clients.connections.get(&number);
        connection.map_or(0, |connection| connection.session.size_of(ticket))
    }

    /// The rank of an admitted connection.
    fn rank_of(&self, number: usize) -> Option<Rank> {
        self.clients.connections.get(&number)?.rank
    }

    /// The first rank of a rank's world, and its number within the world.
    fn collective(&self, job: &Job, rank: Rank) -> Option<(Rank, u32)> {
        let numbers = self.known_of(job, rank)?.numbers;
        Some((numbers.first, numbers.own(rank).0))
    }
}
