//! The operations of the clients, each routed to the part that performs it.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::rc::Rc;

use mpd_io::logging::one_line;
use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::job::MpiLibrary;
use pmix_proto::connect::{Expectation, Introduction};
use pmix_proto::message::Put;
use pmix_proto::view::WILDCARD;
use pmix_proto::{Answer, Operation, ProtocolError, Status, job_info};

use super::clean_up::{self, Addition};
use super::waiter::Waiter;
use super::world_info::WorldInfo;
use super::{Pmix, Timer, describe};
use crate::manager::context::Turn;
use crate::manager::event::{Client, Event};
use crate::manager::pmi::libraries::by_key_of_pmix;

impl Pmix {
    pub(super) fn perform(&mut self, turn: &mut Turn<'_>, waiter: Waiter, operation: Operation) {
        if let Operation::Connecting(introduction) = &operation {
            return self.decide(turn, waiter.0, introduction);
        }
        let Some(rank) = self.rank_of(waiter.0) else {
            // Bytes of a connection that nothing is known of.
            if let Operation::Misbehaved { error, .. } = operation {
                log::debug!("a PMIx client is refused: {error}");
            }
            return;
        };
        match operation {
            Operation::Connecting(_) => {}
            Operation::JobInfo => self.send_job_info(turn, waiter, rank),
            Operation::Commit { puts } => {
                let Some((first, own)) = self.collective(turn.job, rank) else { return };
                self.note_library(turn, (waiter.0, rank), &puts);
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
                self.get(turn, waiter, (proc, key, immediate));
            }
            together @ (Operation::Fence { .. }
            | Operation::Connect { .. }
            | Operation::Disconnect { .. }
            | Operation::Construct { .. }
            | Operation::Destruct { .. }) => self.arrive(turn, (waiter, rank), together),
            name @ (Operation::Publish { .. }
            | Operation::Lookup { .. }
            | Operation::Unpublish { .. }) => self.inquire(turn, (waiter, rank), name),
            Operation::Spawn(spawn) => self.spawn(turn, waiter, spawn),
            outward @ Operation::Notify(_) => self.send_out(turn, (waiter, rank), outward),
            Operation::Registered { codes } => self.deliver_late(turn, waiter.0, &codes),
            Operation::Query(queries) => {
                let known = self.known_answers(turn, rank, &queries);
                self.answer(waiter, Answer::Answers(Status::SUCCESS, &known));
            }
            Operation::CleanUp(clean_up) => {
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
            outward @ Operation::Log { .. } => self.send_out(turn, (waiter, rank), outward),
            Operation::Finalized => turn.post(Input::Finalized(rank)),
            Operation::Abort { status, message, .. } => {
                turn.report(Event::Aborts(rank));
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

    /// Notes the MPI library of a client as its commit shows it, unless it is known already.
    fn note_library(&mut self, turn: &mut Turn<'_>, (number, rank): (usize, Rank), puts: &[Put]) {
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

    /// Admits or refuses a client.
    fn decide(&mut self, turn: &mut Turn<'_>, number: usize, introduction: &Introduction) {
        let world = describe::number_of(turn.job, &introduction.namespace);
        let world = turn.job.worlds.all().find(|one| Some(one.numbers.number) == world);
        let world = world.filter(|world| introduction.rank < world.numbers.size);
        let rank = world.map(|world| world.numbers.in_job(Rank(introduction.rank)));
        // A program that replaced another one may connect before the end of the old connection was read.
        let old = rank.and_then(|rank| self.clients.admitted.get(&rank).copied());
        if let Some(old) = old.filter(|old| *old != number) {
            self.read(turn, old);
        }
        let namespace = world.map(|world| describe::namespace(turn.job, world.numbers.number));
        let uid = nix::unistd::geteuid().as_raw();
        let decision = introduction.check(&Expectation {
            // A namespace that no client can name: a name has no zero byte.
            namespace: namespace.as_ref().map_or(b"\0", |name| name.as_bytes()),
            uid,
            // The kernel was asked when the connection was accepted.
            peer_uid: Some(uid),
            is_running: introduction.rank != WILDCARD
                && rank.is_some_and(|rank| self.running.contains_key(&rank)),
            is_connected: rank.is_some_and(|rank| self.clients.admitted.contains_key(&rank)),
        });
        let Some(connection) = self.clients.connections.get_mut(&number) else { return };
        self.timers.stop(Timer::Introduce(number));
        match (decision, rank) {
            (Ok(encoding), Some(rank)) => {
                connection.rank = Some(rank);
                connection.session.admit(introduction, encoding, introduction.rank);
                self.clients.admitted.insert(rank, number);
                self.expected.remove(&rank);
                self.recount(turn.job, rank);
                self.initialized(turn, rank);
            }
            (Err(refusal), _) => {
                log::info!("a PMIx client is refused: {refusal}");
                connection.session.refuse(refusal);
            }
            (Ok(_), None) => {}
        }
    }

    fn initialized(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        log::debug!("rank {}: speaks PMIx", turn.job.name_of(rank));
        self.timers.stop(Timer::Lost(rank));
        if let Some(world) = turn.job.worlds.of(rank) {
            let directory = describe::directory(turn.job, world.numbers.number);
            if let Err(e) = private_directory(&directory) {
                log::warn!("cannot make {}: {e}", directory.display());
            }
        }
        // Only ranks of the first world count.
        if turn.job.is_first(rank) {
            turn.report(Event::Speaks);
        }
        if self.running.get(&rank) != Some(&Client::Adopted) {
            turn.post(Input::Initialized(rank));
        }
    }

    fn send_job_info(&mut self, turn: &Turn<'_>, waiter: Waiter, rank: Rank) {
        let Some(world) = turn.job.worlds.of(rank) else { return };
        let Some(connection) = self.clients.connections.get(&waiter.0) else { return };
        let encoding = connection.session.encoding();
        let world_data = self.worlds_data.entry(world.numbers.first).or_default();
        let described = world_data.described.entry(encoding).or_insert_with(|| {
            let (facts, node) =
                describe::facts(turn.job, &WorldInfo::of(turn.job, world), &self.topology);
            job_info::describe(&facts, node, encoding).into()
        });
        let described = Rc::clone(described);
        self.answer(waiter, Answer::JobInfo(&described));
    }

    /// Reports misbehaviour to the user once per rank; further reports would not help.
    fn note_misbehaviour(&mut self, turn: &mut Turn<'_>, rank: Rank, error: &ProtocolError) {
        let name = turn.job.name_of(rank);
        log::debug!("rank {name}: PMIx: {error}");
        // A later version of the library may know more commands. It is answered that they are not supported.
        let is_newer = matches!(error, ProtocolError::UnknownCommand(_));
        if !is_newer && self.misbehaved.insert(rank) {
            let text = format!("rank {name}: broke the PMIx protocol: {error}");
            turn.post(Input::Notice(text));
        }
    }
}

/// Makes a directory for this user alone, unless it exists.
fn private_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}
