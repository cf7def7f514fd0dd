//! The dialect of messages: decodes requests and encodes answers. Several requests may be open at once.

use super::operation::{Answer, Operation};
use super::{
    Dialect, Pending, Phase, Session, check_key, check_new_pair, check_port, check_value, found,
    refused, with_reason,
};
use crate::error::{ProtocolError, Refusal, excerpt};
use crate::input::Unit;
use crate::limits::{MAX_KVSNAME, MAX_OPEN};
use crate::pmi1::command::Command;
use crate::pmi2::request::row_named;
use crate::pmi2::{Content, Message, Request, Response, Welcome};

/// The addressee of a response: the token of a thread, and its command.
pub(super) type Pmi2Asker = (Option<Vec<u8>>, &'static str);

impl Session {
    /// Decodes the next message, or a line at its place; false if there is none.
    pub(super) fn take_next_unit(&mut self) -> bool {
        let finalized = self.phase() == Phase::Finalized;
        match self.input.next_unit() {
            None => return false,
            Some(Ok(Unit::Line(line))) => match Command::parse(&line) {
                Ok(Command::Init { version, subversion }) => self.initialize(version, subversion),
                Ok(Command::Abort { code, message }) => {
                    self.request(Operation::Abort { code, world: true, message });
                }
                _ if finalized => {}
                _ => self.fail(ProtocolError::BadFrame { header: excerpt(&line) }),
            },
            Some(Ok(Unit::Body(body))) => match Message::parse(&body) {
                Ok(message) => self.take_message(&message),
                Err(_) if finalized => {}
                Err(error) => self.report(error),
            },
            // Other processes may write to the descriptor by now. An init on a line is still found.
            Some(Err(_)) if finalized => self.dialect = Dialect::Pmi1,
            Some(Err(error)) => self.fail(error),
        }
        true
    }

    fn take_message(&mut self, message: &Message) {
        let finalized = self.phase() == Phase::Finalized;
        let thrid = message.get("thrid").map(<[u8]>::to_vec);
        let request = Request::parse(message);
        if let Ok(Request::Abort { code, world, message }) = request {
            self.request(Operation::Abort { code, world, message });
            return;
        }
        let Some(row) = row_named(message.command()) else {
            if !finalized {
                let name = excerpt(message.command());
                let error = ProtocolError::UnknownCommand { name: name.clone() };
                let thrid = thrid.filter(|token| check_value("", token).is_ok());
                self.respond(thrid, &name, Err(Refusal::new(-1, error.msg())));
                self.report(error);
            }
            return;
        };
        // The echoed token is bounded like a value.
        if let Some(Err(error)) = thrid.as_ref().map(|token| check_value(row.name, token)) {
            return self.refuse((None, row.name), error);
        }
        match request {
            Ok(request) => self.perform_request((thrid, row.name), request),
            // Grandchildren inherit the descriptor and may write anything to it.
            Err(_) if finalized => {}
            Err(error) => self.refuse((thrid, row.name), error),
        }
    }

    fn perform_request(&mut self, asker: Pmi2Asker, request: Request) {
        match (self.phase(), &request) {
            (Phase::Ready | Phase::InFence, _) | (_, Request::Abort { .. } | Request::Finalize) => {
            }
            (Phase::ExpectInit | Phase::Finalized, _) => {
                let command = asker.1;
                return self.refuse(asker, ProtocolError::NotInitialized { command });
            }
        }
        match self.operation_of(asker.1, request) {
            Ok(Act::Respond(content)) => self.respond(asker.0, asker.1, Ok(content)),
            Ok(Act::Ask(wanted, operation)) => {
                if self.open.len() >= MAX_OPEN {
                    let command = asker.1;
                    return self.refuse(asker, ProtocolError::TooManyOpen { command });
                }
                self.ask(Some(asker), wanted, operation);
            }
            Ok(Act::Request(operation)) => {
                self.request(operation);
            }
            Ok(Act::Finalize) => {
                self.respond(asker.0, asker.1, Ok(Content::Done));
                self.finalize();
            }
            Err(error) => self.refuse(asker, error),
        }
    }

    /// The action for an allowed request.
    fn operation_of(&self, command: &'static str, request: Request) -> Result<Act, ProtocolError> {
        Ok(match request {
            Request::FullInit { rank, .. } => match rank {
                Some(pmiid) if pmiid != self.facts.rank => {
                    return Err(ProtocolError::WrongRank { pmiid });
                }
                _ => Act::Respond(Content::Welcome(self.welcome())),
            },
            Request::JobId => Act::Respond(Content::JobId(self.own_kvsname())),
            Request::Put { key, value } => {
                check_key(command, &key)?;
                check_new_pair(command, &key, &value)?;
                Act::Ask(Pending::Put, Operation::Put { key, value })
            }
            Request::Get { jobid, key } => {
                if jobid.is_empty() || jobid == self.facts.kvsname.as_bytes() {
                    find(command, key, |key| Operation::Get { key })?
                } else {
                    check_jobid(command, &jobid)?;
                    find(command, key, |key| Operation::GetOf { jobid, key })?
                }
            }
            Request::PutNodeAttribute { key, value } => {
                check_key(command, &key)?;
                check_value(command, &value)?;
                Act::Ask(Pending::Put, Operation::PutNodeAttribute { key, value })
            }
            Request::GetNodeAttribute { key, wait } => {
                find(command, key, |key| Operation::GetNodeAttribute { key, wait })?
            }
            Request::GetJobAttribute { key } if key == UNIVERSE_SIZE => {
                Act::Ask(Pending::UniverseSize, Operation::UniverseSize)
            }
            Request::GetJobAttribute { key } => {
                find(command, key, |key| Operation::GetJobAttribute { key })?
            }
            Request::Connect { jobid } => {
                check_jobid(command, &jobid)?;
                Act::Ask(Pending::Done, Operation::Connect { jobid })
            }
            Request::Disconnect { jobid } => {
                check_jobid(command, &jobid)?;
                Act::Ask(Pending::Done, Operation::Disconnect { jobid })
            }
            // A client that is in a fence twice would count as two ranks.
            Request::Fence | Request::Ring { .. } if self.is_in_fence() => {
                return Err(ProtocolError::InFence { command });
            }
            Request::Fence => Act::Ask(Pending::Fence, Operation::Fence),
            Request::Ring { left, right } => {
                check_value(command, &left)?;
                check_value(command, &right)?;
                Act::Ask(Pending::Ring, Operation::Ring { left, right })
            }
            Request::Publish { service, port } => {
                check_port(command, &port)?;
                Act::Ask(Pending::Publish, Operation::Publish { service, value: port })
            }
            Request::Lookup { service } => Act::Ask(Pending::Lookup, Operation::Lookup { service }),
            Request::Unpublish { service } => {
                Act::Ask(Pending::Unpublish, Operation::Unpublish { service })
            }
            Request::Spawn(request) => Act::Ask(Pending::Spawn, Operation::Spawn(request)),
            Request::Signal { rank, signal } => {
                Act::Ask(Pending::Done, Operation::Signal { rank, signal })
            }
            Request::Abort { code, world, message } => {
                Act::Request(Operation::Abort { code, world, message })
            }
            Request::Finalize => Act::Finalize,
        })
    }

    fn welcome(&self) -> Welcome {
        Welcome {
            rank: self.facts.rank,
            size: self.facts.size,
            appnum: self.facts.appnum,
            spawner: self.facts.spawner.as_ref().map(|name| name.clone().into_bytes()),
        }
    }

    /// Sends a refusal, and reports the error.
    fn refuse(&mut self, (thrid, command): Pmi2Asker, error: ProtocolError) {
        self.respond(thrid, command, Err(Refusal::new(-1, error.msg())));
        self.report(error);
    }

    /// Appends a response to the output. A response that does not fit a message is replaced by its refusal.
    pub(super) fn respond(
        &mut self,
        thrid: Option<Vec<u8>>,
        command: &str,
        outcome: Result<Content, Refusal>,
    ) {
        let mut response = Response { thrid, command: command.into(), outcome };
        let frame = response.message().encode().or_else(|_| {
            response.outcome = Err(Refusal::new(-1, "value_too_long"));
            response.message().encode()
        });
        // A refusal fits, because all its parts are bounded.
        self.output.extend(frame.unwrap_or_default());
    }

    /// The content of the response for an answer; `None` if the answer does not fit the request.
    pub(super) fn content(
        &self,
        wanted: &Pending,
        answer: Answer<'_>,
    ) -> Option<Result<Content, Refusal>> {
        Some(match (wanted, answer) {
            (Pending::Put, Answer::Put(result)) => refused(result).map(|()| Content::Done),
            (Pending::Value { .. }, Answer::Get(value)) => {
                Ok(Content::Value(value.map(<[u8]>::to_vec)))
            }
            (Pending::Publish, Answer::Published(result))
            | (Pending::Unpublish, Answer::Unpublished(result)) => {
                with_reason(result).map(|()| Content::Done)
            }
            (Pending::UniverseSize, Answer::UniverseSize(size)) => {
                let size = size.filter(|&size| size > 0).map_or(-1, i64::from);
                Ok(Content::Value(Some(size.to_string().into_bytes())))
            }
            (Pending::Done, Answer::Done(result)) => with_reason(result).map(|()| Content::Done),
            (Pending::Lookup, Answer::Found(result)) => found(result).map(Content::Port),
            (Pending::Fence, Answer::Fence) => Ok(Content::Done),
            (Pending::Ring, Answer::Ring(result)) => with_reason(result).map(|(left, right)| {
                Content::Ring { rank: self.facts.rank, left: left.to_vec(), right: right.to_vec() }
            }),
            (Pending::Spawn, Answer::Spawned(Ok(spawned))) => {
                let all_run = spawned.errors.iter().all(|&code| code == 0);
                let errors = if all_run { Vec::new() } else { spawned.errors.to_vec() };
                Ok(Content::Spawned { jobid: spawned.jobid.into(), errors })
            }
            (Pending::Spawn, Answer::Spawned(Err(word))) => Err(Refusal::new(-1, word)),
            (_, _) => return None,
        })
    }
}

/// The action for a request.
enum Act {
    Respond(Content),
    Ask(Pending, Operation),
    Request(Operation),
    Finalize,
}

/// The action for a request for the value of a key.
fn find(
    command: &'static str,
    key: Vec<u8>,
    operation: impl FnOnce(Vec<u8>) -> Operation,
) -> Result<Act, ProtocolError> {
    check_key(command, &key)?;
    Ok(Act::Ask(Pending::Value { key: key.clone() }, operation(key)))
}

fn check_jobid(command: &'static str, jobid: &[u8]) -> Result<(), ProtocolError> {
    if jobid.is_empty() || jobid.len() >= MAX_KVSNAME {
        return Err(ProtocolError::ForeignKvs { command, kvsname: excerpt(jobid) });
    }
    Ok(())
}

/// The job attribute with an operation of its own.
const UNIVERSE_SIZE: &[u8] = b"universeSize";
