//! The operations of the clients, each routed to the part that performs it.

use std::rc::Rc;

use mpd_job::manager::Input;
use mpd_wire::job::MpiLibrary;
use mpd_wire::{Rank, one_line};
use pmix_proto::message::Put;
use pmix_proto::{Answer, CleanUp, Operation, ProtocolError, Status, job_info};

use super::clean_up::{self, Addition};
use super::waiter::Waiter;
use super::world_info::WorldInfo;
use super::{Pmix, describe};
use crate::libraries::by_key_of_pmix;
use crate::output::{Level, Output};
use crate::turn::Turn;

impl Pmix {
    pub(super) fn perform(&mut self, turn: &mut Turn<'_>, waiter: Waiter, operation: Operation) {
        let Some(rank) = self.rank_of(waiter.0) else {
            return self.perform_unidentified(turn, waiter.0, operation);
        };
        match operation {
            Operation::Connecting(_) => {}
            Operation::JobInfo => self.send_job_info(turn, waiter, rank),
            Operation::Commit { puts } => {
                let Some((first, own)) = self.collective(turn.job, rank) else { return };
                self.note_library(turn, waiter.0, rank, &puts);
                let others = self.kept_beside(rank);
                let world_data = self.world_data(first);
                let committed = world_data.modex.commit_beside(others, own, puts);
                let status = committed.err().unwrap_or(Status::SUCCESS);
                world_data.fresh.insert(rank);
                self.recount(turn.job, rank);
                self.answer(waiter, Answer::Done(status));
                self.review_gets(turn);
            }
            Operation::Get { proc, key, immediate, timeout } => {
                self.limit(turn, waiter, timeout);
                self.get(turn, waiter, proc, key, immediate);
            }
            together @ (Operation::Fence { .. }
            | Operation::Connect { .. }
            | Operation::Disconnect { .. }
            | Operation::Construct { .. }
            | Operation::Destruct { .. }) => self.arrive(turn, waiter, rank, together),
            Operation::Publish { pairs, persistence, range } => {
                self.publish(turn.job, waiter, rank, &pairs, persistence, range);
            }
            Operation::Lookup { keys, wait, timeout, .. } => {
                self.look_up(turn, waiter, rank, keys, wait, timeout);
            }
            Operation::Unpublish { keys, .. } => self.unpublish(turn.job, waiter, rank, keys),
            Operation::Spawn(spawn) => self.spawn(turn, waiter, spawn),
            outward @ Operation::Notify(_) => self.send_out(turn, waiter, rank, outward),
            Operation::Registered { codes } => self.deliver_late(turn, waiter.0, &codes),
            Operation::Query(queries) => {
                let known = self.known_answers(turn, rank, &queries);
                self.answer(waiter, Answer::Answers(Status::SUCCESS, &known));
            }
            Operation::CleanUp(clean_up) => self.register(turn, waiter, rank, clean_up),
            outward @ Operation::Log { .. } => self.send_out(turn, waiter, rank, outward),
            Operation::Finalized => turn.post(Input::Finalized(rank)),
            Operation::Abort { status, message, .. } => {
                turn.report(Output::Aborts(rank));
                let message = one_line(&String::from_utf8_lossy(&message));
                turn.post(Input::Aborted(rank, status, message));
            }
            Operation::Misbehaved { error, is_fatal: true } => {
                turn.post(Input::BrokeProtocol(rank, error.to_string()));
            }
            Operation::Misbehaved { error, is_fatal: false } => {
                self.note_misbehaviour(turn, rank, &error);
            }
        }
    }

    /// Registers files and directories for removal.
    fn register(&mut self, turn: &mut Turn<'_>, waiter: Waiter, rank: Rank, clean_up: CleanUp) {
        let bytes = clean_up::cost(&clean_up);
        let status = match self.has_budget(turn.job, rank, bytes) {
            true => self.clean_ups.register(turn, clean_up),
            false => Err(Status::OUT_OF_RESOURCE),
        };
        if status == Ok(Addition::New) {
            self.charge(turn.job, rank, bytes);
        }
        self.answer(waiter, Answer::Done(status.err().unwrap_or(Status::SUCCESS)));
    }

    /// Handles the first operation of a connection.
    fn perform_unidentified(&mut self, turn: &mut Turn<'_>, number: usize, operation: Operation) {
        if let Operation::Connecting(introduction) = operation {
            self.introduce(turn, number, introduction);
        } else if let Operation::Misbehaved { error, .. } = operation {
            turn.log(Level::Debug, format!("a PMIx client is refused: {error}"));
        }
    }

    /// Notes the MPI library of a client as its commit shows it, unless it is known already.
    fn note_library(&mut self, turn: &mut Turn<'_>, number: usize, rank: Rank, puts: &[Put]) {
        let shown: Vec<MpiLibrary> =
            puts.iter().filter_map(|put| by_key_of_pmix(&put.pair.key)).collect();
        let exact = shown.iter().find(|library| !library.is_vague());
        let Some(library) = exact.or(shown.first()).copied() else { return };
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        if connection.library.is_none_or(|known| known.is_vague() && known != library) {
            connection.library = Some(library);
            turn.post(Input::Uses(rank, library));
        }
    }

    fn send_job_info(&mut self, turn: &Turn<'_>, waiter: Waiter, rank: Rank) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(connection) = self.clients.connections.get(&waiter.0) else { return };
        let encoding = connection.session.encoding();
        let world_data = self.worlds_data.entry(world.numbers.first).or_default();
        let described = world_data.described.entry(encoding).or_insert_with(|| {
            let (facts, node) = describe::facts(turn.job, &WorldInfo::of(turn.job, world));
            job_info::describe(&facts, node, encoding).into()
        });
        let described = Rc::clone(described);
        self.answer(waiter, Answer::JobInfo(&described));
    }

    /// Reports misbehaviour to the user once per rank; further reports would not help.
    fn note_misbehaviour(&mut self, turn: &mut Turn<'_>, rank: Rank, error: &ProtocolError) {
        let name = turn.job.name_of(rank);
        turn.log(Level::Debug, format!("rank {name}: PMIx: {error}"));
        // A later version of the library may know more commands. It is answered that they are not supported.
        let is_newer = matches!(error, ProtocolError::UnknownCommand(_));
        if !is_newer && self.running.misbehaves(rank) {
            let text = format!("rank {name}: broke the PMIx protocol: {error}");
            turn.post(Input::Notice(text));
        }
    }
}
