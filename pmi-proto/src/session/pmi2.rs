//! The dialect of messages: requests taken, and answers put into responses. Several requests may be
//! open at once.

use super::operation::{Answer, Operation};
use super::{
    Dialect, Phase, Session, Wanted, check_key, check_new_pair, check_port, check_value, found,
    refused, said,
};
use crate::error::{ProtocolError, Refusal, excerpt};
use crate::input::Unit;
use crate::limits::{MAX_KVSNAME, MAX_OPEN};
use crate::pmi1::command::Command;
use crate::pmi2::request::row_named;
use crate::pmi2::{Content, Message, Request, Response, Welcome};

/// Whose response it is to be: the token of a thread, and the command it gave.
pub(super) type Asker = (Option<Vec<u8>>, &'static str);

impl Session {
    /// Takes the next message, or line in its place; false when there is none.
    pub(super) fn take_next_unit(&mut self) -> bool {
        let finalized = self.phase() == Phase::Finalized;
        match self.input.next_unit() {
            None => return false,
            Some(Ok(Unit::Line(line))) => match Command::parse(&line) {
                Ok(Command::Init { version, subversion }) => self.initialize(version, subversion),
                Ok(Command::Abort { code, message }) => {
                    self.tell(Operation::Abort { code, world: true, message });
                }
                _ if finalized => {}
                _ => self.fail(ProtocolError::BadFrame { header: excerpt(&line) }),
            },
            Some(Ok(Unit::Body(body))) => match Message::parse(&body) {
                Ok(message) => self.take_message(&message),
                Err(_) if finalized => {}
                Err(error) => self.report(error),
            },
            // Others write to the descriptor by now. An init on a line is still found.
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
            self.tell(Operation::Abort { code, world, message });
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
        // What is echoed is bounded as all that is kept is.
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

    fn perform_request(&mut self, asker: Asker, request: Request) {
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
            Ok(Act::Tell(operation)) => {
                self.tell(operation);
            }
            Ok(Act::Finalize) => {
                self.respond(asker.0, asker.1, Ok(Content::Done));
                self.finalize();
            }
            Err(error) => self.refuse(asker, error),
        }
    }

    /// What is to be done about a request that is welcome.
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
                Act::Ask(Wanted::Put, Operation::Put { key, value })
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
                Act::Ask(Wanted::Put, Operation::PutNodeAttribute { key, value })
            }
            Request::GetNodeAttribute { key, wait } => {
                find(command, key, |key| Operation::GetNodeAttribute { key, wait })?
            }
            Request::GetJobAttribute { key } if key == UNIVERSE_SIZE => {
                let size = self.universe_size().map_or_else(|| "-1".to_owned(), |n| n.to_string());
                Act::Respond(Content::Value(Some(size.into_bytes())))
            }
            Request::GetJobAttribute { key } => {
                find(command, key, |key| Operation::GetJobAttribute { key })?
            }
            Request::Connect { jobid } => {
                check_jobid(command, &jobid)?;
                Act::Ask(Wanted::Done, Operation::Connect { jobid })
            }
            Request::Disconnect { jobid } => {
                check_jobid(command, &jobid)?;
                Act::Ask(Wanted::Done, Operation::Disconnect { jobid })
            }
            // Who is in a fence twice would count for somebody else.
            Request::Fence | Request::Ring { .. } if self.is_in_fence() => {
                return Err(ProtocolError::InFence { command });
            }
            Request::Fence => Act::Ask(Wanted::Fence, Operation::Fence),
            Request::Ring { left, right } => {
                check_value(command, &left)?;
                check_value(command, &right)?;
                Act::Ask(Wanted::Ring, Operation::Ring { left, right })
            }
            Request::Publish { service, port } => {
                check_port(command, &port)?;
                Act::Ask(Wanted::Publish, Operation::Publish { service, value: port })
            }
            Request::Lookup { service } => Act::Ask(Wanted::Lookup, Operation::Lookup { service }),
            Request::Unpublish { service } => {
                Act::Ask(Wanted::Unpublish, Operation::Unpublish { service })
            }
            Request::Spawn(request) => Act::Ask(Wanted::Spawn, Operation::Spawn(request)),
            Request::Signal { rank, signal } => {
                Act::Ask(Wanted::Done, Operation::Signal { rank, signal })
            }
            Request::Abort { code, world, message } => {
                Act::Tell(Operation::Abort { code, world, message })
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

    /// Says no, and reports.
    fn refuse(&mut self, (thrid, command): Asker, error: ProtocolError) {
        self.respond(thrid, command, Err(Refusal::new(-1, error.msg())));
        self.report(error);
    }

    /// Appends a response to the output; one that fits no message is replaced by its refusal.
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
        // A refusal fits: all in it is bounded.
        self.output.extend(frame.unwrap_or_default());
    }

    /// What an answer tells; `None` when it is no answer to that.
    pub(super) fn content(
        &self,
        wanted: &Wanted,
        answer: Answer<'_>,
    ) -> Option<Result<Content, Refusal>> {
        Some(match (wanted, answer) {
            (Wanted::Put, Answer::Put(result)) => refused(result).map(|()| Content::Done),
            (Wanted::Value { .. }, Answer::Get(value)) => {
                Ok(Content::Value(value.map(<[u8]>::to_vec)))
            }
            (Wanted::Publish, Answer::Published(result))
            | (Wanted::Unpublish, Answer::Unpublished(result)) => {
                said(result).map(|()| Content::Done)
            }
            (Wanted::Done, Answer::Done(result)) => said(result).map(|()| Content::Done),
            (Wanted::Lookup, Answer::Found(result)) => found(result).map(Content::Port),
            (Wanted::Fence, Answer::Fence) => Ok(Content::Done),
            (Wanted::Ring, Answer::Ring(result)) => said(result).map(|(left, right)| {
                Content::Ring { rank: self.facts.rank, left: left.to_vec(), right: right.to_vec() }
            }),
            (Wanted::Spawn, Answer::Spawned(Ok(spawned))) => {
                let all_run = spawned.errors.iter().all(|&code| code == 0);
                let errors = if all_run { Vec::new() } else { spawned.errors.to_vec() };
                Ok(Content::Spawned { jobid: spawned.jobid.into(), errors })
            }
            (Wanted::Spawn, Answer::Spawned(Err(word))) => Err(Refusal::new(-1, word)),
            (_, _) => return None,
        })
    }
}

/// What a request leads to.
enum Act {
    Respond(Content),
    Ask(Wanted, Operation),
    Tell(Operation),
    Finalize,
}

/// What a request for the value of a key leads to.
fn find(
    command: &'static str,
    key: Vec<u8>,
    operation: impl FnOnce(Vec<u8>) -> Operation,
) -> Result<Act, ProtocolError> {
    check_key(command, &key)?;
    Ok(Act::Ask(Wanted::Value { key: key.clone() }, operation(key)))
}

fn check_jobid(command: &'static str, jobid: &[u8]) -> Result<(), ProtocolError> {
    if jobid.is_empty() || jobid.len() >= MAX_KVSNAME {
        return Err(ProtocolError::ForeignKvs { command, kvsname: excerpt(jobid) });
    }
    Ok(())
}

/// The one job attribute that needs no asking.
const UNIVERSE_SIZE: &[u8] = b"universeSize";
