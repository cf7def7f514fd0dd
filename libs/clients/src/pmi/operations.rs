//! The operations of the clients, performed on the store of their world.

use mpd_job::manager::Input;
use mpd_wire::job::{MpiLibrary, World as Numbers};
use mpd_wire::{Rank, one_line};
use pmi_proto::signal::is_for_programs;
use pmi_proto::{Answer, Dialect, Operation, ProtocolError};

use super::{News, Pmi};
use crate::caller::Caller;
use crate::libraries::by_key_of_pmi;
use crate::output::{Level, Output};
use crate::pmix::is_of_pmix;
use crate::turn::Turn;

impl Pmi {
    pub(super) fn perform_operation(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        operation: Operation,
    ) {
        let (rank, ticket) = caller;
        self.note_library(turn, rank, &operation);
        let Some(connection) = self.connections.get_mut(&rank) else { return };
        let session = &mut connection.session;
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(space) = self.spaces.get_mut(&world.numbers.first) else { return };
        match operation {
            Operation::Put { key, value } => {
                let put = space.kvs.put(&key, &value);
                let news = || News::NewKeys(world.numbers.first, Some(key.clone()));
                self.news.extend(self.is_watched.then(news));
                if put.is_ok() && world.is_spread {
                    space.note_fresh(key);
                }
                session.answer(ticket, Answer::Put(put));
            }
            Operation::Get { key } => match space.kvs.get(&key) {
                None if is_of_pmix(&key) => self.news.push_back(News::Wanted(caller, key)),
                found => session.answer(ticket, Answer::Get(found)),
            },
            Operation::GetByIndex { index } => {
                session.answer(ticket, Answer::GetByIndex(space.kvs.get_index(index)));
            }
            name @ (Operation::Publish { .. }
            | Operation::Lookup { .. }
            | Operation::Unpublish { .. }) => self.news.push_back(News::Name(caller, name)),
            Operation::UniverseSize => self.tell_universe_size(turn, caller),
            Operation::Fence => {
                turn.report(Output::FenceBegins);
                turn.post(Input::EnteredFence(rank));
            }
            Operation::GroupFence { group } => self.enter_group(turn, caller, group),
            Operation::PutNodeAttribute { key, value } => {
                self.put_node_attribute(turn, caller, &key, &value);
            }
            Operation::GetNodeAttribute { key, wait } => {
                self.get_node_attribute(turn, caller, &key, wait);
            }
            Operation::GetJobAttribute { key } => self.get_job_attribute(turn, caller, &key),
            Operation::Ring { left, right } => self.enter_ring(turn, caller, &left, &right),
            Operation::GetOf { jobid, key } => self.get_of(turn, caller, &jobid, &key),
            Operation::Connect { jobid } => self.connect_worlds(turn, caller, &jobid, true),
            Operation::Disconnect { jobid } => self.connect_worlds(turn, caller, &jobid, false),
            Operation::Signal { rank: peer, signal } => {
                self.ask_for_signal(turn, caller, peer, signal);
            }
            Operation::Spawn(request) => turn.report(Output::Spawn(caller, request.into())),
            Operation::Initialized { dialect, .. } => self.begin(turn, rank, dialect),
            Operation::Finalized => turn.post(Input::Finalized(rank)),
            Operation::Abort { code, message, .. } => {
                turn.report(Output::Aborts(rank));
                let message = one_line(&String::from_utf8_lossy(&message));
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

    fn begin(&mut self, turn: &mut Turn<'_>, rank: Rank, dialect: Dialect) {
        let name = turn.job.name_of(rank);
        turn.log(Level::Debug, format!("rank {name}: speaks {dialect}"));
        // Only ranks of the first world count.
        if turn.job.is_first(rank) {
            turn.report(Output::Speaks);
        }
        self.news.push_back(News::Speaks(rank));
        turn.post(Input::Initialized(rank));
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
        turn.log(Level::Debug, format!("rank {name}: PMI: {problem}"));
        if self.misbehaved.insert(rank) {
            let text = format!("rank {name}: broke the PMI protocol: {problem}");
            turn.post(Input::Notice(text));
        }
    }

    // ----- other ranks and worlds -----

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
}
