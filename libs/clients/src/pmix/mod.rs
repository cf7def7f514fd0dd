//! The PMIx clients among the ranks here. Each has a connection to one port on the loopback interface.
//!
//! | module | has |
//! |---|---|
//! | [`admission`], [`client_connection`] | connections that arrive, and the session of one client |
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
//! | [`running_ranks`] | the ranks whose processes run, and their connections |
//! | [`budget`], [`ledger`] | what is kept for each rank, up to its budget |
//! | [`outward`], [`logs`] | texts and events of clients on their way out |
//! | [`clean_up`] | files and directories that clients register for removal |

mod across_jobs;
mod admission;
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
mod running_ranks;
mod waiter;
mod world_data;
mod world_info;

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_job::manager::Input;
use mpd_sansio::{Time, Timers};
use mpd_wire::Rank;
use pmix_proto::{Answer, Operation, Phase, Ticket};

use self::across_jobs::AcrossJobs;
use self::clean_up::CleanUps;
use self::client_connection::Clients;
pub(crate) use self::collectives::Collective;
use self::collectives::Collectives;
pub use self::describe::variables_of;
pub(crate) use self::gets::is_of_pmix;
use self::ledger::Ledger;
use self::logs::Logs;
pub use self::logs::Room;
use self::name_requests::NameRequests;
pub(crate) use self::name_requests::plain_value;
use self::pending_gets::Gets;
use self::running_ranks::RunningRanks;
pub(crate) use self::waiter::NameTicket;
use self::waiter::{Spawning, Waiter};
use self::world_data::WorldData;
use self::world_info::OtherWorlds;
use crate::client::{Client, ConnectionId};
use crate::input::FromClient;
use crate::job::Job;
use crate::output::{Action, Level, Output};
use crate::turn::Turn;

/// How long a client that closed its connection early may take to end, or to connect again.
const CLOSED_GRACE: Duration = Duration::from_secs(2);

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
pub(crate) struct Pmix {
    clients: Clients,
    running: RunningRanks,
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
    timers: Timers<Timer>,
}

impl Pmix {
    /// Whether answers are to be written.
    pub(crate) fn has_answers(&self) -> bool {
        !self.clients.answering.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.across_jobs.next_deadline()).min()
    }

    pub(crate) fn expire(&mut self, turn: &mut Turn<'_>) {
        self.expire_meetings(turn);
        while let Some(timer) = self.timers.pop_expired(turn.now()) {
            match timer {
                Timer::Accept => self.close_unidentified(turn),
                Timer::Rest => turn.report(Output::Act(Action::Listen)),
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
    pub(crate) fn rank_started(&mut self, turn: &mut Turn<'_>, rank: Rank, client: Client) {
        self.running.insert(rank, client);
        self.expect(turn, rank);
    }

    /// Notes that a rank may connect.
    fn expect(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        if self.running.expect(rank) {
            self.end_rest(turn);
        }
    }

    /// Notes that a rank speaks PMI.
    pub(crate) fn speaks_pmi(&mut self, rank: Rank) {
        self.running.speaks_pmi(rank);
    }

    /// Notes that the process of a rank has ended, or has left the job.
    pub(crate) fn rank_ended(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let connection = self.running.remove(rank);
        let first = self.collective(turn.job, rank).map(|(first, _)| first);
        if let Some(first) = first {
            self.world_data(first).ended.insert(rank);
        }
        self.timers.stop(Timer::Lost(rank));
        if let Some(number) = connection {
            self.close(turn, number);
        }
        self.collectives.forget(rank);
        self.name_requests.rank_ended(rank, first);
        self.spawning.retain(|(spawner, _), _| *spawner != rank);
        self.review_gets(turn);
    }

    /// Forgets a spawned world whose ranks have ended.
    pub(crate) fn forget_world(&mut self, first: Rank) {
        self.worlds_data.remove(&first);
        self.name_requests.world_ended(first);
    }

    /// Prepares another start of the debugged programs: their clients connect again.
    pub(crate) fn restart(&mut self, turn: &mut Turn<'_>) {
        for number in self.running.connections(|rank| turn.job.is_first(rank)) {
            self.close(turn, number);
        }
        self.worlds_data.remove(&Rank(0));
        self.collectives = Collectives::default();
    }

    fn world_data(&mut self, first: Rank) -> &mut WorldData {
        self.worlds_data.entry(first).or_default()
    }

    // ----- connections -----

    /// The next connection whose answers are to be written.
    pub(crate) fn next_answering(&mut self) -> Option<usize> {
        self.clients.answering.pop_first()
    }

    /// A client accepts bytes.
    pub(crate) fn note_writable(&mut self, number: usize) {
        if self.clients.connections.contains_key(&number) {
            self.clients.answering.insert(number);
        }
    }

    /// The bytes for a client.
    pub(crate) fn output(&self, number: usize) -> &[u8] {
        let connection = self.clients.connections.get(&number);
        connection.map_or(&[], |connection| connection.session.output())
    }

    /// The first `bytes` of these were written.
    pub(crate) fn consume(&mut self, number: usize, bytes: usize) {
        if let Some(connection) = self.clients.connections.get_mut(&number) {
            connection.session.consume(bytes);
        }
    }

    /// Takes an event of a connection.
    pub(crate) fn take(&mut self, turn: &mut Turn<'_>, number: usize, event: FromClient<'_>) {
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        match event {
            FromClient::Received(bytes) => {
                connection.session.receive(bytes);
                self.perform_operations(turn, number);
                self.clients.answering.insert(number);
            }
            FromClient::Closed => self.end_of_stream(turn, number),
            FromClient::Writing => self.perform_operations(turn, number),
            FromClient::Written => self.written(turn, number),
        }
    }

    /// The answers of a client were written.
    fn written(&mut self, turn: &mut Turn<'_>, number: usize) {
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        if connection.may_continue() {
            turn.report(Output::Act(Action::Resume(number)));
        }
        if connection.session.is_to_be_closed() {
            return self.close(turn, number);
        }
        // Requests that waited for room in the output buffer follow now.
        while let Some((ticket, operation)) = self.next_operation(number) {
            self.perform(turn, (number, ticket), operation);
            self.clients.answering.insert(number);
        }
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
            let client = self.running.client(rank);
            if client.is_some_and(|client| client != Client::Debugged) {
                self.timers.set(Timer::Lost(rank), turn.now() + CLOSED_GRACE);
            }
        }
        self.close(turn, number);
    }

    /// Forgets a connection and its requests.
    fn close(&mut self, turn: &mut Turn<'_>, number: usize) {
        let Some(connection) = self.clients.connections.remove(&number) else { return };
        turn.report(Output::Act(Action::Close(ConnectionId::Pmix(number))));
        self.timers.stop(Timer::Introduce(number));
        self.withdraw(|waiter| waiter.0 == number);
        for ticket in connection.session.open() {
            self.timers.stop(Timer::Answer((number, ticket)));
        }
        if let Some(rank) = connection.rank {
            self.expect(turn, rank);
            let name = turn.job.name_of(rank);
            turn.log(Level::Debug, format!("rank {name}: its PMIx connection is closed"));
        }
    }

    /// Performs the waiting requests of a client.
    pub(crate) fn perform_operations(&mut self, turn: &mut Turn<'_>, number: usize) {
        while let Some((ticket, operation)) = self.next_operation(number) {
            self.perform(turn, (number, ticket), operation);
        }
    }

    fn next_operation(&mut self, number: usize) -> Option<(Ticket, Operation)> {
        self.clients.connections.get_mut(&number)?.session.poll_operation()
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
