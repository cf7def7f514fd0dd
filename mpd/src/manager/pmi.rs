//! The PMI conversations of the ranks: operations of their sessions, performed on the job's store.

use std::time::Duration;

use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::message::{NameWish, Phase as Part};
use mpd_wire::names::NameKey;
use pmi_proto::{Answer, Operation, Phase, ProtocolError, Service, Ticket};

use super::clients::{Client, Heard};
use super::{Process, Timer};

/// A client that closed its connection early is given this long to end.
const CLOSED_GRACE: Duration = Duration::from_secs(2);

/// A name or its value is not UTF-8.
const NO_TEXT: &str = "name_is_not_text";

impl Process {
    /// Reads once and acts; comes back later if there may be more.
    pub(super) fn serve_pmi(&mut self, rank: Rank) {
        if self.held && rank.0 < self.spec.size() {
            // It waits for the answer to its first word.
            return;
        }
        if self.hear_pmi(rank) == Heard::More {
            self.talking.push_back(rank);
        }
    }

    /// Reads until nothing is left, because the rank has ended.
    pub(super) fn serve_pmi_to_the_end(&mut self, rank: Rank) {
        // Bounded: the rank is dead, and what others may write to its descriptor is not its word.
        const MAX_READS: usize = 64;
        self.clients[rank].pmi.ending = true;
        for _ in 0..MAX_READS {
            if self.hear_pmi(rank) != Heard::More {
                return;
            }
        }
    }

    fn hear_pmi(&mut self, rank: Rank) -> Heard {
        let Some(client) = self.clients.get_mut(rank) else { return Heard::Drained };
        let heard = client.pmi.read();
        if heard == Heard::Closed {
            client.pmi.session.end_of_stream();
            client.pmi.stream = None;
            let phase = client.pmi.session.phase();
            let begins = client.adopted().is_some() && phase == Phase::ExpectInit;
            let unfinished = begins || matches!(phase, Phase::Ready | Phase::InFence);
            // Programs that are debugged come and go.
            if unfinished && client.process.is_some() && client.driver.is_none() {
                self.timers.set(Timer::PmiLost(rank), self.now() + CLOSED_GRACE);
            }
        }
        self.perform_operations(rank);
        self.answering.push(rank);
        let is_over = |client: &Client| {
            client.adopted().is_some() && client.pmi.session.phase() == Phase::Finalized
        };
        if heard == Heard::Closed && self.clients.get(rank).is_some_and(is_over) {
            self.release_adopted();
        }
        heard
    }

    /// What the client of a rank has asked for and may be done now.
    pub(super) fn perform_operations(&mut self, rank: Rank) {
        while let Some((ticket, operation)) = self.next_operation(rank) {
            self.perform_operation(rank, ticket, operation);
        }
    }

    fn next_operation(&mut self, rank: Rank) -> Option<(Ticket, Operation)> {
        self.clients.get_mut(rank)?.pmi.session.poll_operation()
    }

    /// Writes the answers of a turn. All requests that have come are read before: a client that has
    /// its answer runs at once, and would run in between.
    pub(super) fn flush_pmi(&mut self) {
        while let Some(rank) = self.answering.pop() {
            self.perform_operations(rank);
            if let Some(client) = self.clients.get_mut(rank) {
                client.pmi.flush();
            }
            // Requests that waited for room in the output come now.
            while let Some((ticket, operation)) = self.next_operation(rank) {
                self.perform_operation(rank, ticket, operation);
                self.answering.push(rank);
            }
        }
    }

    fn perform_operation(&mut self, rank: Rank, ticket: Ticket, operation: Operation) {
        let Some(client) = self.clients.get_mut(rank) else { return };
        let session = &mut client.pmi.session;
        let Some(world) = self.worlds.of_mut(rank) else { return };
        match operation {
            Operation::Put { key, value } => {
                let put = world.kvs.put(&key, &value);
                if put.is_ok() && world.is_spread {
                    world.fresh.insert(key);
                }
                session.answer(ticket, Answer::Put(put));
            }
            Operation::Get { key } => session.answer(ticket, Answer::Get(world.kvs.get(&key))),
            Operation::GetByIndex { index } => {
                session.answer(ticket, Answer::GetByIndex(world.kvs.get_index(index)));
            }
            Operation::Publish { service, value } => match publication(service, value) {
                Ok(wish) => self.ask_for_name((rank, ticket), wish),
                Err(word) => session.answer(ticket, Answer::Published(Err(word))),
            },
            Operation::Lookup { service } => match named(service) {
                Ok((name, key)) => {
                    self.ask_for_name((rank, ticket), NameWish::Lookup { name, key });
                }
                Err(word) => session.answer(ticket, Answer::Found(Err(word))),
            },
            Operation::Unpublish { service } => match named(service) {
                Ok((name, key)) => {
                    self.ask_for_name((rank, ticket), NameWish::Unpublish { name, key });
                }
                Err(word) => session.answer(ticket, Answer::Unpublished(Err(word))),
            },
            Operation::Fence => {
                self.begin_span(Part::Fence, None);
                self.post(Input::EnteredFence(rank));
            }
            Operation::GroupFence { group } => self.enter_group((rank, ticket), group),
            Operation::PutNodeAttribute { key, value } => {
                self.put_node_attribute((rank, ticket), &key, &value);
            }
            Operation::GetNodeAttribute { key, wait } => {
                self.get_node_attribute((rank, ticket), &key, wait);
            }
            Operation::GetJobAttribute { key } => self.get_job_attribute((rank, ticket), &key),
            Operation::Ring { left, right } => self.enter_ring((rank, ticket), &left, &right),
            Operation::GetOf { jobid, key } => self.get_of((rank, ticket), &jobid, &key),
            Operation::Connect { jobid } => self.bond((rank, ticket), &jobid, true),
            Operation::Disconnect { jobid } => self.bond((rank, ticket), &jobid, false),
            Operation::Signal { rank: peer, signal } => {
                self.ask_for_signal((rank, ticket), peer, signal);
            }
            Operation::Spawn(request) => self.ask_for_spawn((rank, ticket), request),
            Operation::Initialized { dialect, .. } => {
                log::debug!("rank {}: speaks {dialect}", self.name_of(rank));
                self.note_speaker(rank);
                self.post(Input::Initialized(rank));
            }
            Operation::Finalized => self.post(Input::Finalized(rank)),
            Operation::Abort { code, message, .. } => {
                client.has_aborted();
                let message = mpd_io::logging::one_line(&String::from_utf8_lossy(&message));
                self.post(Input::Aborted(rank, code, message));
            }
            // What is no PMI at all is not answered, so nobody would go on.
            Operation::Misbehaved { error: error @ ProtocolError::NoCommand { .. }, .. }
            | Operation::Misbehaved { error, fatal: true } => {
                self.post(Input::BrokeProtocol(rank, error.to_string()));
            }
            Operation::Misbehaved { error, fatal: false } => {
                self.note_misbehaviour(rank, &error.to_string())
            }
        }
    }

    /// Told once per rank: a user who sees it has something to look at, one who floods is not helped.
    fn note_misbehaviour(&mut self, rank: Rank, problem: &str) {
        let name = self.name_of(rank);
        log::debug!("rank {name}: PMI: {problem}");
        if self.misbehaved.insert(rank) {
            let text = format!("rank {name}: broke the PMI protocol: {problem}");
            self.post(Input::Notice(text));
        }
    }

    /// Lets every rank of a world go that waits in the fence.
    pub(super) fn release_fence(&mut self, first: Rank) {
        self.end_span(Part::Fence, None);
        let here = self.worlds.of(first).map(|world| world.here.clone()).unwrap_or_default();
        for &rank in &here {
            if let Some(client) = self.clients.get_mut(rank)
                && let Some(ticket) = client.pmi.session.fence()
            {
                client.pmi.session.answer(ticket, Answer::Fence);
                self.answering.push(rank);
            }
        }
        self.close_rings(first);
        // A client may have sent its next request together with the fence.
        for rank in here {
            self.perform_operations(rank);
        }
    }
}

/// The name that a client means and its key, whose words stay here; or why not, in a word.
fn named(service: Service) -> Result<(String, Option<NameKey>), &'static str> {
    let (name, words) = service.split()?;
    let name = text(name)?;
    let key = words.map(|words| NameKey::new(&name, &words));
    Ok((name, key))
}

fn publication(service: Service, value: Vec<u8>) -> Result<NameWish, &'static str> {
    let (name, key) = named(service)?;
    Ok(NameWish::Publish { name, value: text(value)?, key })
}

/// Names and values travel as text.
fn text(bytes: Vec<u8>) -> Result<String, &'static str> {
    String::from_utf8(bytes).map_err(|_| NO_TEXT)
}
