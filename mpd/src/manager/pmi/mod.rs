//! The PMI sessions of the ranks: operations of the clients, performed on the store of their world.
//!
//! | module | has |
//! |---|---|
//! | [`connection`] | the connection of one rank |
//! | [`transfer`] | reads and writes on connections of clients |
//! | [`space`] | the data that the ranks of one world share |
//! | [`fences`] | fences, and keys between hosts |
//! | [`attributes`] | the operations of PMI-2 that PMI-1 lacks |
//! | [`libraries`] | the MPI libraries of ranks, by their requests |
//! | [`names`] | names that ranks publish and look up |
//! | [`pmix`] | clients that speak PMIx, as those of Open MPI |

mod attributes;
mod connection;
mod fences;
mod fresh_name;
mod libraries;
mod names;
pub(super) mod pmix;
mod space;
mod transfer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::TcpListener;
use std::time::Duration;

use mpd_job::manager::Input;
use mpd_machine::{Time, Timers};
use mpd_wire::job::{Bytes, MpiLibrary, World as Numbers};
use mpd_wire::message::{FenceGroup, ManagerReport, NameAnswer, NameOperation, Phase as Part};
use mpd_wire::names::{Hold, NameKey, Refusal};
use mpd_wire::{JobId, Rank};
use pmi_proto::signal::is_for_programs;
use pmi_proto::{Answer, Operation, Phase, ProtocolError, Service, Spawned, Ticket};

use self::connection::{Connection, facts};
use self::fresh_name::FreshName;
use self::libraries::by_key_of_pmi;
use self::names::{Asker, Names};
use self::pmix::Pmix;
pub(super) use self::pmix::Room;
use self::space::Space;
use self::transfer::ReadProgress;
use super::caller::{Caller, Wish};
use super::context::{Job, Turn};
use super::event::{Client, Event};
use super::links::LinkEnd;
use super::pmi_socket::PmiSocket;

/// Most bytes of one read.
const READ_BYTES: usize = 16 * 1024;

/// How long a client that closed its connection early may take to end.
const CLOSED_GRACE: Duration = Duration::from_secs(2);

/// A name or its value is not UTF-8.
const NOT_TEXT: &str = "name_is_not_text";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A client that closed its PMI connection early should have ended.
    Lost(Rank),
    /// Ask again about names, or give up.
    Names,
}

/// The PMI connections, key-value spaces and names of the ranks here.
#[derive(Debug)]
pub(super) struct Pmi {
    connections: BTreeMap<Rank, Connection>,
    /// By the first rank of the world.
    spaces: BTreeMap<Rank, Space>,
    names: Names,
    /// Connections with unread data.
    talking: VecDeque<Rank>,
    /// Connections with answers to write.
    answering: Vec<Rank>,
    /// Whether requests of ranks of the first world wait unread.
    is_paused: bool,
    /// Ranks whose misbehaviour was reported to the user.
    misbehaved: BTreeSet<Rank>,
    timers: Timers<Timer>,
    /// For reads. A new one for each read would have to be cleared, which takes longer than a short request.
    buffer: Vec<u8>,
    pmix: Pmix,
}

impl Pmi {
    /// `listener` is for PMIx clients, if there is one already.
    pub(super) fn new(job: &Job, listener: Option<TcpListener>) -> Self {
        let all = job.worlds.all();
        let spaces = all.map(|world| (world.numbers.first, Space::new(world, &job.spec, &[])));
        Self {
            connections: BTreeMap::new(),
            spaces: spaces.collect(),
            names: Names::default(),
            talking: VecDeque::new(),
            answering: Vec::new(),
            is_paused: job.spec.hold,
            misbehaved: BTreeSet::new(),
            timers: Timers::default(),
            buffer: vec![0; READ_BYTES],
            pmix: Pmix::listening(listener),
        }
    }

    pub(super) fn has_work(&self) -> bool {
        !self.talking.is_empty() || (!self.is_paused && self.pmix.has_work())
    }

    pub(super) fn has_answers(&self) -> bool {
        !self.answering.is_empty() || self.pmix.has_answers()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.pmix.next_deadline()).min()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        self.pmix.expire(turn);
        self.ask_for_names_of_pmix(turn);
        let now = turn.now();
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Lost(rank) => {
                    let problem = "closed its PMI connection before MPI_Finalize".to_owned();
                    turn.post(Input::BrokeProtocol(rank, problem));
                }
                Timer::Names => {
                    self.names.expire(now);
                    self.perform_names(turn);
                }
            }
        }
    }

    // ----- PMIx -----

    /// Listens for PMIx clients, since ranks are about to start. Returns the port.
    pub(super) fn go(&mut self, turn: &mut Turn<'_>) -> Option<u16> {
        self.pmix.open(turn)
    }

    /// Notes an event. Whether the token is one of PMIx.
    pub(super) fn mark_pmix(&mut self, token: usize, is_readable: bool, has_ended: bool) -> bool {
        self.pmix.mark(token, is_readable, has_ended)
    }

    /// Takes a piece of data of PMIx clients from another manager.
    pub(super) fn take_pmix(&mut self, turn: &mut Turn<'_>, from: LinkEnd, frame: &[u8]) {
        self.pmix.take_piece(turn, from, frame);
        self.settle_gets_of_pmix(turn);
    }

    /// Looks for the keys that PMIx clients want among those that ranks have put by PMI.
    pub(super) fn settle_gets_of_pmix(&mut self, turn: &mut Turn<'_>) {
        while let Some(pending_get) = self.pmix.next_unsettled() {
            let space = self.spaces.get(&pending_get.first);
            let value = space.and_then(|space| space.kvs.get(&pending_get.key));
            self.pmix.looked(turn, pending_get, value);
        }
    }

    /// Handles the arrival of all members of a group that meets ranks of other jobs. At the root.
    pub(super) fn assembled(&mut self, turn: &mut Turn<'_>, first: Rank, group: FenceGroup) {
        self.pmix.assembled(turn, first, group);
    }

    /// Handles an event of the meetings with ranks of other jobs.
    pub(super) fn meet(&mut self, turn: &mut Turn<'_>, input: mpd_meeting::Input) {
        self.pmix.meet(turn, input);
    }

    // ----- ranks and worlds -----

    /// Makes the key-value space of a spawned world that is to be started.
    pub(super) fn prepare_world(
        &mut self,
        turn: &Turn<'_>,
        first: Rank,
        preput: &[(Bytes, Bytes)],
    ) {
        if let Some(world) = turn.job.worlds.of(first) {
            self.spaces.insert(first, Space::new(world, &turn.job.spec, preput));
        }
    }

    /// Forgets a spawned world whose ranks have ended.
    pub(super) fn forget_world(&mut self, first: Rank) {
        self.pmix.forget_world(first);
        self.spaces.remove(&first);
    }

    /// Adds the connection of a rank; a new one if the rank is debugged and starts again.
    pub(super) fn connect(
        &mut self,
        turn: &Turn<'_>,
        (rank, client): (Rank, Client),
        socket: PmiSocket,
    ) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let facts = facts(world, rank);
        let connection = Connection::new(client, facts);
        self.connections.insert(rank, Connection { socket: Some(socket), ..connection });
        self.pmix.rank_started(turn, rank, client);
        if client == Client::Adopted {
            self.answering.push(rank);
        }
    }

    /// Notes that the process of a rank has ended, or has left the job.
    pub(super) fn rank_ended(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        self.pmix.rank_ended(turn, rank);
        self.timers.stop(Timer::Lost(rank));
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.is_alive = false;
        }
    }

    /// Forgets a spawned rank that has ended completely.
    pub(super) fn remove(&mut self, rank: Rank) {
        self.connections.remove(&rank);
        self.misbehaved.remove(&rank);
    }

    /// Prepares another start of the debugged programs: new key-value space, no published names.
    pub(super) fn restart(&mut self, turn: &mut Turn<'_>) {
        let Some(world) = turn.job.worlds.of(Rank(0)) else { return };
        self.spaces.insert(Rank(0), Space::new(world, &turn.job.spec, &[]));
        for (&rank, connection) in &mut self.connections {
            if connection.client == Client::Debugged && connection.is_alive {
                let facts = facts(world, rank);
                *connection = Connection::new(Client::Debugged, facts);
                self.misbehaved.remove(&rank);
                self.timers.stop(Timer::Lost(rank));
            }
        }
        self.pmix.restart(turn);
        self.names.unpublish_all(turn.now());
        self.perform_names(turn);
    }

    /// Handles the failure of a rank in a job that continues. The ranks of its world that use PMI get SIGUSR1, for
    /// which their library has a handler.
    pub(super) fn note_dead(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        space.note_dead(world.numbers.own(rank));
        self.pmix.note_dead(turn, rank);
        for other in &world.here {
            let connection = self.connections.get(other);
            let uses_pmi =
                |it: &Connection| matches!(it.session.phase(), Phase::Ready | Phase::InFence);
            if connection.is_some_and(uses_pmi) {
                turn.report(Event::Signal(*other, libc::SIGUSR1));
            }
        }
    }

    fn space_of(&mut self, turn: &Turn<'_>, rank: Rank) -> Option<&mut Space> {
        let first = turn.job.worlds.of(rank)?.numbers.first;
        self.spaces.get_mut(&first)
    }

    // ----- reading and answering -----

    /// Notes an event: the connection is readable, has ended, or is writable.
    pub(super) fn mark(&mut self, rank: Rank, is_readable: bool, has_ended: bool) {
        let Some(connection) = self.connections.get_mut(&rank) else { return };
        connection.ending |= has_ended;
        if is_readable || has_ended {
            self.talking.push_back(rank);
        } else {
            self.answering.push(rank);
        }
    }

    /// Begins to read the requests of ranks that waited.
    pub(super) fn resume(&mut self) {
        self.is_paused = false;
        self.talking.extend(self.connections.keys());
    }

    /// Reads each connection with unread data once. A connection that may have more is read again later.
    /// `room` is what texts and events of clients may take on their way out.
    pub(super) fn serve(&mut self, turn: &mut Turn<'_>, room: Room) {
        self.pmix.note_room(room);
        if !self.is_paused {
            self.pmix.serve(turn);
            self.ask_for_names_of_pmix(turn);
        }
        for _ in 0..self.talking.len() {
            let Some(rank) = self.talking.pop_front() else { break };
            // The first request of a paused rank waits unread.
            let is_paused = self.is_paused && turn.job.is_first(rank);
            if !is_paused && self.read(turn, rank) == ReadProgress::More {
                self.talking.push_back(rank);
            }
        }
        self.settle_gets_of_pmix(turn);
    }

    /// Reads all remaining requests of a rank that has ended.
    pub(super) fn read_to_the_end(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        // Bounded: the rank is dead, but other processes may still write to its descriptor.
        const MAX_READS: usize = 64;
        self.pmix.read_to_the_end(turn, rank);
        self.ask_for_names_of_pmix(turn);
        self.settle_gets_of_pmix(turn);
        let Some(connection) = self.connections.get_mut(&rank) else { return };
        connection.ending = true;
        for _ in 0..MAX_READS {
            if self.read(turn, rank) != ReadProgress::More {
                return;
            }
        }
    }

    fn read(&mut self, turn: &mut Turn<'_>, rank: Rank) -> ReadProgress {
        let Some(connection) = self.connections.get_mut(&rank) else {
            return ReadProgress::Drained;
        };
        let received = connection.read(&mut self.buffer);
        let is_adopted = connection.client == Client::Adopted;
        if received == ReadProgress::Closed {
            connection.session.end_of_stream();
            connection.socket = None;
            let phase = connection.session.phase();
            let is_starting = is_adopted && phase == Phase::ExpectInit;
            let unfinished = is_starting || matches!(phase, Phase::Ready | Phase::InFence);
            // Debugged programs may end and start again.
            if unfinished && connection.is_alive && connection.client != Client::Debugged {
                self.timers.set(Timer::Lost(rank), turn.now() + CLOSED_GRACE);
            }
        }
        self.perform_and_write(turn, rank);
        let phase = self.connections.get(&rank).map(|connection| connection.session.phase());
        if received == ReadProgress::Closed && is_adopted && phase == Some(Phase::Finalized) {
            turn.report(Event::Leaves);
        }
        received
    }

    /// Performs the waiting requests of a rank's client. Whether there were any.
    fn perform_operations(&mut self, turn: &mut Turn<'_>, rank: Rank) -> bool {
        let mut were_any = false;
        while let Some((ticket, operation)) = self.next_operation(rank) {
            self.perform_operation(turn, (rank, ticket), operation);
            were_any = true;
        }
        were_any
    }

    fn next_operation(&mut self, rank: Rank) -> Option<(Ticket, Operation)> {
        self.connections.get_mut(&rank)?.session.poll_operation()
    }

    /// Writes the answers that do not follow the read of a request, such as those of fences.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        self.pmix.flush(turn);
        self.ask_for_names_of_pmix(turn);
        self.settle_gets_of_pmix(turn);
        while let Some(rank) = self.answering.pop() {
            self.perform_and_write(turn, rank);
        }
    }

    /// Performs the waiting requests of a rank's client, and writes the answers. This follows the read of a request at
    /// once: the kernel wakes a client that waits for its answer already when the request is read.
    fn perform_and_write(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        self.perform_operations(turn, rank);
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.flush(turn.registry);
        }
        // Requests that waited for room in the output buffer follow now.
        if self.perform_operations(turn, rank) {
            self.answering.push(rank);
        }
    }

    /// Answers a rank, which may have ended. Its next requests are decoded in its next turn.
    fn answer(&mut self, (rank, ticket): Caller, answer: Answer<'_>) {
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.session.answer(ticket, answer);
            self.answering.push(rank);
        }
    }

    fn perform_operation(&mut self, turn: &mut Turn<'_>, caller: Caller, operation: Operation) {
        let (rank, ticket) = caller;
        self.note_library(turn, rank, &operation);
        let Some(connection) = self.connections.get_mut(&rank) else { return };
        let session = &mut connection.session;
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        match operation {
            Operation::Put { key, value } => {
                let put = space.kvs.put(&key, &value);
                if put.is_ok() && world.is_spread {
                    space.note_fresh(key);
                }
                session.answer(ticket, Answer::Put(put));
                self.pmix.look_for_keys(world.numbers.first);
            }
            Operation::Get { key } => {
                let committed = || self.pmix.committed_text(turn.job, &world.numbers, &key);
                session.answer(ticket, Answer::Get(space.kvs.get(&key).or_else(committed)));
            }
            Operation::GetByIndex { index } => {
                session.answer(ticket, Answer::GetByIndex(space.kvs.get_index(index)));
            }
            name @ (Operation::Publish { .. }
            | Operation::Lookup { .. }
            | Operation::Unpublish { .. }) => self.begin_name(turn, caller, name),
            Operation::UniverseSize => self.tell_universe_size(turn, caller),
            Operation::Fence => {
                turn.begin(Part::Fence, None);
                turn.post(Input::EnteredFence(rank));
            }
            Operation::GroupFence { group } => self.enter_group(turn, caller, group),
            Operation::PutNodeAttribute { key, value } => {
                self.put_node_attribute(turn, caller, (&key, &value));
            }
            Operation::GetNodeAttribute { key, wait } => {
                self.get_node_attribute(turn, caller, (&key, wait));
            }
            Operation::GetJobAttribute { key } => self.get_job_attribute(turn, caller, &key),
            Operation::Ring { left, right } => self.enter_ring(turn, caller, (&left, &right)),
            Operation::GetOf { jobid, key } => self.get_of(turn, caller, (&jobid, &key)),
            Operation::Connect { jobid } => self.connect_worlds(turn, caller, &jobid, true),
            Operation::Disconnect { jobid } => self.connect_worlds(turn, caller, &jobid, false),
            Operation::Signal { rank: peer, signal } => {
                self.ask_for_signal(turn, caller, peer, signal);
            }
            Operation::Spawn(request) => turn.report(Event::Spawn(caller, Wish::of(request))),
            Operation::Initialized { dialect, .. } => {
                log::debug!("rank {}: speaks {dialect}", turn.job.name_of(rank));
                // Only ranks of the first world count.
                if turn.job.is_first(rank) {
                    turn.report(Event::Speaks);
                }
                self.pmix.speaks_pmi(rank);
                turn.post(Input::Initialized(rank));
            }
            Operation::Finalized => turn.post(Input::Finalized(rank)),
            Operation::Abort { code, message, .. } => {
                turn.report(Event::Aborts(rank));
                let message = mpd_io::logging::one_line(&String::from_utf8_lossy(&message));
                turn.post(Input::Aborted(rank, code, message));
            }
            // Bytes that are not PMI get no answer, so the client could not continue.
            Operation::Misbehaved { error: error @ ProtocolError::NoCommand { .. }, .. }
            | Operation::Misbehaved { error, fatal: true } => {
                turn.post(Input::BrokeProtocol(rank, error.to_string()));
            }
            Operation::Misbehaved { error, fatal: false } => {
                self.note_misbehaviour(turn, rank, &error.to_string());
            }
        }
    }

    /// Reports what the requests of a rank show about its MPI library.
    fn note_library(&mut self, turn: &mut Turn<'_>, rank: Rank, operation: &Operation) {
        let Some(connection) = self.connections.get_mut(&rank) else { return };
        let is_late = if let Operation::Put { key, .. }
        | Operation::Get { key }
        | Operation::GetJobAttribute { key } = operation
        {
            let Some(library) = by_key_of_pmi(key, connection.library) else { return };
            connection.library = Some(library);
            turn.post(Input::Uses(rank, library));
            library == MpiLibrary::LateMpich
        } else {
            false
        };
        let is_early =
            matches!(operation, Operation::Fence) && connection.session.opens_like_early_mpich();
        if !is_late && !is_early {
            return;
        }
        let Some(space) = self.space_of(turn, rank) else { return };
        let beginnings = &mut space.beginnings;
        let early = if is_late { beginnings.note_late() } else { beginnings.note_early(rank) };
        if let Some(early) = early {
            turn.post(Input::Uses(early, MpiLibrary::LikeMpich));
        }
    }

    /// Reports misbehaviour to the user once per rank; further reports would not help.
    fn note_misbehaviour(&mut self, turn: &mut Turn<'_>, rank: Rank, problem: &str) {
        let name = turn.job.name_of(rank);
        log::debug!("rank {name}: PMI: {problem}");
        if self.misbehaved.insert(rank) {
            let text = format!("rank {name}: broke the PMI protocol: {problem}");
            turn.post(Input::Notice(text));
        }
    }

    // ----- other ranks and worlds -----

    /// Answers the spawn of a rank here.
    pub(super) fn answer_spawn(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        outcome: Result<(String, Vec<i32>), &'static str>,
    ) {
        let kvsname = outcome.as_ref().ok().map(|(kvsname, _)| kvsname.as_str());
        if self.pmix.spawned(turn, caller, kvsname) {
            return;
        }
        let spawned = match &outcome {
            Ok((kvsname, errors)) => Ok(Spawned { jobid: kvsname, errors }),
            Err(error) => Err(*error),
        };
        self.answer(caller, Answer::Spawned(spawned));
    }

    /// Handles a rank's report that its world has connected to another one, or disconnected from it. Connected
    /// worlds end together. Worlds of other jobs are never connected in this sense.
    fn connect_worlds(&mut self, turn: &mut Turn<'_>, caller: Caller, jobid: &[u8], joined: bool) {
        self.answer(caller, Answer::Done(Ok(())));
        if let Some(number) = Numbers::number_of(jobid, &turn.job.order.kvsname) {
            turn.post(Input::WorldConnection { from: caller.0, number, joined });
        }
    }

    /// Handles the request of a rank to send a signal to another rank of its world.
    fn ask_for_signal(&mut self, turn: &mut Turn<'_>, caller: Caller, peer: u32, signal: u8) {
        let Some(world) = turn.job.worlds.of(caller.0) else { return };
        let is_there = peer < world.numbers.size;
        let rank = world.numbers.in_job(Rank(peer));
        let answer = match is_for_programs(i32::from(signal)) {
            _ if !is_there => Err("no_such_rank"),
            false => Err("no_such_signal"),
            true => Ok(()),
        };
        self.answer(caller, Answer::Done(answer));
        if answer.is_ok() {
            turn.post(Input::InterruptRank { from: caller.0, rank, signal });
        }
    }

    // ----- names -----

    /// Begins an operation on a name, or refuses it.
    fn begin_name(&mut self, turn: &mut Turn<'_>, caller: Caller, operation: Operation) {
        let (now, asker) = (turn.now(), Asker::Pmi(caller));
        let begun = match operation {
            Operation::Publish { service, value } => publication(service, value)
                .map(|(operation, fresh)| match turn.job.spec.unique_names {
                    true => self.names.publish_fresh(now, asker, operation, fresh),
                    false => self.names.ask(now, asker, operation),
                })
                .map_err(|error| Answer::Published(Err(error))),
            Operation::Lookup { service } => named(service)
                .map(|(name, words)| self.names.ask(now, asker, lookup(name, words.as_deref())))
                .map_err(|error| Answer::Found(Err(error))),
            Operation::Unpublish { service } => named(service)
                .map(|(name, words)| {
                    let name = self.names.given(&name);
                    self.names.ask(now, asker, unpublish(name, words.as_deref()));
                })
                .map_err(|error| Answer::Unpublished(Err(error))),
            _ => return,
        };
        match begun {
            Ok(()) => self.perform_names(turn),
            Err(refusal) => self.answer(caller, refusal),
        }
    }

    /// Handles an answer of the daemon about a name.
    pub(super) fn named(&mut self, turn: &mut Turn<'_>, request: u32, answer: NameAnswer) {
        self.names.answered(turn.now(), request, answer);
        self.perform_names(turn);
    }

    /// Repeats requests and publications to a new daemon.
    pub(super) fn repeat_names(&mut self, turn: &mut Turn<'_>) {
        self.names.repeat(turn.now());
        self.perform_names(turn);
        self.pmix.meet(turn, mpd_meeting::Input::DaemonReplaced);
    }

    /// Handles the loss of a name.
    pub(super) fn name_lost(&mut self, turn: &mut Turn<'_>, name: &str, to: Option<&JobId>) {
        self.names.lose(name, to);
        self.perform_names(turn);
    }

    /// Handles refused requests for a name that a rank here has published.
    pub(super) fn name_refused(&mut self, turn: &mut Turn<'_>, refusal: Refusal) {
        self.names.refused(turn.now(), refusal);
        self.perform_names(turn);
    }

    /// Sends the requests of PMIx clients about names.
    fn ask_for_names_of_pmix(&mut self, turn: &mut Turn<'_>) {
        while let Some((ticket, operation)) = self.pmix.next_name_request() {
            let (now, asker) = (turn.now(), Asker::Pmix(ticket));
            match (turn.job.spec.unique_names, operation) {
                (true, operation @ NameOperation::Publish { .. }) => {
                    let fresh = FreshName::new(operation.name(), None);
                    self.names.publish_fresh(now, asker, operation, fresh);
                }
                (true, NameOperation::Unpublish { name, key }) => {
                    let name = self.names.given(&name);
                    self.names.ask(now, asker, NameOperation::Unpublish { name, key });
                }
                (_, operation) => self.names.ask(now, asker, operation),
            }
            self.perform_names(turn);
        }
    }

    fn perform_names(&mut self, turn: &mut Turn<'_>) {
        while let Some(output) = self.names.outputs.pop_front() {
            match output {
                names::Output::Ask(request, operation) => {
                    turn.send_to_daemon(ManagerReport::Name { request, operation });
                }
                names::Output::Answer(Asker::Pmi(caller), operation, answer) => {
                    self.answer_name(caller, &operation, &answer);
                }
                names::Output::Answer(Asker::Pmix(ticket), _, answer) => {
                    self.pmix.named(turn, ticket, answer);
                    self.ask_for_names_of_pmix(turn);
                }
                names::Output::Report(text) => {
                    turn.post(Input::Notice(format!("host {}: {text}", turn.job.host())));
                }
            }
        }
        match self.names.deadline() {
            Some(at) => self.timers.set(Timer::Names, at),
            None => self.timers.stop(Timer::Names),
        }
    }

    fn answer_name(&mut self, caller: Caller, operation: &NameOperation, answer: &NameAnswer) {
        let result = match answer {
            NameAnswer::Done => Ok(""),
            NameAnswer::Value(value) => pmix::plain_value(value).ok_or("service_not_found"),
            // Error texts that client libraries know.
            NameAnswer::Unknown => Err("service_not_found"),
            NameAnswer::Taken => Err("key_already_present"),
            NameAnswer::NotKept | NameAnswer::Failed(_) | NameAnswer::Later(_) => {
                Err("no_name_service")
            }
        };
        let answer = match operation {
            NameOperation::Publish { .. } => Answer::Published(result.map(drop)),
            NameOperation::Lookup { .. } => Answer::Found(result.map(str::as_bytes)),
            NameOperation::Unpublish { .. } => Answer::Unpublished(result.map(drop)),
        };
        self.answer(caller, answer);
    }
}

/// The name in a client's request and the text of its key, or an error text for the client.
fn named(service: Service) -> Result<(String, Option<Vec<u8>>), &'static str> {
    let (name, words) = service.split()?;
    Ok((text(name)?, words))
}

fn key_of(name: &str, words: Option<&[u8]>) -> Option<NameKey> {
    words.map(|words| NameKey::new(name, words))
}

fn lookup(name: String, words: Option<&[u8]>) -> NameOperation {
    NameOperation::Lookup { key: key_of(&name, words), name }
}

fn unpublish(name: String, words: Option<&[u8]>) -> NameOperation {
    NameOperation::Unpublish { key: key_of(&name, words), name }
}

fn publication(
    service: Service,
    value: Vec<u8>,
) -> Result<(NameOperation, FreshName), &'static str> {
    let (name, words) = named(service)?;
    let key = key_of(&name, words.as_deref());
    let fresh = FreshName::new(&name, words.as_deref());
    Ok((NameOperation::Publish { name, value: text(value)?, key, hold: Hold::Job }, fresh))
}

/// Names and values are sent as text.
fn text(bytes: Vec<u8>) -> Result<String, &'static str> {
    String::from_utf8(bytes).map_err(|_| NOT_TEXT)
}
