//! Names between the clients and the daemon: what clients of both protocols ask for, and how they are answered.

use mpd_job::manager::Input;
use mpd_wire::message::{ManagerReport, NameAnswer, NameOperation};
use mpd_wire::names::{Hold, NameKey};
use pmi_proto::{Answer, Operation, Service};

use crate::caller::Caller;
use crate::fresh_name::FreshName;
use crate::names::{Asker, Output};
use crate::pmix::{NameTicket, plain_value};
use crate::router::Router;
use crate::turn::Turn;

/// A name or its value is not UTF-8.
const NOT_TEXT: &str = "name_is_not_text";

impl Router {
    /// Begins an operation on a name, or refuses it.
    pub(super) fn begin_name(&mut self, turn: &Turn<'_>, caller: Caller, operation: Operation) {
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
        if let Err(refusal) = begun {
            self.pmi.answer(caller, refusal);
        }
    }

    /// Passes on a request of PMIx clients.
    pub(super) fn ask_for_pmix(
        &mut self,
        turn: &Turn<'_>,
        ticket: NameTicket,
        operation: NameOperation,
    ) {
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
    }

    /// Routes an output of the names.
    pub(super) fn route_name(&mut self, turn: &mut Turn<'_>, output: Output) {
        match output {
            Output::Ask(request, operation) => {
                turn.send_to_daemon(ManagerReport::Name { request, operation });
            }
            Output::Answer(Asker::Pmi(caller), operation, answer) => {
                self.answer_name(caller, &operation, &answer);
                self.pmi.perform_operations(turn, caller.0);
            }
            Output::Answer(Asker::Pmix(ticket), _, answer) => {
                self.pmix.named(turn, ticket, answer);
            }
            Output::Report(text) => {
                turn.post(Input::Notice(format!("host {}: {text}", turn.job.host())));
            }
        }
    }

    fn answer_name(&mut self, caller: Caller, operation: &NameOperation, answer: &NameAnswer) {
        let result = match answer {
            NameAnswer::Done => Ok(""),
            NameAnswer::Value(value) => plain_value(value).ok_or("service_not_found"),
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
        self.pmi.answer(caller, answer);
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
