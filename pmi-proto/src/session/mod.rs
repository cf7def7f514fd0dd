//! Session: one client's conversation, seen from its manager.
//!
//! Bytes from the client go in by [`receive`](Session::receive); what the manager has to do comes
//! out of [`poll_operation`](Session::poll_operation), and what the client is to be told out of
//! [`output`](Session::output). Whatever concerns this client alone is answered here; the KVS and
//! the fence belong to the manager. Does not know when its process is gone: that is `waitpid`'s
//! word, not the stream's.
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
//! Any conversation begins in lines. `init` says which dialect follows: [`pmi1`] stays with lines, of
//! which nothing is decoded while an answer is awaited, but for one of the [`barriers`] of PMI-1.2; [`pmi2`] goes over to messages, and lets requests
//! of several threads wait for their answers at once.

mod barriers;
mod operation;
mod pmi1;
mod pmi2;

use std::collections::{BTreeMap, VecDeque};

use self::barriers::Barriers;
pub use self::operation::{Answer, Operation, Ticket};
use self::pmi1::Lines;
use self::pmi2::Asker;
use crate::error::{ProtocolError, PutError, Refusal, excerpt};
use crate::input::InputBuffer;
use crate::limits::{
    MAX_BACKLOG, MAX_KEY, MAX_KVSNAME, MAX_LINE, MAX_OPERATIONS, MAX_OUTPUT, MAX_PORT, MAX_VALUE,
};
use crate::pmi1::group::BarrierGroup;
use crate::singleton;

/// What a session must know of its rank's job to answer by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Name of the job's KVS: at most 255 bytes, no spaces, no newline, never used before on this
    /// host.
    pub kvsname: String,
    /// The client's rank; told in PMI-2, and to clients that came by `PMI_PORT`.
    pub rank: u32,
    /// How many ranks the job has; told as the rank is.
    pub size: u32,
    /// Which argset of the job the rank belongs to; -1 leaves `MPI_APPNUM` unset.
    pub appnum: i32,
    /// `MPI_UNIVERSE_SIZE`; `None` is told as -1, unknown, and so is 0, which no client expects.
    pub universe_size: Option<u32>,
    /// Name of the KVS of the job that spawned this one; told in PMI-2.
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
    /// What waits for an answer.
    open: BTreeMap<Ticket, Open>,
    last_ticket: Ticket,
    output: Vec<u8>,
    operations: VecDeque<(Ticket, Operation)>,
    ended: bool,
    /// After a fatal error nothing more is decoded.
    deaf: bool,
    /// The process was started without a manager; see [`crate::singleton`].
    is_singleton: bool,
}

/// Which PMI a client speaks.
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

/// How far the conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No `init` was accepted yet.
    ExpectInit,
    /// Between `init` and `finalize`; also while a put or a get waits for its answer.
    Ready,
    /// In a fence or a ring, until the manager answers that.
    InFence,
    /// After `finalize`; an `init` leads back to ready.
    Finalized,
}

/// How far it is, but for what waits for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    ExpectInit,
    Ready,
    Finalized,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Open {
    /// Who asked, in PMI-2.
    asker: Option<Asker>,
    wanted: Wanted,
}

/// What is wanted, and what the reply needs beside the answer.
#[derive(Debug)]
enum Wanted {
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
}

impl Session {
    /// A conversation in which nothing was said yet.
    ///
    /// The name of the KVS must keep to what [`Facts`] says; in debug builds this panics if not.
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
    /// [greeting](crate::singleton::GREETING): it is told the rest, and begins as all do.
    pub fn of_singleton(facts: Facts) -> Self {
        let output = singleton::welcome(&facts.kvsname);
        Self { output, is_singleton: true, ..Self::new(facts) }
    }

    /// Takes bytes from the client, in any chunking.
    ///
    /// At most [`MAX_LINE`] bytes a call, with all operations polled in between, never trip
    /// [`ProtocolError::TooMuchPending`] unless the client keeps sending without reading. Not to
    /// be called after [`end_of_stream`](Self::end_of_stream).
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

    /// The stream will bring no more. A partial line is dropped, and reported unless the client
    /// has finalized; complete ones that wait are still served.
    pub fn end_of_stream(&mut self) {
        self.ended = true;
        self.advance();
    }

    /// The next thing the manager has to do or know, and the ticket for its answer.
    pub fn poll_operation(&mut self) -> Option<(Ticket, Operation)> {
        if self.operations.is_empty() {
            self.advance();
        }
        self.operations.pop_front()
    }

    /// Answers the operation that came with this ticket, in whatever order.
    ///
    /// An answer to another kind of operation, or to none that is open, is the caller's misuse: it
    /// panics in debug builds and is ignored in others.
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
        // In PMI-2 nothing waited for this: what has come is looked at when operations are polled,
        // and other answers of now go before it.
        if self.dialect == Dialect::Pmi1 {
            self.enter_put_off();
            self.advance();
        }
    }

    /// Bytes to be written to the client.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// The first `n` bytes of the output have been written.
    ///
    /// `n` beyond the output is the caller's misuse: it panics in debug builds and counts as all
    /// of it in others.
    pub fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.output.len(), "consumed more than there is");
        self.output.drain(..n.min(self.output.len()));
        self.advance();
    }

    /// How far the conversation is.
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::ExpectInit => Phase::ExpectInit,
            Stage::Ready if self.is_in_fence() => Phase::InFence,
            Stage::Ready => Phase::Ready,
            Stage::Finalized => Phase::Finalized,
        }
    }

    /// The ticket of the fence of its world that the client waits in.
    pub fn fence(&self) -> Option<Ticket> {
        let mut open = self.open.iter();
        open.find(|(_, open)| matches!(open.wanted, Wanted::Fence)).map(|(ticket, _)| *ticket)
    }

    fn is_in_fence(&self) -> bool {
        self.open
            .values()
            .any(|open| matches!(open.wanted, Wanted::Fence | Wanted::GroupFence(_) | Wanted::Ring))
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

    /// How many operations may wait for the manager before the decoding stops. In PMI-2 each may be
    /// answered before the next request is looked at, so that it does not matter which come together.
    const fn most_operations(&self) -> usize {
        match self.dialect {
            Dialect::Pmi1 => MAX_OPERATIONS,
            Dialect::Pmi2 => 1,
        }
    }

    /// What is left when all complete lines are taken and the stream has ended.
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

    /// An `init` was answered.
    fn begin(&mut self, dialect: Dialect) {
        let first = self.stage == Stage::ExpectInit;
        self.stage = Stage::Ready;
        self.dialect = dialect;
        self.lines = Lines::default();
        self.tell(Operation::Initialized { first, dialect });
    }

    /// A `finalize` was answered.
    fn finalize(&mut self) {
        if self.stage != Stage::Finalized {
            self.stage = Stage::Finalized;
            self.tell(Operation::Finalized);
        }
    }

    /// Hands the manager something to be answered.
    fn ask(&mut self, asker: Option<Asker>, wanted: Wanted, operation: Operation) {
        let ticket = self.tell(operation);
        self.open.insert(ticket, Open { asker, wanted });
    }

    /// Hands the manager something.
    fn tell(&mut self, operation: Operation) -> Ticket {
        self.last_ticket = Ticket(self.last_ticket.0.wrapping_add(1));
        self.operations.push_back((self.last_ticket, operation));
        self.last_ticket
    }

    fn own_kvsname(&self) -> Vec<u8> {
        self.facts.kvsname.clone().into_bytes()
    }

    fn universe_size(&self) -> Option<u32> {
        self.facts.universe_size.filter(|&size| size > 0)
    }

    fn report(&mut self, error: ProtocolError) {
        self.tell(Operation::Misbehaved { error, fatal: false });
    }

    /// Ends decoding for good. After finalize it is nobody's concern any more.
    fn fail(&mut self, error: ProtocolError) {
        self.deaf = true;
        self.input.clear();
        if self.phase() != Phase::Finalized {
            self.tell(Operation::Misbehaved { error, fatal: true });
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

/// What came of a put.
fn refused(result: Result<(), PutError>) -> Result<(), Refusal> {
    result.map_err(|error| Refusal::new(-1, error.msg()))
}

/// What came of something about a name; why not, as Hydra's `rc=1` and a word.
fn said<T>(result: Result<T, &str>) -> Result<T, Refusal> {
    result.map_err(|word| Refusal::new(1, word))
}

/// What came of a lookup. A port that the client may have no room for is not sent.
fn found(result: Result<&[u8], &str>) -> Result<Vec<u8>, Refusal> {
    let port = said(result)?;
    match check_port("lookup_name", port) {
        Ok(()) => Ok(port.to_vec()),
        Err(error) => Err(Refusal::new(1, error.msg())),
    }
}

/// How the keys begin that only the process manager sets.
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
            universe_size: Some(0),
            spawner: None,
        })
    }

    #[test]
    fn operations_nobody_polls_stop_the_decoding() {
        let mut session = session();
        session.receive(&b"nonsense\n".repeat(1000));
        assert_eq!(session.operations.len(), MAX_OPERATIONS);
        assert!(session.input.pending() > 0);
    }

    #[test]
    fn nothing_is_kept_after_a_fatal_error() {
        let mut session = session();
        session.receive(&vec![b'x'; MAX_LINE + 1]);
        session.receive(b"cmd=init pmi_version=1\n");
        assert!(session.deaf);
        assert_eq!((session.input.pending(), session.output()), (0, &b""[..]));
    }

    #[test]
    fn a_universe_of_nothing_is_told_as_unknown() {
        let mut session = session();
        session.receive(b"cmd=init pmi_version=1\ncmd=get_universe_size\n");
        assert!(session.output().ends_with(b"size=-1\n"));
    }
}
