//! The PMI sessions of the ranks here, and the key-value spaces of their worlds.
//!
//! | module | has |
//! |---|---|
//! | `connection` | the session of one rank |
//! | `operations` | the operations of the clients |
//! | `attributes` | the operations of PMI-2 that PMI-1 lacks |
//! | [`space`] | the data that the ranks of one world share |
//! | `fences` | fences, and keys between hosts |

mod attributes;
mod connection;
mod fences;
mod operations;
mod space;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_job::manager::Input;
use mpd_sansio::{Time, Timers};
use mpd_wire::Rank;
use mpd_wire::job::Bytes;
use pmi_proto::{Answer, Operation, Phase, Spawned, Ticket};

use self::connection::{Connection, facts};
use self::space::Space;
use crate::caller::{Caller, SpawnResult};
use crate::client::{Client, ConnectionId};
use crate::input::FromClient;
use crate::job::Job;
use crate::output::{Action, Output};
use crate::turn::Turn;

/// How long a client that closed its connection early may take to end.
const CLOSED_GRACE: Duration = Duration::from_secs(2);

/// The signal for ranks whose world has lost a rank. Libraries have a handler for it.
const SIGUSR1: i32 = 10;

/// For the router.
#[derive(Debug)]
pub(crate) enum News {
    /// A client wants something of a name.
    Name(Caller, Operation),
    /// The key-value space of the world with this first rank has a new key; `None`: several.
    NewKeys(Rank, Option<Vec<u8>>),
    /// A client wants a value that a client of PMIx may have committed.
    Wanted(Caller, Vec<u8>),
    /// A rank speaks PMI.
    Speaks(Rank),
}

/// The PMI sessions and key-value spaces of the ranks here.
#[derive(Debug)]
pub(crate) struct Pmi {
    connections: BTreeMap<Rank, Connection>,
    /// By the first rank of the world.
    spaces: BTreeMap<Rank, Space>,
    /// Sessions with answers to write.
    answering: Vec<Rank>,
    /// Ranks whose misbehaviour was reported to the user.
    misbehaved: BTreeSet<Rank>,
    /// When the rank of a client that closed its connection early should have ended.
    lost: Timers<Rank>,
    news: VecDeque<News>,
    /// Whether clients of PMIx wait for keys.
    is_watched: bool,
}

impl Pmi {
    /// Notes whether clients of PMIx wait for keys, so that each new key is reported.
    pub(crate) const fn watch_keys(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
    }

    pub(crate) fn new(job: &Job) -> Self {
        let all = job.worlds.all();
        let spaces = all.map(|world| (world.numbers.first, Space::new(world, &job.spec, &[])));
        Self {
            connections: BTreeMap::new(),
            spaces: spaces.collect(),
            answering: Vec::new(),
            misbehaved: BTreeSet::new(),
            lost: Timers::default(),
            news: VecDeque::new(),
            is_watched: false,
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.lost.next()
    }

    pub(crate) fn expire(&mut self, turn: &mut Turn<'_>) {
        while let Some(rank) = self.lost.pop_expired(turn.now()) {
            let problem = "closed its PMI connection before MPI_Finalize".to_owned();
            turn.post(Input::BrokeProtocol(rank, problem));
        }
    }

    pub(crate) fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// The value of a key in the space of a world.
    pub(crate) fn value(&self, first: Rank, key: &[u8]) -> Option<&[u8]> {
        self.spaces.get(&first)?.kvs.get(key)
    }

    // ----- ranks and worlds -----

    /// Makes the key-value space of a spawned world that is to be started.
    pub(crate) fn prepare_world(&mut self, job: &Job, first: Rank, preput: &[(Bytes, Bytes)]) {
        if let Some(world) = job.worlds.of(first) {
            self.spaces.insert(first, Space::new(world, &job.spec, preput));
        }
    }

    /// Forgets a spawned world whose ranks have ended.
    pub(crate) fn forget_world(&mut self, first: Rank) {
        self.spaces.remove(&first);
    }

    /// Adds the session of a rank. Returns whether the job has the rank.
    pub(crate) fn connect(&mut self, job: &Job, rank: Rank, client: Client) -> bool {
        let Some(world) = job.worlds.of(rank) else { return false };
        self.connections.insert(rank, Connection::new(client, facts(world, rank)));
        if client == Client::Adopted {
            self.answering.push(rank);
        }
        true
    }

    /// Notes that the process of a rank has ended, or has left the job.
    pub(crate) fn rank_ended(&mut self, rank: Rank) {
        self.lost.stop(rank);
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.is_alive = false;
        }
    }

    /// Forgets a spawned rank that has ended completely.
    pub(crate) fn remove(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        if self.connections.remove(&rank).is_some() {
            turn.report(Output::Act(Action::Close(ConnectionId::Pmi(rank))));
        }
        self.misbehaved.remove(&rank);
    }

    /// Prepares another start of the debugged programs: a new key-value space, and new sessions.
    pub(crate) fn restart(&mut self, turn: &mut Turn<'_>) {
        let Some(world) = turn.job.worlds.of(Rank(0)) else { return };
        self.spaces.insert(Rank(0), Space::new(world, &turn.job.spec, &[]));
        for (&rank, connection) in &mut self.connections {
            if connection.client == Client::Debugged && connection.is_alive {
                *connection = Connection::new(Client::Debugged, facts(world, rank));
                self.misbehaved.remove(&rank);
                self.lost.stop(rank);
                turn.report(Output::Act(Action::Close(ConnectionId::Pmi(rank))));
            }
        }
    }

    /// Handles the failure of a rank in a job that continues. The ranks of its world that use PMI get SIGUSR1, for
    /// which their library has a handler.
    pub(crate) fn note_dead(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        space.note_dead(world.numbers.own(rank));
        for other in &world.here {
            let connection = self.connections.get(other);
            let uses_pmi =
                |it: &Connection| matches!(it.session.phase(), Phase::Ready | Phase::InFence);
            if connection.is_some_and(uses_pmi) {
                turn.report(Output::Signal(*other, SIGUSR1));
            }
        }
    }

    fn space_of(&mut self, turn: &Turn<'_>, rank: Rank) -> Option<&mut Space> {
        let first = turn.job.worlds.of(rank)?.numbers.first;
        self.spaces.get_mut(&first)
    }

    // ----- reading and answering -----

    /// Whether answers are to be written.
    pub(crate) fn has_answers(&self) -> bool {
        !self.answering.is_empty()
    }

    /// The next rank whose answers are to be written.
    pub(crate) fn next_answering(&mut self) -> Option<Rank> {
        self.answering.pop()
    }

    /// A client accepts bytes.
    pub(crate) fn note_writable(&mut self, rank: Rank) {
        if self.connections.contains_key(&rank) {
            self.answering.push(rank);
        }
    }

    /// The bytes for a client.
    pub(crate) fn output(&self, rank: Rank) -> &[u8] {
        self.connections.get(&rank).map_or(&[], |connection| connection.session.output())
    }

    /// The first `bytes` of these were written.
    pub(crate) fn consume(&mut self, rank: Rank, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.session.consume(bytes);
        }
    }

    /// Takes an event of a connection.
    pub(crate) fn take(&mut self, turn: &mut Turn<'_>, rank: Rank, event: FromClient<'_>) {
        match event {
            FromClient::Received(bytes) => {
                if let Some(connection) = self.connections.get_mut(&rank) {
                    connection.session.receive(bytes);
                }
                self.perform_operations(turn, rank);
            }
            FromClient::Closed => self.closed(turn, rank),
            FromClient::Writing => {
                self.perform_operations(turn, rank);
            }
            // Requests that waited for room in the output buffer follow now.
            FromClient::Written => {
                if self.perform_operations(turn, rank) {
                    self.answering.push(rank);
                }
            }
        }
    }

    /// The client has closed its connection. What it sent before is still performed.
    fn closed(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(connection) = self.connections.get_mut(&rank) else { return };
        let is_adopted = connection.client == Client::Adopted;
        connection.session.end_of_stream();
        let phase = connection.session.phase();
        let is_starting = is_adopted && phase == Phase::ExpectInit;
        let unfinished = is_starting || matches!(phase, Phase::Ready | Phase::InFence);
        // Debugged programs may end and start again.
        if unfinished && connection.is_alive && connection.client != Client::Debugged {
            self.lost.set(rank, turn.now() + CLOSED_GRACE);
        }
        connection.is_closed = true;
        self.perform_operations(turn, rank);
    }

    /// Performs the waiting requests of a rank's client, up to one that another part answers. The router calls this
    /// again after that one, so that requests are performed and answered in their order. Whether there were any.
    pub(crate) fn perform_operations(&mut self, turn: &mut Turn<'_>, rank: Rank) -> bool {
        let mut were_any = false;
        while !self.has_handed_over(rank)
            && let Some((ticket, operation)) = self.next_operation(rank)
        {
            self.perform_operation(turn, (rank, ticket), operation);
            were_any = true;
        }
        self.review_leaving(turn, rank);
        were_any
    }

    /// Whether the latest request of a rank waits for another part.
    fn has_handed_over(&self, rank: Rank) -> bool {
        matches!(self.news.back(), Some(News::Name(caller, _) | News::Wanted(caller, _)) if caller.0 == rank)
    }

    /// An adopted rank that has finalized and closed its connection leaves the job.
    fn review_leaving(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(connection) = self.connections.get_mut(&rank) else { return };
        if connection.is_closed
            && connection.client == Client::Adopted
            && connection.session.phase() == Phase::Finalized
        {
            connection.is_closed = false;
            turn.report(Output::Leaves);
        }
    }

    fn next_operation(&mut self, rank: Rank) -> Option<(Ticket, Operation)> {
        self.connections.get_mut(&rank)?.session.poll_operation()
    }

    /// Answers a rank, which may have ended. Its next requests are decoded when the answer is written.
    pub(crate) fn answer(&mut self, (rank, ticket): Caller, answer: Answer<'_>) {
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.session.answer(ticket, answer);
            self.answering.push(rank);
        }
    }

    /// Answers the spawn of a rank here.
    pub(crate) fn answer_spawn(&mut self, caller: Caller, result: &SpawnResult) {
        let spawned = match result {
            Ok((kvsname, errors)) => Ok(Spawned { jobid: kvsname, errors }),
            Err(error) => Err(*error),
        };
        self.answer(caller, Answer::Spawned(spawned));
    }
}
