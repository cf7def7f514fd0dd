//! The dialect of lines: decodes commands and encodes answers. One request at a time.

use super::operation::{Answer, Operation};
use super::{
    Dialect, Pending, Phase, RESERVED, Session, check_key, check_new_pair, check_port, found,
    refused, with_reason,
};
use crate::error::{ProtocolError, Refusal, excerpt};
use crate::input::TooLong;
use crate::limits::{MAX_KEY, MAX_KVSNAME, MAX_REPLY, MAX_VALUE, MAX_VALUE_REPLY};
use crate::pmi1::command::{Block, Command, row_named, split_name};
use crate::pmi1::reply::{IndexedEntry, Reply, Setting, VERSION, WITH_GROUPS, subversion};
use crate::pmi1::spawn::{SpawnBlock, SpawnCall};
use crate::pmi2::response;
use crate::spawn::Spawned;

/// The parts of a command that have arrived.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The block being read, between its `mcmd=` and its `endcmd`.
    pub(super) block: Option<Block>,
    /// The spawn of which some blocks have arrived.
    call: SpawnCall,
}

impl Session {
    /// Decodes the next line; false if there is no complete line.
    pub(super) fn take_next_line(&mut self) -> bool {
        match self.input.next_line() {
            Some(Ok(line)) => self.take_line(&line),
            Some(Err(TooLong { .. })) if self.phase() == Phase::Finalized => {}
            Some(Err(TooLong { beginning })) => match self.command_of(&beginning) {
                Some(command) => self.refuse_command(ProtocolError::CommandTooLong { command }),
                None => self.fail(ProtocolError::LineTooLong),
            },
            None => return false,
        }
        true
    }

    /// The command of a line that is too long, if a refusal of it lets the client continue. In a block the line is only a
    /// part of a command, and an abort is not answered.
    fn command_of(&self, beginning: &[u8]) -> Option<&'static str> {
        let (name, rest) = split_name(beginning, "cmd")?;
        let row = row_named(std::str::from_utf8(name).ok()?)?;
        let is_whole = !rest.is_empty() && self.lines.block.is_none();
        (is_whole && row.reply.is_some()).then_some(row.name)
    }

    /// Whether the next line is an abort. It is served while a request is outstanding: a thread may abort while another
    /// one waits in a barrier that would never end.
    pub(super) fn abort_is_next(&mut self) -> bool {
        self.lines.block.is_none() && self.input.peek_line().is_some_and(Command::is_abort)
    }

    fn take_line(&mut self, line: &[u8]) {
        let command = if let Some(block) = &mut self.lines.block {
            if !block.add(line) {
                return;
            }
            let command = block.finish();
            self.lines.block = None;
            command
        } else if let Some(block) = Block::begin(line) {
            self.lines.block = Some(block);
            return;
        } else {
            Command::parse(line)
        };
        match command {
            Ok(command) => self.perform_command(command),
            // Grandchildren inherit the descriptor and may write anything to it.
            Err(_) if self.phase() == Phase::Finalized => {}
            Err(error) => self.refuse_command(error),
        }
    }

    fn perform_command(&mut self, command: Command) {
        if !self.is_welcome(&command) {
            return self.refuse_command(ProtocolError::NotInitialized { command: command.name() });
        }
        self.opening = self.opening.after(&command);
        match command {
            Command::InitAck { pmiid } => self.acknowledge(pmiid),
            Command::Init { version, subversion } => self.initialize(version, subversion),
            Command::GetMaxes => {
                self.send(&Reply::Maxes { kvsname: MAX_KVSNAME, key: MAX_KEY, value: MAX_VALUE })
            }
            Command::GetAppnum => self.send(&Reply::Appnum(self.facts.appnum)),
            Command::GetMyKvsname => self.send(&Reply::MyKvsname(self.own_kvsname())),
            Command::GetUniverseSize => {
                self.wait_for(Pending::UniverseSize, Operation::UniverseSize);
            }
            Command::Put { kvsname, key, value } => self.put(&kvsname, key, value),
            Command::Get { kvsname, key } => self.get(&kvsname, key),
            Command::GetByIndex { kvsname, index } => {
                match self.check_kvsname("getbyidx", &kvsname) {
                    Ok(()) => {
                        self.wait_for(Pending::Entry { index }, Operation::GetByIndex { index });
                    }
                    Err(error) => self.refuse_command(error),
                }
            }
            // The job has one KVS, and a request for a new one gets its name.
            Command::CreateKvs => self.send(&Reply::NewKvs(self.own_kvsname())),
            Command::DestroyKvs { kvsname } => match self.check_kvsname("destroy_kvs", &kvsname) {
                Ok(()) => self.send(&Reply::KvsDestroyed(Ok(()))),
                Err(error) => self.refuse_command(error),
            },
            Command::BarrierIn { group } => self.arrive(group.as_deref()),
            Command::PublishName { service, port } => match check_port("publish_name", &port) {
                Ok(()) => {
                    let operation = Operation::Publish { service: service.into(), value: port };
                    self.wait_for(Pending::Publish, operation);
                }
                Err(error) => self.refuse_command(error),
            },
            Command::LookupName { service } => {
                self.wait_for(Pending::Lookup, Operation::Lookup { service: service.into() });
            }
            Command::UnpublishName { service } => {
                self.wait_for(Pending::Unpublish, Operation::Unpublish { service: service.into() });
            }
            Command::Spawn(block) => self.spawn(*block),
            Command::Signal { rank, signal } => {
                self.wait_for(Pending::Done, Operation::Signal { rank, signal });
            }
            Command::Abort { code, message } => {
                self.request(Operation::Abort { code, world: true, message });
            }
            Command::Finalize => {
                self.send(&Reply::FinalizeAck { rc: 0 });
                self.finalize();
            }
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
            return self.refuse_command(ProtocolError::WrongRank { pmiid });
        }
        self.send(&Reply::InitAck { rc: 0 });
        self.send(&Reply::Set { setting: Setting::Size, value: self.facts.size });
        self.send(&Reply::Set { setting: Setting::Rank, value: self.facts.rank });
        self.send(&Reply::Set { setting: Setting::Debug, value: 0 });
    }

    /// Handles an `init`, in any dialect; the answer is a line. The dialect does not change while answers of the old
    /// one are outstanding.
    pub(super) fn initialize(&mut self, version: u32, asked: u32) {
        let (dialect, subversion) = match version {
            VERSION => (Dialect::Pmi1, subversion(asked)),
            response::VERSION => (Dialect::Pmi2, response::SUBVERSION),
            _ => return self.refuse_command(ProtocolError::UnsupportedVersion { version }),
        };
        let may_differ = dialect != self.dialect || self.barriers.has_groups;
        if may_differ && !self.open.is_empty() {
            return self.refuse_command(ProtocolError::UnsupportedVersion { version });
        }
        self.send(&Reply::ResponseToInit { version, subversion, rc: 0 });
        self.begin(dialect);
        self.barriers.has_groups = dialect == Dialect::Pmi1 && subversion == WITH_GROUPS;
    }

    fn put(&mut self, kvsname: &[u8], key: Vec<u8>, value: Vec<u8>) {
        if self.is_singleton && key.is_empty() {
            // Older clients repeat the put of their time without a manager: an empty pair.
            return self.send(&Reply::PutResult(Ok(())));
        }
        let checked = self
            .check_kvsname("put", kvsname)
            .and_then(|()| check_key("put", &key))
            .and_then(|()| check_new_pair("put", &key, &value));
        match checked {
            Ok(()) => self.wait_for(Pending::Put, Operation::Put { key, value }),
            Err(error) => self.refuse_command(error),
        }
    }

    fn get(&mut self, kvsname: &[u8], key: Vec<u8>) {
        let checked = self.check_kvsname("get", kvsname).and_then(|()| check_key("get", &key));
        match checked {
            Ok(()) => self.wait_for(Pending::Value { key: key.clone() }, Operation::Get { key }),
            Err(error) => self.refuse_command(error),
        }
    }

    /// Takes one block of a spawn. The call is answered once, at its last block.
    fn spawn(&mut self, block: SpawnBlock) {
        match self.lines.call.add(block) {
            None => {}
            Some(Ok(request)) => self.wait_for(Pending::Spawn, Operation::Spawn(request)),
            Some(Err(error)) => self.refuse_command(error),
        }
    }

    fn wait_for(&mut self, wanted: Pending, operation: Operation) {
        self.ask(None, wanted, operation);
    }

    fn check_kvsname(&self, command: &'static str, kvsname: &[u8]) -> Result<(), ProtocolError> {
        if kvsname == self.facts.kvsname.as_bytes() {
            return Ok(());
        }
        Err(ProtocolError::ForeignKvs { command, kvsname: excerpt(kvsname) })
    }

    /// Sends a refusal in the form of the command's row, and reports the error.
    pub(super) fn refuse_command(&mut self, error: ProtocolError) {
        if let Some(command) = error.command() {
            let form = row_named(command).and_then(|row| row.reply);
            let reply = Reply::refuse(form, command, Refusal::new(-1, error.msg()));
            self.send(&reply);
        }
        self.report(error);
    }

    /// Appends a reply to the output. A reply that is no single line of bounded length is replaced by its refusal. Only
    /// values can cause this, because the rest of a reply is bounded.
    pub(super) fn send(&mut self, reply: &Reply) {
        let line = reply.encode();
        let (text, _newline) = line.split_at(line.len() - 1);
        if text.len() > longest(reply) {
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

/// The reply for an answer; `None` if the answer does not fit the request.
pub(super) fn reply(wanted: &Pending, answer: Answer<'_>, has_groups: bool) -> Option<Reply> {
    Some(match (wanted, answer) {
        (Pending::Put, Answer::Put(result)) => Reply::PutResult(refused(result)),
        (Pending::Value { key }, Answer::Get(value)) => get_reply(key, value),
        (Pending::Entry { index }, Answer::GetByIndex(entry)) => indexed_reply(*index, entry),
        (Pending::Publish, Answer::Published(result)) => Reply::PublishResult(with_reason(result)),
        (Pending::Lookup, Answer::Found(result)) => Reply::LookupResult(found(result)),
        (Pending::Unpublish, Answer::Unpublished(result)) => {
            Reply::UnpublishResult(with_reason(result))
        }
        (Pending::Fence, Answer::Fence) => Reply::BarrierOut { tag: has_groups.then_some(0) },
        (Pending::GroupFence(group), Answer::Fence) => Reply::BarrierOut { tag: Some(group.tag) },
        (Pending::Spawn, Answer::Spawned(result)) => spawn_reply(result),
        (Pending::UniverseSize, Answer::UniverseSize(size)) => {
            Reply::UniverseSize(size.filter(|&size| size > 0))
        }
        (Pending::Done, Answer::Done(result)) => Reply::SignalResult(with_reason(result)),
        (_, _) => return None,
    })
}

/// The greatest length of a reply's line.
fn longest(reply: &Reply) -> usize {
    let value = if let Reply::GetResult(Ok(value)) = reply {
        value
    } else if let Reply::GetByIndexResult(Ok(entry)) = reply {
        &entry.value
    } else {
        return MAX_REPLY;
    };
    if value.len() < MAX_VALUE { MAX_VALUE_REPLY } else { MAX_REPLY }
}

fn get_reply(key: &[u8], value: Option<&[u8]>) -> Reply {
    Reply::GetResult(match value {
        // No client could have put such a value.
        Some(value) if key.starts_with(RESERVED) && value.len() > MAX_UNPUT_VALUE => {
            Err(Refusal::new(-1, "value_too_long"))
        }
        Some(value) => Ok(value.to_vec()),
        None => Err(Refusal::new(-1, format!("key_{}_not_found", excerpt(key)))),
    })
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

fn spawn_reply(result: Result<Spawned<'_>, &str>) -> Reply {
    let spawned = match result {
        Ok(spawned) => spawned,
        Err(word) => return Reply::SpawnResult(Err(Refusal::new(-1, word))),
    };
    let reply = Reply::SpawnResult(Ok(spawned.errors.to_vec()));
    // Clients read a missing list as zeros.
    let too_long = reply.encode().len() > MAX_REPLY + 1;
    match (too_long, spawned.errors.iter().all(|&code| code == 0)) {
        (false, _) => reply,
        (true, true) => Reply::SpawnResult(Ok(Vec::new())),
        (true, false) => {
            Reply::SpawnResult(Err(Refusal::new(-1, "too_many_processes_did_not_start")))
        }
    }
}

/// Longest value whose reply is no longer than [`MAX_REPLY`].
const MAX_UNPUT_VALUE: usize = MAX_REPLY - "cmd=get_result rc=0 msg=success value=".len();

/// Commands a client may give before it was initialized.
const BEFORE_INIT: &[&str] = &["initack", "init", "abort"];

/// Commands a client may give after finalize. Others are refused, because their sender waits.
const AFTER_FINALIZE: &[&str] = &["init", "abort", "finalize"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_named_by_phase_are_in_the_table() {
        for name in BEFORE_INIT.iter().chain(AFTER_FINALIZE) {
            assert!(row_named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn error_codes_are_sent_as_far_as_they_fit() {
        let reported = |errors: &[i32]| {
            let line = spawn_reply(Ok(Spawned { jobid: "kvs_8", errors })).encode();
            String::from_utf8(line).unwrap()
        };
        assert_eq!(reported(&[0, 0, 0]), "cmd=spawn_result rc=0 errcodes=0,0,0\n");
        assert_eq!(reported(&[0, 2]), "cmd=spawn_result rc=0 errcodes=0,2\n");
        assert_eq!(reported(&[0; 600]), "cmd=spawn_result rc=0\n");
        let mut codes = vec![0; 600];
        codes[9] = 1;
        let refused = "cmd=spawn_result rc=-1 msg=too_many_processes_did_not_start\n";
        assert_eq!(reported(&codes), refused);
        let line = spawn_reply(Err("no_such_host")).encode();
        assert_eq!(line, b"cmd=spawn_result rc=-1 msg=no_such_host\n");
    }
}
