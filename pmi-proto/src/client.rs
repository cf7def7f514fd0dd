//! Client: the client's side of a PMI-1 conversation, for tests and helper programs.
//!
//! Methods named for commands return the line to be written. [`poll_reply`](Client::poll_reply) returns the parsed
//! replies. The machine neither prevents a second request before the answer nor checks lengths, because tests need
//! both. MPI libraries have clients of their own.

use std::collections::VecDeque;

pub use crate::error::Refusal;
use crate::input::{InputBuffer, TooLong};
use crate::limits::MAX_VALUE_REPLY;
pub use crate::pmi1::reply::{IndexedEntry, Reply, Setting};
use crate::spawn::SpawnRequest;

/// The client's side of one conversation.
///
/// Keys must not contain spaces. No text may contain a newline, or end with a carriage return: the protocol cannot
/// represent these. In debug builds such a request panics.
#[derive(Debug)]
pub struct Client {
    input: InputBuffer,
    replies: VecDeque<Reply>,
    /// The server's answer to [`get_my_kvsname`](Client::get_my_kvsname).
    kvsname: Vec<u8>,
}

impl Client {
    /// A client before its first request.
    pub fn new() -> Self {
        Self {
            input: InputBuffer::new(MAX_VALUE_REPLY),
            replies: VecDeque::new(),
            kvsname: Vec::new(),
        }
    }

    /// Takes bytes from the server, in any chunking.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.push(bytes);
        while let Some(line) = self.input.next_line() {
            let reply = match line {
                Ok(line) => Reply::parse(&line),
                Err(TooLong { .. }) => {
                    Reply::NotUnderstood(b"(a line too long for clients)".to_vec())
                }
            };
            if let Reply::MyKvsname(name) = &reply {
                self.kvsname.clone_from(name);
            }
            self.replies.push_back(reply);
        }
    }

    /// The next reply.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// The name of the job's KVS; empty before the server has sent it.
    pub fn kvsname(&self) -> &[u8] {
        &self.kvsname
    }

    /// The first line of a client that connected to `PMI_PORT`.
    pub fn initack(&self, rank: u32) -> Vec<u8> {
        line("initack", &[("pmiid", rank.to_string().as_bytes())])
    }

    /// Asks for PMI 1.1.
    pub fn init(&self) -> Vec<u8> {
        self.init_version(1, 1)
    }

    /// Asks for any version.
    pub fn init_version(&self, version: u32, subversion: u32) -> Vec<u8> {
        let (version, subversion) = (version.to_string(), subversion.to_string());
        let pairs =
            [("pmi_version", version.as_bytes()), ("pmi_subversion", subversion.as_bytes())];
        line("init", &pairs)
    }

    /// Asks for the advertised lengths.
    pub fn get_maxes(&self) -> Vec<u8> {
        line("get_maxes", &[])
    }

    /// Asks for the number of the argset.
    pub fn get_appnum(&self) -> Vec<u8> {
        line("get_appnum", &[])
    }

    /// Asks for the name of the job's KVS, which the requests below use.
    pub fn get_my_kvsname(&self) -> Vec<u8> {
        line("get_my_kvsname", &[])
    }

    /// Asks for the universe size.
    pub fn get_universe_size(&self) -> Vec<u8> {
        line("get_universe_size", &[])
    }

    /// Puts a pair.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        line("put", &[("kvsname", &self.kvsname), ("key", key), ("value", value)])
    }

    /// Gets the value of a key.
    pub fn get(&self, key: &[u8]) -> Vec<u8> {
        line("get", &[("kvsname", &self.kvsname), ("key", key)])
    }

    /// Gets a pair by its index.
    pub fn get_by_index(&self, index: usize) -> Vec<u8> {
        let index = index.to_string();
        line("getbyidx", &[("kvsname", &self.kvsname), ("idx", index.as_bytes())])
    }

    /// Asks for a new KVS.
    pub fn create_kvs(&self) -> Vec<u8> {
        line("create_kvs", &[])
    }

    /// Asks for the removal of the KVS.
    pub fn destroy_kvs(&self) -> Vec<u8> {
        line("destroy_kvs", &[("kvsname", &self.kvsname)])
    }

    /// Enters the barrier. The answer comes when all ranks have entered.
    pub fn barrier_in(&self) -> Vec<u8> {
        line("barrier_in", &[])
    }

    /// Publishes the port of a service.
    pub fn publish_name(&self, service: &[u8], port: &[u8]) -> Vec<u8> {
        line("publish_name", &[("service", service), ("port", port)])
    }

    /// Asks for the port of a service.
    pub fn lookup_name(&self, service: &[u8]) -> Vec<u8> {
        line("lookup_name", &[("service", service)])
    }

    /// Withdraws a service.
    pub fn unpublish_name(&self, service: &[u8]) -> Vec<u8> {
        line("unpublish_name", &[("service", service)])
    }

    /// Requests the end of the job; there is no answer.
    pub fn abort(&self, code: i32, message: &[u8]) -> Vec<u8> {
        let code = code.to_string();
        let mut pairs = vec![("exitcode", code.as_bytes())];
        if !message.is_empty() {
            pairs.push(("message", message));
        }
        line("abort", &pairs)
    }

    /// Ends the conversation.
    pub fn finalize(&self) -> Vec<u8> {
        line("finalize", &[])
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

/// Requests of several lines, and those that only MPD answers.
impl Client {
    /// Requests the start of a job.
    pub fn spawn(&self, request: &SpawnRequest) -> Vec<u8> {
        let mut blocks = Vec::new();
        let decimal = |number: usize| number.to_string().into_bytes();
        for (index, command) in request.commands.iter().enumerate() {
            block_line(&mut blocks, "mcmd", b"spawn");
            block_line(&mut blocks, "nprocs", command.size.to_string().as_bytes());
            block_line(&mut blocks, "execname", &command.program);
            block_line(&mut blocks, "totspawns", &decimal(request.commands.len()));
            block_line(&mut blocks, "spawnssofar", &decimal(index + 1));
            for (number, argument) in command.args.iter().enumerate() {
                block_line(&mut blocks, &format!("arg{}", number + 1), argument);
            }
            block_line(&mut blocks, "argcnt", &decimal(command.args.len()));
            block_line(&mut blocks, "preput_num", &decimal(request.preput.len()));
            for (number, (key, value)) in request.preput.iter().enumerate() {
                block_line(&mut blocks, &format!("preput_key_{number}"), key);
                block_line(&mut blocks, &format!("preput_val_{number}"), value);
            }
            block_line(&mut blocks, "info_num", &decimal(command.info.len()));
            for (number, (key, value)) in command.info.iter().enumerate() {
                block_line(&mut blocks, &format!("info_key_{number}"), key);
                block_line(&mut blocks, &format!("info_val_{number}"), value);
            }
            blocks.extend_from_slice(b"endcmd\n");
        }
        blocks
    }

    /// Requests a signal to a rank of the job.
    pub fn signal_rank(&self, rank: u32, signal: i32) -> Vec<u8> {
        let (rank, signal) = (rank.to_string(), signal.to_string());
        line("mpd_signal", &[("rank", rank.as_bytes()), ("signal", signal.as_bytes())])
    }
}

fn block_line(blocks: &mut Vec<u8>, key: &str, value: &[u8]) {
    debug_assert!(!value.contains(&b'\n'), "a value is one line");
    blocks.extend_from_slice(key.as_bytes());
    blocks.push(b'=');
    blocks.extend_from_slice(value);
    blocks.push(b'\n');
}

fn line(name: &str, pairs: &[(&str, &[u8])]) -> Vec<u8> {
    let mut line = format!("cmd={name}").into_bytes();
    for (key, value) in pairs {
        line.push(b' ');
        line.extend_from_slice(key.as_bytes());
        line.push(b'=');
        line.extend_from_slice(value);
    }
    debug_assert!(!line.contains(&b'\n') && !line.ends_with(b"\r"), "a request is one line");
    debug_assert!(
        pairs.iter().all(|(name, value)| *name != "key" || !value.contains(&b' ')),
        "a key is one word"
    );
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::SpawnCommand;

    #[test]
    fn requests_are_written_as_mpich_writes_them() {
        let mut client = Client::new();
        assert_eq!(client.init(), b"cmd=init pmi_version=1 pmi_subversion=1\n");
        client.receive(b"cmd=my_kvsname kvsname=kvs_7\n");
        assert_eq!(client.kvsname(), b"kvs_7");
        assert_eq!(client.put(b"a", b"x y"), b"cmd=put kvsname=kvs_7 key=a value=x y\n");
        assert_eq!(client.get(b"a"), b"cmd=get kvsname=kvs_7 key=a\n");
        assert_eq!(client.get_by_index(3), b"cmd=getbyidx kvsname=kvs_7 idx=3\n");
        assert_eq!(client.abort(-1, b"no luck"), b"cmd=abort exitcode=-1 message=no luck\n");
        assert_eq!(client.publish_name(b"s v", b"p"), b"cmd=publish_name service=s v port=p\n");
    }

    #[test]
    fn replies_come_in_order_with_any_chunking() {
        let mut client = Client::new();
        for byte in b"cmd=appnum appnum=0\r\ncmd=barrier_out\nwhat\n" {
            client.receive(&[*byte]);
        }
        assert_eq!(client.poll_reply(), Some(Reply::Appnum(0)));
        assert_eq!(client.poll_reply(), Some(Reply::BarrierOut { tag: None }));
        assert_eq!(client.poll_reply(), Some(Reply::NotUnderstood(b"what".into())));
        assert_eq!(client.poll_reply(), None);
    }

    #[test]
    fn a_reply_longer_than_the_line_buffer_is_not_understood() {
        let mut client = Client::new();
        let mut line = b"cmd=get_result rc=0 msg=success value=".to_vec();
        line.resize(MAX_VALUE_REPLY + 1, b'x');
        line.push(b'\n');
        client.receive(&line);
        assert!(matches!(client.poll_reply(), Some(Reply::NotUnderstood(_))));
    }

    #[test]
    fn a_spawn_is_a_block_for_each_program() {
        let pair = |key: &str, value: &str| (key.into(), value.into());
        let first = SpawnCommand {
            program: b"bin/a".into(),
            args: vec![b"x y".into(), Vec::new()],
            size: 2,
            info: vec![pair("wdir", "/tmp")],
        };
        let second = SpawnCommand { program: b"b".into(), size: 1, ..SpawnCommand::default() };
        let request =
            SpawnRequest { commands: vec![first, second], preput: vec![pair("PORT", "p#1")] };
        let blocks = Client::new().spawn(&request);
        let expected = "mcmd=spawn\nnprocs=2\nexecname=bin/a\ntotspawns=2\nspawnssofar=1\narg1=x y\narg2=\n\
            argcnt=2\npreput_num=1\npreput_key_0=PORT\npreput_val_0=p#1\ninfo_num=1\ninfo_key_0=wdir\n\
            info_val_0=/tmp\nendcmd\nmcmd=spawn\nnprocs=1\nexecname=b\ntotspawns=2\nspawnssofar=2\nargcnt=0\n\
            preput_num=1\npreput_key_0=PORT\npreput_val_0=p#1\ninfo_num=0\nendcmd\n";
        assert_eq!(String::from_utf8(blocks).unwrap(), expected);
    }

    #[test]
    fn a_signal_for_a_rank_is_confirmed_or_refused() {
        let mut client = Client::new();
        assert_eq!(client.signal_rank(7, 10), b"cmd=mpd_signal rank=7 signal=10\n");
        client.receive(b"cmd=mpd_signal_result rc=0\ncmd=mpd_signal_result rc=-1 msg=no\n");
        let refusal = Refusal { rc: -1, msg: b"no".into() };
        assert_eq!(client.poll_reply(), Some(Reply::SignalResult(Ok(()))));
        assert_eq!(client.poll_reply(), Some(Reply::SignalResult(Err(refusal))));
    }
}
