//! Session: one client's conversation, seen from its manager.
//!
//! Bytes from the client go in by [`receive`](Session::receive); what the manager has to do comes
//! out of [`poll_operation`](Session::poll_operation), and what the client is to be told out of
//! [`output`](Session::output). Whatever concerns this client alone is answered here; the KVS and
//! the fence belong to the manager. Does not know when its process is gone: that is `waitpid`'s
//! word, not the stream's.
//!
//! ```text
//!             init                  put, get, getbyidx
//! ExpectInit ──────▶ Ready ◀───────────────────────────▶ waiting for answer (still Ready)
//!                    │ ▲ ▲  barrier_in      answer
//!                    │ │ └──────────────────────────────▶ InFence
//!           finalize ▼ │ init
//!                  Finalized
//! ```

use std::collections::VecDeque;

use crate::command::{Block, Command, row_named};
use crate::error::{ProtocolError, PutError, excerpt};
use crate::input::{InputBuffer, TooLong};
use crate::limits::{
    MAX_BACKLOG, MAX_KEY, MAX_KVSNAME, MAX_LINE, MAX_OPERATIONS, MAX_OUTPUT, MAX_REPLY, MAX_VALUE,
};
use crate::reply::{IndexedEntry, Refusal, Reply, SUBVERSION, Setting, VERSION};

/// What a session must know of its rank's job to answer by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Name of the job's KVS: at most 255 bytes, no spaces, no newline, never used before on this
    /// host.
    pub kvsname: String,
    /// The client's rank; told only to clients that came by `PMI_PORT`.
    pub rank: u32,
    /// How many ranks the job has; told as the rank is.
    pub size: u32,
    /// Which argset of the job the rank belongs to; -1 leaves `MPI_APPNUM` unset.
    pub appnum: i32,
    /// `MPI_UNIVERSE_SIZE`; `None` is told as -1, unknown, and so is 0, which no client expects.
    pub universe_size: Option<u32>,
}

/// One client's conversation, server side.
#[derive(Debug)]
pub struct Session {
    facts: Facts,
    state: State,
    input: InputBuffer,
    /// The block being read, between its `mcmd=` and its `endcmd`.
    block: Option<Block>,
    output: Vec<u8>,
    operations: VecDeque<Operation>,
    ended: bool,
    /// After a fatal error nothing more is decoded.
    deaf: bool,
}

/// How far the conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No `init` was accepted yet.
    ExpectInit,
    /// Between `init` and `finalize`; also while a put or a get waits for its answer.
    Ready,
    /// In a barrier, until the manager answers [`Answer::Fence`].
    InFence,
    /// After `finalize`; an `init` leads back to ready.
    Finalized,
}

/// What the manager has to do or to know.
///
/// `Put`, `Get`, `GetByIndex`, `Publish`, `Lookup`, `Unpublish` and `Fence` want exactly one [`Answer`];
/// nothing more is decoded before it, save an abort that comes next. The others want none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// An `init` was accepted, and answered.
    Initialized {
        /// False when the client repeats it, with or without a finalize between.
        first: bool,
    },
    /// Store a pair; visible to others after the next fence. The key is not empty, not reserved,
    /// and no longer than advertised, as is the value.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value, which may be empty.
        value: Vec<u8>,
    },
    /// Find a value. Reserved keys come here as all others.
    Get {
        /// The key.
        key: Vec<u8>,
    },
    /// Find the pair with this index.
    GetByIndex {
        /// Counted from 0.
        index: usize,
    },
    /// Publish a name for other jobs; it may hold spaces and be of any length.
    Publish {
        /// The name.
        name: Vec<u8>,
        /// What it stands for: the name of a port.
        value: Vec<u8>,
    },
    /// Find what a name stands for.
    Lookup {
        /// The name.
        name: Vec<u8>,
    },
    /// Take a name back.
    Unpublish {
        /// The name.
        name: Vec<u8>,
    },
    /// The rank arrived at the barrier.
    Fence,
    /// A `finalize` was accepted, and answered. Not repeated when the client repeats itself.
    Finalized,
    /// The client wants the job killed. It gets no answer and may just wait for the signal.
    Abort {
        /// As the client gave it, any number; 1 when it gave none that can be read.
        code: i32,
        /// Its words, bounded only by the line; not for a terminal as they are.
        message: Vec<u8>,
    },
    /// The client did what the protocol does not know. It was answered where that is possible.
    Misbehaved {
        /// What it did, for the log.
        error: ProtocolError,
        /// The session is deaf from now on: end the rank.
        fatal: bool,
    },
}

/// The manager's answer to an [`Operation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// To a put.
    Put(Result<(), PutError>),
    /// To a get; `None` when there is no such key.
    Get(Option<&'a [u8]>),
    /// To a get by index, key and value; `None` past the last pair.
    GetByIndex(Option<(&'a [u8], &'a [u8])>),
    /// To a publication, or why the name is not published: one word.
    Published(Result<(), &'a str>),
    /// To a lookup: what the name stands for, or why that is not known, in one word.
    Found(Result<&'a [u8], &'a str>),
    /// To a name taken back, or why there was none to take: one word.
    Unpublished(Result<(), &'a str>),
    /// To a fence: all ranks have arrived, and what they put can be got.
    Fence,
}

/// The phase, and what the outstanding request needs for its reply.
#[derive(Debug)]
enum State {
    ExpectInit,
    Ready,
    AwaitPut,
    AwaitGet { key: Vec<u8> },
    AwaitGetByIndex { index: usize },
    AwaitPublish,
    AwaitLookup,
    AwaitUnpublish,
    InFence,
    Finalized,
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
            state: State::ExpectInit,
            input: InputBuffer::new(MAX_LINE),
            block: None,
            output: Vec::new(),
            operations: VecDeque::new(),
            ended: false,
            deaf: false,
        }
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

    /// The next thing the manager has to do or know.
    pub fn poll_operation(&mut self) -> Option<Operation> {
        let operation = self.operations.pop_front()?;
        self.advance();
        Some(operation)
    }

    /// Answers the outstanding operation.
    ///
    /// An answer to another kind of operation, or to none, is the caller's misuse: it panics in
    /// debug builds and is ignored in others.
    pub fn answer(&mut self, answer: Answer<'_>) {
        let reply = match (std::mem::replace(&mut self.state, State::Ready), answer) {
            (State::AwaitPut, Answer::Put(result)) => {
                Reply::PutResult(result.map_err(|error| Refusal::new(-1, error.msg())))
            }
            (State::AwaitGet { key }, Answer::Get(value)) => get_reply(&key, value),
            (State::AwaitGetByIndex { index }, Answer::GetByIndex(entry)) => {
                indexed_reply(index, entry)
            }
            (State::AwaitPublish, Answer::Published(result)) => Reply::PublishResult(said(result)),
            (State::AwaitLookup, Answer::Found(result)) => {
                Reply::LookupResult(said(result).map(<[u8]>::to_vec))
            }
            (State::AwaitUnpublish, Answer::Unpublished(result)) => {
                Reply::UnpublishResult(said(result))
            }
            (State::InFence, Answer::Fence) => Reply::BarrierOut,
            (state, answer) => {
                debug_assert!(false, "{answer:?} does not answer {state:?}");
                self.state = state;
                return;
            }
        };
        self.send(&reply);
        self.advance();
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
        match self.state {
            State::ExpectInit => Phase::ExpectInit,
            State::Ready
            | State::AwaitPut
            | State::AwaitGet { .. }
            | State::AwaitGetByIndex { .. }
            | State::AwaitPublish
            | State::AwaitLookup
            | State::AwaitUnpublish => Phase::Ready,
            State::InFence => Phase::InFence,
            State::Finalized => Phase::Finalized,
        }
    }

    /// Decodes as far as the outstanding request and the limits allow.
    fn advance(&mut self) {
        while !self.deaf && self.operations.len() < MAX_OPERATIONS {
            if self.must_wait() && !self.abort_is_next() {
                return;
            }
            match self.input.next_line() {
                Some(Ok(line)) => self.take_line(&line),
                Some(Err(TooLong)) if self.phase() == Phase::Finalized => {}
                Some(Err(TooLong)) => self.fail(ProtocolError::LineTooLong),
                None => {
                    self.take_end();
                    return;
                }
            }
        }
    }

    fn must_wait(&self) -> bool {
        let outstanding = match self.state {
            State::ExpectInit | State::Ready | State::Finalized => false,
            State::AwaitPut
            | State::AwaitGet { .. }
            | State::AwaitGetByIndex { .. }
            | State::AwaitPublish
            | State::AwaitLookup
            | State::AwaitUnpublish
            | State::InFence => true,
        };
        outstanding || self.output.len() >= MAX_OUTPUT
    }

    /// Whether the next line is an abort. It passes while a request is outstanding: a thread may
    /// abort while another one waits in a barrier that would never end.
    fn abort_is_next(&mut self) -> bool {
        self.block.is_none() && self.input.peek_line().is_some_and(Command::is_abort)
    }

    /// What is left when all complete lines are taken and the stream has ended.
    fn take_end(&mut self) {
        if !self.ended {
            return;
        }
        let length = self.input.pending();
        let block = self.block.take();
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

    fn take_line(&mut self, line: &[u8]) {
        let command = if let Some(block) = &mut self.block {
            if !block.add(line) {
                return;
            }
            let command = block.finish();
            self.block = None;
            command
        } else if let Some(block) = Block::begin(line) {
            self.block = Some(block);
            return;
        } else {
            Command::parse(line)
        };
        match command {
            Ok(command) => self.perform(command),
            // Grandchildren inherit the descriptor and may write anything to it.
            Err(_) if self.phase() == Phase::Finalized => {}
            Err(error) => self.refuse(error),
        }
    }

    fn perform(&mut self, command: Command) {
        if !self.is_welcome(&command) {
            return self.refuse(ProtocolError::NotInitialized { command: command.name() });
        }
        match command {
            Command::InitAck { pmiid } => self.acknowledge(pmiid),
            Command::Init { version } => self.initialize(version),
            Command::GetMaxes => {
                self.send(&Reply::Maxes { kvsname: MAX_KVSNAME, key: MAX_KEY, value: MAX_VALUE })
            }
            Command::GetAppnum => self.send(&Reply::Appnum(self.facts.appnum)),
            Command::GetMyKvsname => self.send(&Reply::MyKvsname(self.own_kvsname())),
            Command::GetUniverseSize => {
                let known = self.facts.universe_size.filter(|&size| size > 0);
                self.send(&Reply::UniverseSize(known));
            }
            Command::Put { kvsname, key, value } => self.put(&kvsname, key, value),
            Command::Get { kvsname, key } => self.get(&kvsname, key),
            Command::GetByIndex { kvsname, index } => self.get_by_index(&kvsname, index),
            // The job has one KVS; who asks for a new one is given that.
            Command::CreateKvs => self.send(&Reply::NewKvs(self.own_kvsname())),
            Command::DestroyKvs { kvsname } => match self.check_kvsname("destroy_kvs", &kvsname) {
                Ok(()) => self.send(&Reply::KvsDestroyed(Ok(()))),
                Err(error) => self.refuse(error),
            },
            Command::BarrierIn => {
                self.state = State::InFence;
                self.operations.push_back(Operation::Fence);
            }
            Command::PublishName { service, port } => {
                self.state = State::AwaitPublish;
                self.operations.push_back(Operation::Publish { name: service, value: port });
            }
            Command::LookupName { service } => {
                self.state = State::AwaitLookup;
                self.operations.push_back(Operation::Lookup { name: service });
            }
            Command::UnpublishName { service } => {
                self.state = State::AwaitUnpublish;
                self.operations.push_back(Operation::Unpublish { name: service });
            }
            // A call of several blocks is answered once, at its last.
            Command::Spawn { last_block: false } => {}
            Command::Spawn { last_block: true } => {
                self.send(&Reply::SpawnResult(Err(Refusal::new(-1, "spawn_not_supported_yet"))));
            }
            Command::Abort { code, message } => {
                self.operations.push_back(Operation::Abort { code, message });
            }
            Command::Finalize => self.finalize(),
        }
    }

    /// Whether a command may come in this phase.
    fn is_welcome(&self, command: &Command) -> bool {
        match self.phase() {
            Phase::Ready | Phase::InFence => true,
            Phase::ExpectInit => BEFORE_INIT.contains(&command.name()),
            Phase::Finalized => AFTER_FINALIZE.contains(&command.name()),
        }
    }

    fn acknowledge(&mut self, pmiid: u32) {
        if pmiid != self.facts.rank {
            return self.refuse(ProtocolError::WrongRank { pmiid });
        }
        self.send(&Reply::InitAck { rc: 0 });
        self.send(&Reply::Set { setting: Setting::Size, value: self.facts.size });
        self.send(&Reply::Set { setting: Setting::Rank, value: self.facts.rank });
        self.send(&Reply::Set { setting: Setting::Debug, value: 0 });
    }

    fn initialize(&mut self, version: u32) {
        if version != VERSION {
            return self.refuse(ProtocolError::UnsupportedVersion { version });
        }
        self.send(&Reply::ResponseToInit { version: VERSION, subversion: SUBVERSION, rc: 0 });
        let first = self.phase() == Phase::ExpectInit;
        self.state = State::Ready;
        self.operations.push_back(Operation::Initialized { first });
    }

    fn finalize(&mut self) {
        self.send(&Reply::FinalizeAck { rc: 0 });
        if self.phase() != Phase::Finalized {
            self.state = State::Finalized;
            self.operations.push_back(Operation::Finalized);
        }
    }

    fn put(&mut self, kvsname: &[u8], key: Vec<u8>, value: Vec<u8>) {
        let checked = self
            .check_kvsname("put", kvsname)
            .and_then(|()| check_key("put", &key))
            .and_then(|()| check_new_pair(&key, &value));
        if let Err(error) = checked {
            return self.refuse(error);
        }
        self.state = State::AwaitPut;
        self.operations.push_back(Operation::Put { key, value });
    }

    fn get(&mut self, kvsname: &[u8], key: Vec<u8>) {
        let checked = self.check_kvsname("get", kvsname).and_then(|()| check_key("get", &key));
        if let Err(error) = checked {
            return self.refuse(error);
        }
        self.state = State::AwaitGet { key: key.clone() };
        self.operations.push_back(Operation::Get { key });
    }

    fn get_by_index(&mut self, kvsname: &[u8], index: usize) {
        if let Err(error) = self.check_kvsname("getbyidx", kvsname) {
            return self.refuse(error);
        }
        self.state = State::AwaitGetByIndex { index };
        self.operations.push_back(Operation::GetByIndex { index });
    }

    fn check_kvsname(&self, command: &'static str, kvsname: &[u8]) -> Result<(), ProtocolError> {
        if kvsname == self.facts.kvsname.as_bytes() {
            return Ok(());
        }
        Err(ProtocolError::ForeignKvs { command, kvsname: excerpt(kvsname) })
    }

    fn own_kvsname(&self) -> Vec<u8> {
        self.facts.kvsname.clone().into_bytes()
    }

    /// Says no in the form the command's row knows, and reports.
    fn refuse(&mut self, error: ProtocolError) {
        if let Some(command) = error.command() {
            let form = row_named(command).and_then(|row| row.reply);
            let reply = Reply::refuse(form, command, Refusal::new(-1, error.msg()));
            self.send(&reply);
        }
        self.report(error);
    }

    fn report(&mut self, error: ProtocolError) {
        self.operations.push_back(Operation::Misbehaved { error, fatal: false });
    }

    /// Ends decoding for good. After finalize it is nobody's concern any more.
    fn fail(&mut self, error: ProtocolError) {
        self.deaf = true;
        self.input.clear();
        if self.phase() != Phase::Finalized {
            self.operations.push_back(Operation::Misbehaved { error, fatal: true });
        }
    }

    /// Appends a reply to the output; one that is no single line of bounded length is replaced by
    /// its refusal. Only values can be at fault, since all else in a reply is bounded.
    fn send(&mut self, reply: &Reply) {
        let line = reply.encode();
        let (text, _newline) = line.split_at(line.len() - 1);
        if text.len() > MAX_REPLY {
            self.send_refusal(reply, "value_too_long");
        } else if text.contains(&b'\n') {
            self.send_refusal(reply, "value_is_not_one_line");
        } else {
            self.output.extend_from_slice(&line);
        }
    }

    fn send_refusal(&mut self, reply: &Reply, msg: &str) {
        let name = reply.name();
        let refusal = Reply::refuse(name, name.unwrap_or_default(), Refusal::new(-1, msg));
        self.output.extend_from_slice(&refusal.encode());
    }
}

fn check_key(command: &'static str, key: &[u8]) -> Result<(), ProtocolError> {
    match key.len() {
        0 => Err(ProtocolError::EmptyKey { command }),
        length if length >= MAX_KEY => Err(ProtocolError::KeyTooLong { command, length }),
        _ => Ok(()),
    }
}

fn check_new_pair(key: &[u8], value: &[u8]) -> Result<(), ProtocolError> {
    if key.starts_with(RESERVED) {
        return Err(ProtocolError::ReservedKey { key: excerpt(key) });
    }
    if value.len() >= MAX_VALUE {
        return Err(ProtocolError::ValueTooLong { length: value.len() });
    }
    Ok(())
}

fn get_reply(key: &[u8], value: Option<&[u8]>) -> Reply {
    Reply::GetResult(match value {
        Some(value) => Ok(value.to_vec()),
        None => Err(Refusal::new(-1, format!("key_{}_not_found", excerpt(key)))),
    })
}

/// What came of something about a name; why not, as Hydra's `rc=1` and a word.
fn said<T>(result: Result<T, &str>) -> Result<T, Refusal> {
    result.map_err(|word| Refusal::new(1, word))
}

fn indexed_reply(index: usize, entry: Option<(&[u8], &[u8])>) -> Reply {
    Reply::GetByIndexResult(match entry {
        Some((key, value)) => Ok(IndexedEntry {
            next: index.saturating_add(1),
            key: key.to_vec(),
            value: value.to_vec(),
        }),
        None => Err(Refusal::new(-2, "no_more_keyvals")),
    })
}

/// How the keys begin that only the process manager sets.
const RESERVED: &[u8] = b"PMI_";

/// Commands a client may give before it was initialized.
const BEFORE_INIT: &[&str] = &["initack", "init", "abort"];

/// Commands a client may give after finalize; others are refused, since their sender waits.
const AFTER_FINALIZE: &[&str] = &["init", "abort", "finalize"];

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        let kvsname = "kvs_1_0".into();
        Session::new(Facts { kvsname, rank: 0, size: 1, appnum: 0, universe_size: Some(0) })
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
    fn the_commands_named_by_phase_are_in_the_table() {
        for name in BEFORE_INIT.iter().chain(AFTER_FINALIZE) {
            assert!(row_named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_universe_of_nothing_is_told_as_unknown() {
        let mut session = session();
        session.receive(b"cmd=init pmi_version=1\ncmd=get_universe_size\n");
        assert!(session.output().ends_with(b"size=-1\n"));
    }
}
