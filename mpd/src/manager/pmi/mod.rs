//! The PMI conversations of the ranks: operations of their sessions, performed on the store of their world.
//!
//! | module | has |
//! |---|---|
//! | [`connection`] | the connection of one rank |
//! | [`space`] | what the ranks of one world share; keys between hosts, fences |
//! | [`attributes`] | what PMI-2 has beyond PMI-1 |
//! | [`names`] | names that ranks publish and look up |

mod attributes;
mod connection;
mod names;
mod space;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mpd_job::manager::Input;
use mpd_machine::{Time, Timers};
use mpd_wire::job::{Bytes, World as Numbers};
use mpd_wire::message::{ManagerReport, NameAnswer, NameWish, Phase as Part};
use mpd_wire::names::NameKey;
use mpd_wire::{JobId, Rank};
use pmi_proto::signal::is_for_programs;
use pmi_proto::{Answer, Operation, Phase, ProtocolError, Service, Spawned, Ticket};

use self::connection::{Connection, Heard, facts};
use self::names::Names;
use self::space::Space;
use super::context::{Job, Turn};
use super::event::{Client, Event};

/// A client that closed its connection early is given this long to end.
const CLOSED_GRACE: Duration = Duration::from_secs(2);

/// A name or its value is not UTF-8.
const NO_TEXT: &str = "name_is_not_text";

/// A rank that waits for an answer, and the number of its request.
pub(super) type Asker = (Rank, Ticket);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A client that closed its PMI connection early is expected to end.
    Lost(Rank),
    /// Ask again about names, or wait no longer.
    Names,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pmi {
    connections: BTreeMap<Rank, Connection>,
    /// By the first rank of their world.
    spaces: BTreeMap<Rank, Space>,
    names: Names,
    /// Connections with something unread.
    talking: VecDeque<Rank>,
    /// Connections with answers to write.
    answering: Vec<Rank>,
    /// What ranks of the first world say is not read yet.
    is_paused: bool,
    /// Ranks whose misbehaviour the user was told.
    misbehaved: BTreeSet<Rank>,
    timers: Timers<Timer>,
}

impl Pmi {
    pub(super) fn new(job: &Job) -> Self {
        let spaces = job.worlds.all().map(|world| (world.numbers.first, Space::new(world, &[])));
        Self {
            connections: BTreeMap::new(),
            spaces: spaces.collect(),
            names: Names::default(),
            talking: VecDeque::new(),
            answering: Vec::new(),
            is_paused: job.spec.hold,
            misbehaved: BTreeSet::new(),
            timers: Timers::default(),
        }
    }

    pub(super) fn has_work(&self) -> bool {
        !self.talking.is_empty()
    }

    pub(super) const fn has_answers(&self) -> bool {
        !self.answering.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
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

    // ----- ranks and worlds -----

    /// A spawned world is to be started.
    pub(super) fn prepare_world(
        &mut self,
        turn: &Turn<'_>,
        first: Rank,
        preput: &[(Bytes, Bytes)],
    ) {
        if let Some(world) = turn.job.worlds.of(first) {
            self.spaces.insert(first, Space::new(world, preput));
        }
    }

    /// All ranks of a spawned world have ended.
    pub(super) fn forget_world(&mut self, first: Rank) {
        self.spaces.remove(&first);
    }

    /// A rank has a connection, a new one if it is debugged and starts once more.
    pub(super) fn connect(
        &mut self,
        turn: &Turn<'_>,
        (rank, client): (Rank, Client),
        pmi: UnixStream,
    ) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let facts = facts(world, rank, turn.job.spec.universe_size);
        let connection = Connection::new(client, facts);
        self.connections.insert(rank, Connection { stream: Some(pmi), ..connection });
        if client == Client::Adopted {
            self.answering.push(rank);
        }
    }

    /// The process of a rank has ended, or is no part of the job any more.
    pub(super) fn rank_ended(&mut self, rank: Rank) {
        self.timers.stop(Timer::Lost(rank));
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.lives = false;
        }
    }

    /// Nothing is left of a spawned rank.
    pub(super) fn remove(&mut self, rank: Rank) {
        self.connections.remove(&rank);
        self.misbehaved.remove(&rank);
    }

    /// The programs that are debugged start once more: what they share begins anew.
    pub(super) fn restart(&mut self, turn: &mut Turn<'_>) {
        let Some(world) = turn.job.worlds.of(Rank(0)) else { return };
        self.spaces.insert(Rank(0), Space::new(world, &[]));
        for (&rank, connection) in &mut self.connections {
            if connection.client == Client::Debugged && connection.lives {
                let facts = facts(world, rank, turn.job.spec.universe_size);
                *connection = Connection::new(Client::Debugged, facts);
                self.misbehaved.remove(&rank);
                self.timers.stop(Timer::Lost(rank));
            }
        }
        self.names.take_back(turn.now());
        self.perform_names(turn);
    }

    /// A rank has failed, and the others go on: those of its world that use PMI get SIGUSR1, for
    /// which their library has a handler.
    pub(super) fn note_dead(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        space.note_dead(world.numbers.own(rank));
        for other in &world.here {
            let connection = self.connections.get(other);
            let uses =
                |it: &Connection| matches!(it.session.phase(), Phase::Ready | Phase::InFence);
            if connection.is_some_and(uses) {
                turn.report(Event::Signal(*other, libc::SIGUSR1));
            }
        }
    }

    fn space_of(&mut self, turn: &Turn<'_>, rank: Rank) -> Option<&mut Space> {
        let first = turn.job.worlds.of(rank)?.numbers.first;
        self.spaces.get_mut(&first)
    }

    // ----- reading and answering -----

    /// An event says that the connection can be read, or has ended, or takes more.
    pub(super) fn mark(&mut self, rank: Rank, is_readable: bool, has_ended: bool) {
        let Some(connection) = self.connections.get_mut(&rank) else { return };
        connection.ending |= has_ended;
        if is_readable || has_ended {
            self.talking.push_back(rank);
        } else {
            self.answering.push(rank);
        }
    }

    /// What ranks say that were not read is read from now on.
    pub(super) fn resume(&mut self) {
        self.is_paused = false;
        self.talking.extend(self.connections.keys());
    }

    /// Reads each connection with something unread once; comes back later if there may be more.
    pub(super) fn serve(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..self.talking.len() {
            let Some(rank) = self.talking.pop_front() else { return };
            // One that is not read waits for the answer to its first request.
            let is_paused = self.is_paused && turn.job.is_first(rank);
            if !is_paused && self.read(turn, rank) == Heard::More {
                self.talking.push_back(rank);
            }
        }
    }

    /// Reads until nothing is left, because the rank has ended.
    pub(super) fn read_to_the_end(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        // Bounded: the rank is dead, and what others may write to its descriptor is not from it.
        const MAX_READS: usize = 64;
        let Some(connection) = self.connections.get_mut(&rank) else { return };
        connection.ending = true;
        for _ in 0..MAX_READS {
            if self.read(turn, rank) != Heard::More {
                return;
            }
        }
    }

    fn read(&mut self, turn: &mut Turn<'_>, rank: Rank) -> Heard {
        let Some(connection) = self.connections.get_mut(&rank) else { return Heard::Drained };
        let heard = connection.read();
        let is_adopted = connection.client == Client::Adopted;
        if heard == Heard::Closed {
            connection.session.end_of_stream();
            connection.stream = None;
            let phase = connection.session.phase();
            let begins = is_adopted && phase == Phase::ExpectInit;
            let unfinished = begins || matches!(phase, Phase::Ready | Phase::InFence);
            // Programs that are debugged come and go.
            if unfinished && connection.lives && connection.client != Client::Debugged {
                self.timers.set(Timer::Lost(rank), turn.now() + CLOSED_GRACE);
            }
        }
        self.perform_operations(turn, rank);
        self.answering.push(rank);
        let phase = self.connections.get(&rank).map(|connection| connection.session.phase());
        if heard == Heard::Closed && is_adopted && phase == Some(Phase::Finalized) {
            turn.report(Event::Parts);
        }
        heard
    }

    /// What the client of a rank has asked for and may be done now.
    fn perform_operations(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        while let Some((ticket, operation)) = self.next_operation(rank) {
            self.perform_operation(turn, (rank, ticket), operation);
        }
    }

    fn next_operation(&mut self, rank: Rank) -> Option<(Ticket, Operation)> {
        self.connections.get_mut(&rank)?.session.poll_operation()
    }

    /// Writes the answers of a turn. All requests that have come are read before: a client that has
    /// its answer runs at once, and would run in between.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        while let Some(rank) = self.answering.pop() {
            self.perform_operations(turn, rank);
            if let Some(connection) = self.connections.get_mut(&rank) {
                connection.flush();
            }
            // Requests that waited for room in the output come now.
            while let Some((ticket, operation)) = self.next_operation(rank) {
                self.perform_operation(turn, (rank, ticket), operation);
                self.answering.push(rank);
            }
        }
    }

    /// Answers a rank that may have ended. What its client has asked for behind it is decoded with the next
    /// of its turns.
    fn answer(&mut self, (rank, ticket): Asker, answer: Answer<'_>) {
        if let Some(connection) = self.connections.get_mut(&rank) {
            connection.session.answer(ticket, answer);
            self.answering.push(rank);
        }
    }

    fn perform_operation(&mut self, turn: &mut Turn<'_>, asker: Asker, operation: Operation) {
        let (rank, ticket) = asker;
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
            }
            Operation::Get { key } => session.answer(ticket, Answer::Get(space.kvs.get(&key))),
            Operation::GetByIndex { index } => {
                session.answer(ticket, Answer::GetByIndex(space.kvs.get_index(index)));
            }
            Operation::Publish { service, value } => match publication(service, value) {
                Ok(wish) => self.ask_for_name(turn, asker, wish),
                Err(word) => session.answer(ticket, Answer::Published(Err(word))),
            },
            Operation::Lookup { service } => match named(service) {
                Ok((name, key)) => self.ask_for_name(turn, asker, NameWish::Lookup { name, key }),
                Err(word) => session.answer(ticket, Answer::Found(Err(word))),
            },
            Operation::Unpublish { service } => match named(service) {
                Ok((name, key)) => self.ask_for_name(turn, asker, unpublished(name, key)),
                Err(word) => session.answer(ticket, Answer::Unpublished(Err(word))),
            },
            Operation::Fence => {
                turn.begin(Part::Fence, None);
                turn.post(Input::EnteredFence(rank));
            }
            Operation::GroupFence { group } => self.enter_group(turn, asker, group),
            Operation::PutNodeAttribute { key, value } => {
                self.put_node_attribute(turn, asker, (&key, &value));
            }
            Operation::GetNodeAttribute { key, wait } => {
                self.get_node_attribute(turn, asker, (&key, wait));
            }
            Operation::GetJobAttribute { key } => self.get_job_attribute(turn, asker, &key),
            Operation::Ring { left, right } => self.enter_ring(turn, asker, (&left, &right)),
            Operation::GetOf { jobid, key } => self.get_of(turn, asker, (&jobid, &key)),
            Operation::Connect { jobid } => self.bond(turn, asker, &jobid, true),
            Operation::Disconnect { jobid } => self.bond(turn, asker, &jobid, false),
            Operation::Signal { rank: peer, signal } => {
                self.ask_for_signal(turn, asker, peer, signal);
            }
            Operation::Spawn(request) => turn.report(Event::Spawn(asker, request)),
            Operation::Initialized { dialect, .. } => {
                log::debug!("rank {}: speaks {dialect}", turn.job.name_of(rank));
                // Those of other worlds say nothing of the first.
                if turn.job.is_first(rank) {
                    turn.report(Event::Speaks);
                }
                turn.post(Input::Initialized(rank));
            }
            Operation::Finalized => turn.post(Input::Finalized(rank)),
            Operation::Abort { code, message, .. } => {
                turn.report(Event::Aborts(rank));
                let message = mpd_io::logging::one_line(&String::from_utf8_lossy(&message));
                turn.post(Input::Aborted(rank, code, message));
            }
            // What is no PMI at all is not answered, so no client would go on.
            Operation::Misbehaved { error: error @ ProtocolError::NoCommand { .. }, .. }
            | Operation::Misbehaved { error, fatal: true } => {
                turn.post(Input::BrokeProtocol(rank, error.to_string()));
            }
            Operation::Misbehaved { error, fatal: false } => {
                self.note_misbehaviour(turn, rank, &error.to_string());
            }
        }
    }

    /// Told once per rank: a user who sees it has something to look at, one who floods is not helped.
    fn note_misbehaviour(&mut self, turn: &mut Turn<'_>, rank: Rank, problem: &str) {
        let name = turn.job.name_of(rank);
        log::debug!("rank {name}: PMI: {problem}");
        if self.misbehaved.insert(rank) {
            let text = format!("rank {name}: broke the PMI protocol: {problem}");
            turn.post(Input::Notice(text));
        }
    }

    // ----- other ranks and worlds -----

    /// What came of a spawn by a rank here.
    pub(super) fn answer_spawn(
        &mut self,
        asker: Asker,
        outcome: Result<(String, Vec<i32>), &'static str>,
    ) {
        let spawned = match &outcome {
            Ok((kvsname, errors)) => Ok(Spawned { jobid: kvsname, errors }),
            Err(word) => Err(*word),
        };
        self.answer(asker, Answer::Spawned(spawned));
    }

    /// A rank says that its world has connected to another one, or parted from it: whether they share
    /// their fate. Those of other jobs never do.
    fn bond(&mut self, turn: &mut Turn<'_>, asker: Asker, jobid: &[u8], joined: bool) {
        self.answer(asker, Answer::Done(Ok(())));
        if let Some(number) = Numbers::number_of(jobid, &turn.job.order.kvsname) {
            turn.post(Input::Bond { from: asker.0, number, joined });
        }
    }

    /// A rank wants another one of its world signaled.
    fn ask_for_signal(&mut self, turn: &mut Turn<'_>, asker: Asker, peer: u32, signal: u8) {
        let Some(world) = turn.job.worlds.of(asker.0) else { return };
        let is_there = peer < world.numbers.size;
        let rank = world.numbers.in_job(Rank(peer));
        let answer = match is_for_programs(i32::from(signal)) {
            _ if !is_there => Err("no_such_rank"),
            false => Err("no_such_signal"),
            true => Ok(()),
        };
        self.answer(asker, Answer::Done(answer));
        if answer.is_ok() {
            turn.post(Input::InterruptRank { from: asker.0, rank, signal });
        }
    }

    // ----- names -----

    fn ask_for_name(&mut self, turn: &mut Turn<'_>, asker: Asker, wish: NameWish) {
        self.names.ask(turn.now(), asker, wish);
        self.perform_names(turn);
    }

    /// The daemon answers.
    pub(super) fn named(&mut self, turn: &mut Turn<'_>, request: u32, answer: NameAnswer) {
        self.names.answered(turn.now(), request, answer);
        self.perform_names(turn);
    }

    /// There is a new daemon.
    pub(super) fn say_names_again(&mut self, turn: &mut Turn<'_>) {
        self.names.say_again(turn.now());
        self.perform_names(turn);
    }

    /// That name is another job's.
    pub(super) fn name_lost(&mut self, turn: &mut Turn<'_>, name: &str, to: &JobId) {
        self.names.lose(name, to);
        self.perform_names(turn);
    }

    fn perform_names(&mut self, turn: &mut Turn<'_>) {
        while let Some(output) = self.names.outputs.pop_front() {
            match output {
                names::Output::Ask(request, wish) => {
                    turn.tell_daemon(ManagerReport::Name { request, wish });
                }
                names::Output::Answer(asker, wish, answer) => {
                    self.answer_name(asker, &wish, &answer);
                }
                names::Output::Tell(text) => {
                    turn.post(Input::Notice(format!("host {}: {text}", turn.job.host())));
                }
            }
        }
        match self.names.deadline() {
            Some(at) => self.timers.set(Timer::Names, at),
            None => self.timers.stop(Timer::Names),
        }
    }

    fn answer_name(&mut self, asker: Asker, wish: &NameWish, answer: &NameAnswer) {
        let said = match answer {
            NameAnswer::Done => Ok(""),
            NameAnswer::Value(value) => Ok(value.as_str()),
            // The words that libraries know.
            NameAnswer::Unknown => Err("service_not_found"),
            NameAnswer::Taken => Err("key_already_present"),
            NameAnswer::Failed(_) | NameAnswer::Later(_) => Err("no_name_service"),
        };
        let answer = match wish {
            NameWish::Publish { .. } => Answer::Published(said.map(drop)),
            NameWish::Lookup { .. } => Answer::Found(said.map(str::as_bytes)),
            NameWish::Unpublish { .. } => Answer::Unpublished(said.map(drop)),
        };
        self.answer(asker, answer);
    }
}

/// The name that a client means and its key, whose words stay here; or why not, in a word.
fn named(service: Service) -> Result<(String, Option<NameKey>), &'static str> {
    let (name, words) = service.split()?;
    let name = text(name)?;
    let key = words.map(|words| NameKey::new(&name, &words));
    Ok((name, key))
}

const fn unpublished(name: String, key: Option<NameKey>) -> NameWish {
    NameWish::Unpublish { name, key }
}

fn publication(service: Service, value: Vec<u8>) -> Result<NameWish, &'static str> {
    let (name, key) = named(service)?;
    Ok(NameWish::Publish { name, value: text(value)?, key })
}

/// Names and values travel as text.
fn text(bytes: Vec<u8>) -> Result<String, &'static str> {
    String::from_utf8(bytes).map_err(|_| NO_TEXT)
}
