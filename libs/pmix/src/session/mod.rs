//! The connection of one client.
//!
//! The manager passes the bytes of the client to [`receive`](Session::receive), gets [`Operation`]s from
//! [`poll_operation`](Session::poll_operation), and writes [`output`](Session::output) to the client.
//!
//! ```text
//!               admit               finalize
//! Connecting ─────────▶ Connected ────────────▶ Finalized
//!     │ refuse              │ end of stream         │
//!     └─────────────────────┴──────────▶ Closed ◀───┘
//! ```
//!
//! The session knows neither clock nor system. The manager looks up the user of the connection, keeps the timers of
//! requests, and ends the connection when it is [to be closed](Session::is_to_be_closed).

mod arguments;
mod events;
mod groups;
mod operation;

use std::collections::{BTreeMap, VecDeque};

use pmi_proto::Ticket;

use self::arguments::Refused;
use self::events::Registrations;
use self::groups::Groups;
pub use self::operation::{Answer, CleanUp, Event, Operation, Persistence, Range, Spawn};
use crate::connect::{self, Introduction, Refusal};
use crate::encoding::{Data, Encoding};
use crate::error::ProtocolError;
use crate::event_log::OrderedEvent;
use crate::limits::{MAX_BEYOND, MAX_MESSAGE, MAX_OPEN, MAX_OUTPUT, MAX_RANK_BYTES, MAX_UNREAD};
use crate::message::{self, GroupForm, Reply, Request};
use crate::status::Status;
use crate::transport::{Header, Incoming, Outgoing, TAG_EVENT};
use crate::view::Proc;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The client must send its connect message, and the manager must admit it.
    Connecting,
    /// The client may send requests.
    Connected,
    /// The client has finalized. It may still send requests.
    Finalized,
    /// No more bytes are received.
    Closed,
}

/// The connection of one client.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    incoming: Incoming,
    client: Client,
    /// The requests that wait for answers.
    open: BTreeMap<Ticket, Open>,
    open_bytes: usize,
    /// What else the manager keeps for the rank, in bytes.
    lasting: usize,
    next_ticket: Ticket,
    events: Registrations,
    groups: Groups,
    operations: VecDeque<(Ticket, Operation)>,
    output: Outgoing,
    /// Whether the connect message waits for the manager's decision.
    is_undecided: bool,
    has_ended: bool,
}

/// The facts about the client.
#[derive(Debug)]
struct Client {
    proc: Proc,
    encoding: Encoding,
    release: [u32; 3],
    index: u32,
}

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy)]
struct Open {
    tag: u32,
    command: u8,
    /// The estimated memory of the request.
    bytes: usize,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A connection that has received no bytes.
    pub fn new() -> Self {
        let client = Client {
            proc: Proc::new("", 0),
            encoding: Encoding::Flexible,
            release: [0; 3],
            index: 0,
        };
        Self {
            phase: Phase::Connecting,
            incoming: Incoming::default(),
            client,
            open: BTreeMap::new(),
            open_bytes: 0,
            lasting: 0,
            next_ticket: Ticket::FIRST,
            events: Registrations::default(),
            groups: Groups::default(),
            operations: VecDeque::new(),
            output: Outgoing::default(),
            is_undecided: false,
            has_ended: false,
        }
    }

    /// Takes bytes from the client, in any pieces. Bytes of a closed connection are ignored.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.phase == Phase::Closed {
            return;
        }
        self.incoming.push(bytes);
        self.advance();
        // More bytes can wait only if the client sends without reading its replies.
        if self.incoming.pending() > 2 * MAX_MESSAGE {
            self.fail(ProtocolError::NotReading);
        }
    }

    /// The stream has ended. Complete messages are still decoded. The session is closed when all operations are polled.
    pub fn end_of_stream(&mut self) {
        self.has_ended = true;
        self.advance();
    }

    /// Admits the client. `index` is any number; the client repeats it in its messages.
    pub fn admit(&mut self, introduction: &Introduction, encoding: Encoding, index: u32) {
        if self.phase != Phase::Connecting {
            debug_assert!(false, "a client is admitted once");
            return;
        }
        self.client = Client {
            proc: Proc::new(introduction.namespace.as_slice(), introduction.rank),
            encoding,
            release: introduction.release(),
            index,
        };
        self.phase = Phase::Connected;
        self.is_undecided = false;
        self.output.push(&connect::answer(Status::SUCCESS, index));
    }

    /// Refuses the client. The manager closes the connection when the output is written. A tool gets no status: the
    /// library of PMIx 4 continues after any status as if it were connected, and reports a broken message.
    pub fn refuse(&mut self, refusal: Refusal) {
        if refusal != Refusal::Role {
            self.output.push(&connect::answer(refusal.status(), 0));
        }
        self.close();
    }

    /// The next operation for the manager, and the ticket for its answer. After each call except `notify` and `output`,
    /// the manager polls until there is no operation.
    pub fn poll_operation(&mut self) -> Option<(Ticket, Operation)> {
        if self.operations.is_empty() {
            self.advance();
        }
        self.operations.pop_front()
    }

    /// Answers the operation with this ticket. The order of answers does not matter.
    ///
    /// The request must be open, or the connection closed.
    pub fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        let Some(open) = self.take_open(ticket) else {
            debug_assert!(self.phase == Phase::Closed, "{answer:?} answers no open request");
            return;
        };
        self.groups.answered(ticket, &answer);
        let reply = self.reply(answer);
        self.send_reply(open, &reply);
    }

    /// The timeout that the client gave for this request has expired.
    pub fn expire(&mut self, ticket: Ticket) {
        if let Some(open) = self.take_open(ticket) {
            let answer = Answer::Done(Status::TIMEOUT);
            self.groups.answered(ticket, &answer);
            self.send_reply(open, &self.reply(answer));
        }
    }

    fn take_open(&mut self, ticket: Ticket) -> Option<Open> {
        let open = self.open.remove(&ticket)?;
        self.open_bytes -= open.bytes;
        Some(open)
    }

    /// The estimated memory of a request that waits for its answer.
    pub fn size_of(&self, ticket: Ticket) -> usize {
        self.open.get(&ticket).map_or(0, |open| open.bytes)
    }

    /// The memory of the groups that the client has constructed, in bytes. It lasts, and the session counts it.
    pub const fn group_bytes(&self) -> usize {
        self.groups.bytes()
    }

    /// Sets what the manager keeps for the rank besides requests that wait, in bytes.
    pub const fn set_lasting(&mut self, bytes: usize) {
        self.lasting = bytes;
    }

    /// Whether the requests that wait use more than the rank's budget. No message is decoded then, and no bytes should
    /// be read, until some requests are answered.
    pub const fn is_over_budget(&self) -> bool {
        let waiting = self.open_bytes;
        waiting > MAX_BEYOND && waiting + self.lasting + self.group_bytes() > MAX_RANK_BYTES
    }

    /// Sends an event if the client is registered for it and has not got it. Returns whether it was sent.
    pub fn notify(&mut self, ordered: &OrderedEvent) -> bool {
        if self.phase != Phase::Connected || !self.events.take(ordered) {
            return false;
        }
        let payload = message::write_event(self.client.encoding, &ordered.event);
        self.send(TAG_EVENT, &payload);
        true
    }

    /// Bytes to be written to the client.
    pub fn output(&self) -> &[u8] {
        self.output.waiting()
    }

    /// Removes the first `n` bytes of the output, which have been written.
    pub fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.output.waiting().len(), "consumed more than there is");
        self.output.take(n);
    }

    /// The phase of the connection.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the manager must close the connection now: no bytes are received, and all output is written.
    pub fn is_to_be_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed) && self.output.waiting().is_empty()
    }

    /// The process of the client. It is valid after the admission.
    pub const fn proc(&self) -> &Proc {
        &self.client.proc
    }

    /// The encoding of the client. It is valid after the admission.
    pub const fn encoding(&self) -> Encoding {
        self.client.encoding
    }

    /// The requests that wait for answers.
    pub fn open(&self) -> impl Iterator<Item = Ticket> {
        self.open.keys().copied()
    }

    /// Decodes up to the next operation. If the manager answers at once, the answer precedes the decoding of the next
    /// request.
    fn advance(&mut self) {
        while self.operations.is_empty() && !self.is_undecided {
            if self.has_ended {
                self.output.clear();
            } else if self.is_over_budget() || self.output.waiting().len() >= MAX_OUTPUT {
                return;
            }
            let took = match self.phase {
                Phase::Closed => return,
                Phase::Connecting => self.take_introduction(),
                Phase::Connected | Phase::Finalized => self.take_message(),
            };
            if !took {
                if self.has_ended {
                    self.end();
                }
                return;
            }
        }
    }

    /// Ends the session after all messages are decoded and the stream has ended.
    fn end(&mut self) {
        let pending = self.incoming.pending();
        if pending > 0 && self.phase == Phase::Connected {
            self.report(ProtocolError::Partial(pending), false);
        }
        self.output.clear();
        self.close();
    }

    fn take_introduction(&mut self) -> bool {
        match self.incoming.connect() {
            Ok(None) => return false,
            Ok(Some(payload)) => match Introduction::read(&payload) {
                Ok(introduction) => {
                    self.is_undecided = true;
                    self.queue(Operation::Connecting(introduction));
                }
                Err(error) => self.fail(error),
            },
            Err(too_long) => self.fail(ProtocolError::TooLong(too_long.0)),
        }
        true
    }

    fn take_message(&mut self) -> bool {
        match self.incoming.message() {
            Ok(None) => return false,
            Ok(Some((header, payload))) => self.take_request(header.tag, &payload),
            Err(too_long) => self.fail(ProtocolError::TooLong(too_long.0)),
        }
        true
    }

    fn take_request(&mut self, tag: u32, payload: &[u8]) {
        let command = command_of(self.client.encoding, payload);
        let open = Open { tag, command: command.unwrap_or(u8::MAX), bytes: 0 };
        match Request::read_sized(self.client.encoding, self.client.release, payload) {
            Ok((request, bytes)) => self.perform(Open { bytes, ..open }, request),
            Err(error) => {
                let status = match error {
                    ProtocolError::UnknownCommand(_) => Status::NOT_SUPPORTED,
                    _ => Status::UNPACK_FAILURE,
                };
                self.report(error, false);
                if message::has_reply(open.command) {
                    self.send_reply(open, &Reply::Done(status));
                }
            }
        }
    }

    fn perform(&mut self, open: Open, request: Request) {
        let own = self.client.proc.clone();
        let operation = match request {
            Request::Abort { status, message, procs } => {
                self.send_reply(open, &Reply::Done(Status::SUCCESS));
                let message = message.unwrap_or_default();
                return self.queue(Operation::Abort { status: status.0, message, procs });
            }
            Request::Finalize => return self.finalize(open),
            Request::Register { codes, info } => {
                let registered = self.events.register(&codes, &info);
                let status = registered.as_ref().err().copied().unwrap_or(Status::SUCCESS);
                self.send_reply(open, &Reply::Done(status));
                if let Ok(codes) = registered {
                    self.queue(Operation::Registered { codes });
                }
                return;
            }
            Request::Deregister { codes } => return self.events.deregister(&codes),
            Request::Unsupported { .. } | Request::GroupLeave { .. } => {
                return self.send_reply(open, &Reply::Done(Status::NOT_SUPPORTED));
            }
            Request::GroupDestruct { group, mut procs, info } => {
                if procs.is_empty() {
                    procs = self.groups.members(&group).unwrap_or_default().to_vec();
                }
                operation_of(Request::GroupDestruct { group, procs, info }, &own)
            }
            request => operation_of(request, &own),
        };
        match operation {
            Err((status, problem)) => {
                let command = message::name_of(open.command);
                // A request that is not supported is no misbehaviour.
                if status != Status::NOT_SUPPORTED {
                    self.report(ProtocolError::Refused { command, problem }, false);
                }
                self.send_reply(open, &Reply::Done(status));
            }
            Ok(_) if self.open.len() >= MAX_OPEN => {
                self.report(ProtocolError::TooManyOpen, false);
                self.send_reply(open, &Reply::Done(Status::OUT_OF_RESOURCE));
            }
            Ok(operation) => {
                if let Err(error) = self.note_group(&operation) {
                    self.report(error, false);
                    return self.send_reply(open, &Reply::Done(Status::OUT_OF_RESOURCE));
                }
                self.open_bytes += open.bytes;
                self.open.insert(self.next_ticket, open);
                self.queue(operation);
            }
        }
    }

    /// Notes the group that a client constructs or destructs, if there is room for it.
    fn note_group(&mut self, operation: &Operation) -> Result<(), ProtocolError> {
        if let Operation::Construct { group, procs, .. } = operation {
            let room = MAX_RANK_BYTES.saturating_sub(self.lasting + self.group_bytes());
            self.groups.construct(self.next_ticket, group, procs, room)?;
        } else if let Operation::Destruct { group, .. } = operation {
            self.groups.destruct(self.next_ticket, group);
        }
        Ok(())
    }

    fn finalize(&mut self, open: Open) {
        self.send_reply(open, &Reply::Done(Status::SUCCESS));
        if self.phase == Phase::Connected {
            self.phase = Phase::Finalized;
            self.queue(Operation::Finalized);
        }
    }

    fn reply(&self, answer: Answer<'_>) -> Reply {
        match answer {
            Answer::Done(status) => Reply::Done(status),
            Answer::JobInfo(info) => Reply::JobInfo {
                namespace: self.client.proc.namespace.clone(),
                info: info.to_vec(),
            },
            Answer::Data(data) => Reply::Data(vec![data.to_vec()]),
            Answer::AllData(list) => Reply::Data(list.to_vec()),
            Answer::Found(found) => Reply::Found(found.to_vec()),
            Answer::Spawned { namespace, info } => {
                Reply::Spawned { namespace: namespace.to_vec(), info: info.to_vec() }
            }
            Answer::Connected(jobs) => Reply::Connected(jobs.to_vec()),
            Answer::Answers(status, info) => Reply::Answers(status, info.to_vec()),
            Answer::Group { members, context } => Reply::Group {
                members: members.to_vec(),
                context,
                form: GroupForm::of(self.client.release),
            },
        }
    }

    fn send_reply(&mut self, open: Open, reply: &Reply) {
        let payload = reply.write(self.client.encoding, open.command);
        self.send(open.tag, &payload);
    }

    fn send(&mut self, tag: u32, payload: &[u8]) {
        let Ok(length) = u32::try_from(payload.len()) else {
            debug_assert!(false, "a message of {} bytes", payload.len());
            return;
        };
        if self.output.waiting().len() + payload.len() > MAX_UNREAD {
            return self.fail(ProtocolError::NotReading);
        }
        let header = Header { index: self.client.index, tag, length };
        self.output.push(&header.write());
        self.output.push(payload);
    }

    fn queue(&mut self, operation: Operation) {
        self.operations.push_back((self.next_ticket, operation));
        self.next_ticket = self.next_ticket.next();
    }

    fn report(&mut self, error: ProtocolError, is_fatal: bool) {
        self.queue(Operation::Misbehaved { error, is_fatal });
    }

    fn fail(&mut self, error: ProtocolError) {
        if self.phase != Phase::Closed {
            if error == ProtocolError::NotReading {
                self.output.clear();
            }
            self.report(error, true);
            self.close();
        }
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.incoming.clear();
        self.open.clear();
        self.open_bytes = 0;
    }
}

/// The number of the command, if it can be read.
fn command_of(encoding: Encoding, payload: &[u8]) -> Option<u8> {
    let mut reader = crate::encoding::Reader::new(encoding, payload);
    match reader.one(crate::encoding::DataType::COMMAND) {
        Ok(Data::Unsigned(number)) => u8::try_from(number).ok(),
        _ => None,
    }
}

fn operation_of(request: Request, own: &Proc) -> Result<Operation, Refused> {
    use arguments::{members, timeout};
    match request {
        Request::JobInfo => Ok(Operation::JobInfo),
        Request::Commit { puts } => Ok(Operation::Commit { puts }),
        Request::Fence { procs, info } => arguments::fence(procs, &info, own),
        Request::Get { proc, info, key } => Ok(Operation::Get {
            proc,
            key,
            immediate: crate::view::Info::is_set(&info, "pmix.immediate"),
            timeout: timeout(&info),
        }),
        Request::Publish { info, .. } => arguments::publish(info),
        Request::Lookup { keys, info, .. } => arguments::lookup(keys, &info),
        Request::Unpublish { keys, info, .. } => arguments::unpublish(keys, &info),
        Request::Spawn { info, apps } => arguments::spawn(&info, apps),
        Request::Connect { procs, info } => {
            Ok(Operation::Connect { procs: members(procs, own)?, timeout: timeout(&info) })
        }
        Request::Disconnect { procs, info } => {
            Ok(Operation::Disconnect { procs: members(procs, own)?, timeout: timeout(&info) })
        }
        Request::Notify { status, range, info } => arguments::notify(status, range, info, own),
        Request::Query { queries } => Ok(Operation::Query(queries)),
        Request::Log { info, .. } => arguments::log(&info),
        Request::JobControl { info, .. } => arguments::job_control(&info),
        Request::GroupConstruct { group, procs, info } => {
            arguments::construct(group, procs, &info, own)
        }
        Request::GroupDestruct { group, procs, info } => {
            Ok(Operation::Destruct { group, procs: members(procs, own)?, timeout: timeout(&info) })
        }
        Request::Abort { .. }
        | Request::Finalize
        | Request::Register { .. }
        | Request::Deregister { .. }
        | Request::GroupLeave { .. }
        | Request::Unsupported { .. } => Err((Status::NOT_SUPPORTED, "not offered")),
    }
}
