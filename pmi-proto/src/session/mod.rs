//! Session: one client's conversation, on the manager's side.
//!
//! [`receive`](Session::receive) takes bytes from the client. [`poll_operation`](Session::poll_operation) returns the
//! operations for the manager, and [`output`](Session::output) the bytes for the client. A session answers requests
//! that concern only its client. The KVS and the fence belong to the manager. A session does not detect the end of its
//! process; only `waitpid` does.
//!
//! ```text
//!             init               fence
//! ExpectInit ──────▶ Ready ─────────────────▶ InFence
//!                    │ ▲ ▲        answer         │
//!                    │ │ └───────────────────────┘
//!           finalize ▼ │ init
//!                  Finalized
//! ```
//!
//! Every conversation begins with lines, and `init` selects the dialect. [`pmi1`] uses lines and decodes no line
//! while an answer is outstanding, except in the [`barriers`] of PMI-1.2. [`pmi2`] uses messages, and several threads
//! may have requests open at once.

mod barriers;
mod opening;
mod operation;
mod pmi1;
mod pmi2;

use std::collections::{BTreeMap, VecDeque};

use self::barriers::Barriers;
use self::opening::Opening;
pub use self::operation::{Answer, Operation, Ticket};
use self::pmi1::Lines;
use self::pmi2::Pmi2Asker;
use crate::error::{ProtocolError, PutError, Refusal, excerpt};
use crate::input::InputBuffer;
use crate::limits::{
    MAX_BACKLOG, MAX_KEY, MAX_KVSNAME, MAX_LINE, MAX_OPERATIONS, MAX_OUTPUT, MAX_PORT, MAX_VALUE,
};
use crate::pmi1::group::BarrierGroup;
use crate::singleton;

/// Data of the rank and its job, for the answers that the session gives by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Name of the job's KVS: at most 255 bytes, no spaces, no newline, and unique on this host.
    pub kvsname: String,
    /// The client's rank. It is sent in PMI-2, and to clients that connected to `PMI_PORT`.
    pub rank: u32,
    /// The number of ranks of the job. It is sent in the same cases as the rank.
    pub size: u32,
    /// The number of the rank's argset; -1 leaves `MPI_APPNUM` unset.
    pub appnum: i32,
    /// Name of the KVS of the job that spawned this one; sent in PMI-2.
    pub spawner: Option<String>,
}

/// One client's conversation, server side.
#[derive(Debug)]
pub struct Session {
    facts: Facts,
    stage: Stage,
    dialect: Dialect,
    input: InputBuffer,
    lines: Lines,
    barriers: Barriers,
    opening: Opening,
    /// Requests that wait for an answer.
    open: BTreeMap<Ticket, Open>,
    last_ticket: Ticket,
    output: Vec<u8>,
    operations: VecDeque<(Ticket, Operation)>,
    ended: bool,
    /// A fatal error has occurred: nothing more is decoded.
    deaf: bool,
    /// The process was started without a manager; see [`crate::singleton`].
    is_singleton: bool,
}

/// The PMI dialect of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PMI-1, in lines.
    Pmi1,
    /// PMI-2, in messages.
    Pmi2,
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pmi1 => "PMI-1",
            Self::Pmi2 => "PMI-2",
        })
    }
}

/// The phase of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No `init` was accepted yet.
    ExpectInit,
    /// Between `init` and `finalize`, also while a put or a get waits for its answer.
    Ready,
    /// In a fence or a ring that the manager has not answered.
    InFence,
    /// After `finalize`. Another `init` leads back to [`Phase::Ready`].
    Finalized,
}

/// The phase without regard to requests that wait for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    ExpectInit,
    Ready,
    Finalized,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Open {
    /// The sender of the request, in PMI-2.
    asker: Option<Pmi2Asker>,
    wanted: Pending,
}

/// The kind of answer that is expected, with the data for its reply.
#[derive(Debug)]
enum Pending {
    Put,
    Value { key: Vec<u8> },
    Entry { index: usize },
    Publish,
    Lookup,
    Unpublish,
    Fence,
    GroupFence(BarrierGroup),
    Ring,
    Done,
    Spawn,
    UniverseSize,
}

impl Session {
    /// A new conversation.
    ///
    /// The name of the KVS must have the form that [`Facts`] requires; in debug builds another name panics.
    pub fn new(facts: Facts) -> Self {
        debug_assert!(
            facts.kvsname.len() < MAX_KVSNAME
                && facts.kvsname.bytes().all(|b| b.is_ascii_graphic()),
            "a KVS name is one short word"
        );
        Self {
            facts,
            stage: Stage::ExpectInit,
            dialect: Dialect::Pmi1,
            input: InputBuffer::new(MAX_LINE),
            lines: Lines::default(),
            barriers: Barriers::default(),
            opening: Opening::Nothing,
            open: BTreeMap::new(),
            last_ticket: Ticket(0),
            output: Vec::new(),
            operations: VecDeque::new(),
            ended: false,
            deaf: false,
            is_singleton: false,
        }
    }

    /// The conversation of a process that was started without a manager, after it has answered the
    /// [greeting](crate::singleton::GREETING). The output begins with the rest of that exchange.
    pub fn of_singleton(facts: Facts) -> Self {
        let output = singleton::welcome(&facts.kvsname);
        Self { output, is_singleton: true, ..Self::new(facts) }
    }

    /// Takes bytes from the client, in any chunking.
    ///
    /// At most [`MAX_LINE`] bytes per call, with all operations polled in between, never cause
    /// [`ProtocolError::TooMuchPending`], unless the client sends without reading. Not to be called after
    /// [`end_of_stream`](Self::end_of_stream).
    pub fn receive(&mut self, bytes: &[u8]) {
        debug_assert!(!self.ended, "bytes after the end of the stream");
        if self.deaf || self.ended {
            return;
        }
        self.input.push(bytes);
        self.advance();
        if self.input.pending() > MAX_BACKLOG {
            self.fail(ProtocolError::TooMuchPending);
        }
    }

    /// The stream has ended. A partial line is dropped, and reported unless the client has finalized. Complete lines
    /// that wait are still served.
    pub fn end_of_stream(&mut self) {
        self.ended = true;
        self.advance();
    }

    /// The next operation for the manager, and the ticket for its answer.
    pub fn poll_operation(&mut self) -> Option<(Ticket, Operation)> {
        if self.operations.is_empty() {
            self.advance();
        }
        self.operations.pop_front()
    }

    /// Answers the operation of this ticket. Answers may come in any order.
    ///
    /// An answer of another kind, or without an open operation, is an error of the caller. It panics in debug builds
    /// and is ignored in others.
    pub fn answer(&mut self, ticket: Ticket, answer: Answer<'_>) {
        let Some(open) = self.open.remove(&ticket) else {
            debug_assert!(false, "{answer:?} does not answer anything that is open");
            return;
        };
        let answered = match &open.asker {
            None => {
                let has_groups = self.barriers.has_groups;
                pmi1::reply(&open.wanted, answer, has_groups).map(|reply| self.send(&reply))
            }
            Some((thrid, command)) => self
                .content(&open.wanted, answer)
                .map(|outcome| self.respond(thrid.clone(), command, outcome)),
        };
        if answered.is_none() {
            debug_assert!(false, "{answer:?} does not answer {open:?}");
            self.open.insert(ticket, open);
        }
        // A PMI-2 client was not held up by this request. Its further bytes are decoded when operations are polled,
        // after the other answers of this moment.
        if self.dialect == Dialect::Pmi1 {
            self.enter_put_off();
            self.advance();
        }
    }

    /// Bytes to be written to the client.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Removes the first `n` bytes of the output, which were written.
    ///
    /// An `n` beyond the output is an error of the caller. It panics in debug builds and counts as the whole output in
    /// others.
    pub fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.output.len(), "consumed more than there is");
        self.output.drain(..n.min(self.output.len()));
        self.advance();
    }

    /// The phase of the conversation.
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::ExpectInit => Phase::ExpectInit,
            Stage::Ready if self.is_in_fence() => Phase::InFence,
            Stage::Ready => Phase::Ready,
            Stage::Finalized => Phase::Finalized,
        }
    }

    /// The ticket of the fence of the world in which the client waits.
    pub fn fence(&self) -> Option<Ticket> {
        let mut open = self.open.iter();
        open.find(|(_, open)| matches!(open.wanted, Pending::Fence)).map(|(ticket, _)| *ticket)
    }

    /// Whether the client's last request is its first fence, and all its requests until then are those of an MPICH before
    /// 4.2 or of a relative such as Intel MPI. MPICH 4.2 and later send another request before their first fence.
    pub fn opens_like_early_mpich(&self) -> bool {
        self.opening == Opening::Fence
    }

    fn is_in_fence(&self) -> bool {
        self.open.values().any(|open| {
            matches!(open.wanted, Pending::Fence | Pending::GroupFence(_) | Pending::Ring)
        })
    }

    /// Decodes as far as the outstanding requests and the limits allow.
    fn advance(&mut self) {
        while !self.deaf && self.operations.len() < self.most_operations() {
            let full = self.output.len() >= MAX_OUTPUT;
            let took = match self.dialect {
                Dialect::Pmi1 => {
                    let must_wait = full || self.awaits_answer();
                    if must_wait && !self.abort_is_next() {
                        return;
                    }
                    self.take_next_line()
                }
                Dialect::Pmi2 if full => return,
                Dialect::Pmi2 => self.take_next_unit(),
            };
            if !took {
                return self.take_end();
            }
        }
    }

    /// How many operations may wait for the manager before decoding stops. In PMI-2, and in PMI-1 with groups, each one
    /// may be answered before the next request is decoded, so the result does not depend on the chunking.
    const fn most_operations(&self) -> usize {
        match self.dialect {
            Dialect::Pmi1 if !self.barriers.has_groups => MAX_OPERATIONS,
            Dialect::Pmi1 | Dialect::Pmi2 => 1,
        }
    }

    /// Handles the rest after the end of the stream, when all complete lines are decoded.
    fn take_end(&mut self) {
        if !self.ended {
            return;
        }
        let length = self.input.pending();
        let block = self.lines.block.take();
        self.input.clear();
        if self.phase() == Phase::Finalized {
            return;
        }
        if length > 0 {
            self.report(ProtocolError::PartialLine { length });
        } else if block.is_some() {
            self.report(ProtocolError::UnfinishedBlock);
        }
    }

    /// Changes the state after a positive answer to `init`.
    fn begin(&mut self, dialect: Dialect) {
        let first = self.stage == Stage::ExpectInit;
        self.stage = Stage::Ready;
        self.dialect = dialect;
        self.lines = Lines::default();
        self.request(Operation::Initialized { first, dialect });
    }

    /// Changes the state after a positive answer to `finalize`.
    fn finalize(&mut self) {
        if self.stage != Stage::Finalized {
            self.stage = Stage::Finalized;
            self.request(Operation::Finalized);
        }
    }

    /// Queues an operation that needs an answer.
    fn ask(&mut self, asker: Option<Pmi2Asker>, wanted: Pending, operation: Operation) {
        let ticket = self.request(operation);
        self.open.insert(ticket, Open { asker, wanted });
    }

    /// Queues an operation.
    fn request(&mut self, operation: Operation) -> Ticket {
        self.last_ticket = Ticket(self.last_ticket.0.wrapping_add(1));
        self.operations.push_back((self.last_ticket, operation));
        self.last_ticket
    }

    fn own_kvsname(&self) -> Vec<u8> {
        self.facts.kvsname.clone().into_bytes()
    }

    fn report(&mut self, error: ProtocolError) {
        self.request(Operation::Misbehaved { error, fatal: false });
    }

    /// Ends decoding for good. After finalize the error is not reported.
    fn fail(&mut self, error: ProtocolError) {
        self.deaf = true;
        self.input.clear();
        if self.phase() != Phase::Finalized {
            self.request(Operation::Misbehaved { error, fatal: true });
        }
    }
}

fn check_key(command: &'static str, key: &[u8]) -> Result<(), ProtocolError> {
    match key.len() {
        0 => Err(ProtocolError::EmptyKey { command }),
        length if length >= MAX_KEY => Err(ProtocolError::KeyTooLong { command, length }),
        _ => Ok(()),
    }
}

fn check_value(command: &'static str, value: &[u8]) -> Result<(), ProtocolError> {
    match value.len() {
        length if length >= MAX_VALUE => Err(ProtocolError::ValueTooLong { command, length }),
        _ => Ok(()),
    }
}

fn check_port(command: &'static str, port: &[u8]) -> Result<(), ProtocolError> {
    match port.len() {
        length if length >= MAX_PORT => Err(ProtocolError::PortTooLong { command, length }),
        _ => Ok(()),
    }
}

fn check_new_pair(command: &'static str, key: &[u8], value: &[u8]) -> Result<(), ProtocolError> {
    if key.starts_with(RESERVED) {
        return Err(ProtocolError::ReservedKey { key: excerpt(key) });
    }
    check_value(command, value)
}

/// The result of a put as a reply.
fn refused(result: Result<(), PutError>) -> Result<(), Refusal> {
    result.map_err(|error| Refusal::new(-1, error.msg()))
}

/// The result of an operation as a reply. A failure has the code 1 of Hydra and the reason, which is one word.
fn with_reason<T>(result: Result<T, &str>) -> Result<T, Refusal> {
    result.map_err(|reason| Refusal::new(1, reason))
}

/// The result of a lookup as a reply. A port longer than the client's room is not sent.
fn found(result: Result<&[u8], &str>) -> Result<Vec<u8>, Refusal> {
    let port = with_reason(result)?;
    match check_port("lookup_name", port) {
        Ok(()) => Ok(port.to_vec()),
        Err(error) => Err(Refusal::new(1, error.msg())),
    }
}

/// The beginning of the keys that only the process manager sets.
const RESERVED: &[u8] = b"PMI_";

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session::new(Facts {
            kvsname: "kvs_1_0".into(),
            rank: 0,
            size: 1,
            appnum: 0,
            spawner: None,
        })
    }

    #[test]
    fn decoding_stops_while_no_operation_is_polled() {
        let mut session = session();
        session.receive(&b"nonsense\n".repeat(1000));
        assert_eq!(session.operations.len(), MAX_OPERATIONS);
        assert!(session.input.pending() > 0);
    }

    #[test]
    fn no_bytes_are_kept_after_a_fatal_error() {
        let mut session = session();
        session.receive(&vec![b'x'; MAX_LINE + 1]);
        session.receive(b"cmd=init pmi_version=1\n");
        assert!(session.deaf);
        assert_eq!((session.input.pending(), session.output()), (0, &b""[..]));
    }

    #[test]
    fn a_universe_of_size_0_is_sent_as_unknown() {
        let mut session = session();
        session.receive(b"cmd=init pmi_version=1\ncmd=get_universe_size\n");
        while let Some((ticket, operation)) = session.poll_operation() {
            if operation == Operation::UniverseSize {
                session.answer(ticket, Answer::UniverseSize(Some(0)));
            }
        }
        assert!(session.output().ends_with(b"size=-1\n"));
    }
}
