//! What programs of ranks say by PMI-1, PMI-2 and PMIx, and how they read the answers.

mod pmi2;

use mpd_wire::Rank;
use pmix_proto::Status;
use pmix_proto::connect::Introduction;
use pmix_proto::encoding::{Encoding, Value};
use pmix_proto::message::{Put, Reply, Request, Scope};
use pmix_proto::transport::{HEADER, Header};
use pmix_proto::view::{App, Info, Pair, Proc};

/// The user of all hosts.
pub(crate) const USER: u32 = 1000;

const RELEASE: [u32; 3] = [5, 0, 11];
const ENCODING: Encoding = Encoding::Flexible;

/// What ranks speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Pmi,
    Pmi2,
    Pmix,
}

/// What a rank says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    Init,
    Put(String, String),
    /// The fence of all ranks. `true`: it brings what was put to all hosts, by PMIx; by PMI it does so always.
    Fence(bool),
    /// The value that this rank has put with this key.
    Get(Rank, String),
    /// So many further processes.
    Spawn(u32),
    /// The parent, by its namespace and rank, connects with the world that it has spawned. Only by PMIx.
    Connect(String, Rank, String),
    /// A name, with its value.
    Publish(String, String),
    Lookup(String),
    Finalize,
    Abort,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Done,
    /// These bytes, with the value in them.
    Found(Vec<u8>),
    Missing,
    TimedOut,
}

impl Dialect {
    /// The bytes for these words of a rank. `space` is the namespace of its world, or the key-value space.
    pub(crate) fn write(self, words: &Words, rank: Rank, space: &str) -> Vec<u8> {
        match self {
            Self::Pmi => line(words, space).into_bytes(),
            Self::Pmi2 => pmi2::write(words, rank, space),
            Self::Pmix if *words == Words::Init => introduction(rank, space),
            Self::Pmix => message(words, space),
        }
    }

    /// The answer to these words, once all its bytes have come.
    pub(crate) fn read(self, unread: &mut Vec<u8>, words: &Words) -> Option<Heard> {
        match self {
            Self::Pmi => {
                let end = unread.iter().position(|byte| *byte == b'\n')?;
                let line: Vec<u8> = unread.drain(..=end).collect();
                Some(heard(std::str::from_utf8(&line).expect("a text").trim_end(), words))
            }
            Self::Pmi2 => pmi2::read(unread, words),
            Self::Pmix if *words == Words::Init => {
                let answer: Vec<u8> = (unread.len() >= 8).then(|| unread.drain(..8).collect())?;
                assert_eq!(answer[..4], [0; 4], "the client is refused");
                Some(Heard::Done)
            }
            Self::Pmix => {
                let header = Header::read(*unread.first_chunk::<HEADER>()?);
                let end = HEADER + header.length as usize;
                let message: Vec<u8> =
                    (unread.len() >= end).then(|| unread.drain(..end).collect())?;
                let command = request(words, "").command();
                let reply = Reply::read(ENCODING, command, RELEASE, &message[HEADER..]);
                Some(heard_by_pmix(reply.expect("a reply"), words))
            }
        }
    }
}

fn line(words: &Words, space: &str) -> String {
    match words {
        Words::Init => "cmd=init pmi_version=1 pmi_subversion=1\n".to_owned(),
        Words::Put(key, value) => format!("cmd=put kvsname={space} key={key} value={value}\n"),
        Words::Fence(_) => "cmd=barrier_in\n".to_owned(),
        Words::Get(_, key) => format!("cmd=get kvsname={space} key={key}\n"),
        Words::Spawn(size) => format!(
            "mcmd=spawn\nnprocs={size}\nexecname=./child\ntotspawns=1\nspawnssofar=1\nargcnt=0\npreput_num=0\n\
             info_num=0\nendcmd\n"
        ),
        Words::Connect(..) => panic!("only ranks that speak PMIx connect"),
        Words::Publish(name, value) => format!("cmd=publish_name service={name} port={value}\n"),
        Words::Lookup(name) => format!("cmd=lookup_name service={name}\n"),
        Words::Finalize => "cmd=finalize\n".to_owned(),
        Words::Abort => "cmd=abort exitcode=5\n".to_owned(),
    }
}

fn heard(line: &str, words: &Words) -> Heard {
    let is_refused = |name: &str| {
        let result = line.strip_prefix("cmd=").and_then(|line| line.strip_prefix(name));
        result.is_some_and(|result| !result.starts_with(" rc=0"))
    };
    let begin = match words {
        Words::Init => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        Words::Put(..) => "cmd=put_result rc=0",
        Words::Fence(_) => "cmd=barrier_out",
        Words::Get(..) if line.starts_with("cmd=get_result rc=-1 msg=key_") => {
            return Heard::Missing;
        }
        Words::Get(..) => {
            let value = line.strip_prefix("cmd=get_result rc=0 msg=success value=");
            return Heard::Found(value.unwrap_or_else(|| panic!("{line}")).into());
        }
        Words::Spawn(_) if is_refused("spawn_result") => return Heard::Missing,
        Words::Spawn(_) => "cmd=spawn_result rc=0",
        Words::Connect(..) => panic!("a rank has not connected: {line}"),
        Words::Publish(..) if is_refused("publish_result") => {
            return Heard::Missing;
        }
        Words::Publish(..) => "cmd=publish_result rc=0",
        Words::Lookup(_) if is_refused("lookup_result") => return Heard::Missing,
        Words::Lookup(_) => {
            let value = line.strip_prefix("cmd=lookup_result rc=0 msg=success port=");
            return Heard::Found(value.unwrap_or_else(|| panic!("{line}")).into());
        }
        Words::Finalize => "cmd=finalize_ack rc=0",
        Words::Abort => panic!("an abort has no answer: {line}"),
    };
    assert!(line.starts_with(begin), "{words:?}: {line}");
    Heard::Done
}

fn introduction(rank: Rank, namespace: &str) -> Vec<u8> {
    let introduction = Introduction {
        security: b"native".into(),
        user: Some((USER, 1)),
        role: 0,
        namespace: namespace.into(),
        rank: rank.0,
        version: b"5.0.11".into(),
        encoding: b"v41".into(),
        buffers: 1,
        store: b"hash".into(),
    };
    let payload = introduction.write();
    let length = u32::try_from(payload.len()).expect("a short message");
    let header = [u32::MAX, u32::MAX, length, 0].map(u32::to_ne_bytes).concat();
    [header, payload].concat()
}

fn request(words: &Words, namespace: &str) -> Request {
    match words {
        Words::Init => Request::JobInfo,
        Words::Put(key, value) => {
            let pair = Pair::new(key.as_str(), Value::text(value.as_str()));
            Request::Commit { puts: vec![Put { scope: Scope::Global, pair }] }
        }
        Words::Fence(collects) => {
            let info = vec![Info::new("pmix.collect", Value::bool(*collects))];
            Request::Fence { procs: vec![Proc::all(namespace)], info }
        }
        Words::Get(rank, key) => {
            let proc = Proc::new(namespace, rank.0);
            Request::Get { proc, info: Vec::new(), key: Some(key.as_bytes().to_vec()) }
        }
        Words::Spawn(size) => Request::Spawn {
            info: Vec::new(),
            apps: vec![App {
                command: b"./child".to_vec(),
                arguments: vec![b"./child".to_vec()],
                environment: Vec::new(),
                directory: None,
                processes: i32::try_from(*size).expect("few processes"),
                info: Vec::new(),
            }],
        },
        Words::Connect(parent, rank, children) => {
            let parent = Proc::new(parent.as_str(), rank.0);
            let procs = vec![parent, Proc::all(children.as_str())];
            Request::Connect { procs, info: Vec::new() }
        }
        Words::Publish(name, value) => {
            let info = vec![Info::new(name.as_str(), Value::text(value.as_str()))];
            Request::Publish { uid: USER, info }
        }
        Words::Lookup(name) => {
            let keys = vec![name.as_bytes().to_vec()];
            Request::Lookup { uid: USER, keys, info: Vec::new() }
        }
        Words::Finalize => Request::Finalize,
        Words::Abort => Request::Abort { status: Status(5), message: None, procs: Vec::new() },
    }
}

fn message(words: &Words, namespace: &str) -> Vec<u8> {
    let payload = request(words, namespace).write(ENCODING);
    let length = u32::try_from(payload.len()).expect("a short message");
    [&Header { index: 0, tag: 100, length }.write()[..], &payload].concat()
}

fn heard_by_pmix(reply: Reply, words: &Words) -> Heard {
    match (reply, words) {
        (Reply::Data(data), Words::Get(..)) => Heard::Found(data.concat()),
        (Reply::Done(Status::TIMEOUT), Words::Get(..)) => Heard::TimedOut,
        (
            Reply::Done(status),
            Words::Get(..)
            | Words::Spawn(_)
            | Words::Connect(..)
            | Words::Publish(..)
            | Words::Lookup(_),
        ) if !status.is_success() => Heard::Missing,
        (Reply::Spawned { namespace, .. }, Words::Spawn(_)) => Heard::Found(namespace),
        (Reply::Connected(_), Words::Connect(..)) => Heard::Done,
        (Reply::Found(found), Words::Lookup(_)) => {
            match found.first().and_then(|it| it.value.as_text()) {
                Some(value) => Heard::Found(value.to_vec()),
                None => Heard::Missing,
            }
        }
        (Reply::Done(Status::PARTIAL_SUCCESS), Words::Fence(_)) => Heard::Done,
        (Reply::Done(status), _) if status.is_success() => Heard::Done,
        (reply, words) => panic!("{words:?}: {reply:?}"),
    }
}
