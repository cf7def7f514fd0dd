//! The replies to clients: the table of replies, and the conversion between [`Reply`] and a line.
//!
//! The session encodes, the client machine parses. Lengths are not bounded here: the session sends no reply beyond
//! [`MAX_VALUE_REPLY`](crate::limits::MAX_VALUE_REPLY).

use super::command::split_name;
use crate::error::{ProtocolError, Refusal};
use crate::keyval::{Attribute, Attributes, parse_number};

/// A reply. The server side writes it, and the client side reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `initack`: the answer to the first line of a client that connected to `PMI_PORT`.
    InitAck {
        /// 0, or -1 if refused.
        rc: i32,
    },
    /// `set`: three of them follow a good `initack`.
    Set { setting: Setting, value: u32 },
    /// `response_to_init`.
    ResponseToInit {
        /// The version the server speaks.
        version: u32,
        subversion: u32,
        /// 0, or -1 when the client's version is not served.
        rc: i32,
    },
    /// `maxes`: advertised lengths in bytes, each with C's terminating zero.
    Maxes {
        /// Longest name of a KVS.
        kvsname: usize,
        /// Longest key.
        key: usize,
        /// Longest value.
        value: usize,
    },
    /// `appnum`: the argset of this rank; -1 leaves it unset.
    Appnum(i32),
    /// `my_kvsname`.
    MyKvsname(Vec<u8>),
    /// `universe_size`; `None`, -1 on the wire, means unknown.
    UniverseSize(Option<u32>),
    /// `put_result`.
    PutResult(Result<(), Refusal>),
    /// `get_result`, with the value.
    GetResult(Result<Vec<u8>, Refusal>),
    /// `getbyidx_results`.
    GetByIndexResult(Result<IndexedEntry, Refusal>),
    /// `newkvs`, with the name.
    NewKvs(Vec<u8>),
    /// `kvs_destroyed`.
    KvsDestroyed(Result<(), Refusal>),
    /// `barrier_out`.
    BarrierOut {
        /// The tag of the barrier that has ended; only in PMI-1.2.
        tag: Option<i32>,
    },
    /// `publish_result`.
    PublishResult(Result<(), Refusal>),
    /// `lookup_result`, with the port.
    LookupResult(Result<Vec<u8>, Refusal>),
    /// `unpublish_result`.
    UnpublishResult(Result<(), Refusal>),
    /// `spawn_result`, with an error code for each process, or an empty list.
    SpawnResult(Result<Vec<i32>, Refusal>),
    /// `mpd_signal_result`.
    SignalResult(Result<(), Refusal>),
    /// `finalize_ack`.
    FinalizeAck {
        /// 0, or -1 if there was nothing to finalize.
        rc: i32,
    },
    /// `NAME_result` for an unknown command, or for one whose own reply has no form for a refusal.
    Refused {
        /// The command's name.
        command: Vec<u8>,
        refusal: Refusal,
    },
    /// A line that is none of the above, or too long. Only the client side makes this value.
    NotUnderstood(Vec<u8>),
}

/// One pair of a KVS, found by its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedEntry {
    /// The index to ask for next.
    pub next: usize,
    /// The pair's key.
    pub key: Vec<u8>,
    /// The pair's value.
    pub value: Vec<u8>,
}

/// The setting of a `set` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// The number of ranks of the job.
    Size,
    /// The client's rank.
    Rank,
    /// Whether the client should trace its traffic.
    Debug,
}

/// One reply of the table.
#[derive(Debug)]
pub(crate) struct ReplyRow {
    pub(crate) name: &'static str,
    pub(crate) attributes: &'static [Attribute],
    build: fn(&Attributes<'_>) -> Result<Reply, ProtocolError>,
    /// The form of a refusal, if it has one.
    refuse: Option<fn(Refusal) -> Reply>,
}

impl Setting {
    fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Rank => "rank",
            Self::Debug => "debug",
        }
    }
}

impl Reply {
    /// Parses one line, without its end.
    pub(crate) fn parse(line: &[u8]) -> Self {
        Self::try_parse(line).unwrap_or_else(|| Self::NotUnderstood(line.to_vec()))
    }

    fn try_parse(line: &[u8]) -> Option<Self> {
        let (name, text) = split_name(line, "cmd")?;
        if let Some(row) = REPLIES.iter().find(|row| row.name.as_bytes() == name) {
            let attributes = Attributes::parse(row.name, row.attributes, text).ok()?;
            return (row.build)(&attributes).ok();
        }
        let command = name.strip_suffix(b"_result")?.to_vec();
        let attributes = Attributes::parse("*_result", REFUSED, text).ok()?;
        let refusal = refusal_of(&attributes, "msg").ok()??;
        Some(Self::Refused { command, refusal })
    }

    /// The refusal of the command `command`, in the form of the reply `name`.
    pub(crate) fn refuse(name: Option<&str>, command: &str, refusal: Refusal) -> Self {
        let row = REPLIES.iter().find(|row| Some(row.name) == name);
        match row.and_then(|row| row.refuse) {
            Some(refuse) => refuse(refusal),
            None => Self::Refused { command: command.into(), refusal },
        }
    }

    /// The name in the table; `None` for the two that are not in it.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Self::InitAck { .. } => Some("initack"),
            Self::Set { .. } => Some("set"),
            Self::ResponseToInit { .. } => Some("response_to_init"),
            Self::Maxes { .. } => Some("maxes"),
            Self::Appnum(_) => Some("appnum"),
            Self::MyKvsname(_) => Some("my_kvsname"),
            Self::UniverseSize(_) => Some("universe_size"),
            Self::PutResult(_) => Some("put_result"),
            Self::GetResult(_) => Some("get_result"),
            Self::GetByIndexResult(_) => Some("getbyidx_results"),
            Self::NewKvs(_) => Some("newkvs"),
            Self::KvsDestroyed(_) => Some("kvs_destroyed"),
            Self::BarrierOut { .. } => Some("barrier_out"),
            Self::PublishResult(_) => Some("publish_result"),
            Self::LookupResult(_) => Some("lookup_result"),
            Self::UnpublishResult(_) => Some("unpublish_result"),
            Self::SpawnResult(_) => Some("spawn_result"),
            Self::SignalResult(_) => Some("mpd_signal_result"),
            Self::FinalizeAck { .. } => Some("finalize_ack"),
            Self::Refused { .. } | Self::NotUnderstood(_) => None,
        }
    }

    /// The whole line with its newline.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut line = b"cmd=".to_vec();
        line.extend_from_slice(self.name().unwrap_or_default().as_bytes());
        let line = &mut line;
        match self {
            Self::InitAck { rc } | Self::FinalizeAck { rc } => number(line, "rc", rc),
            Self::Set { setting, value } => number(line, setting.name(), value),
            Self::ResponseToInit { version, subversion, rc } => {
                number(line, "pmi_version", version);
                number(line, "pmi_subversion", subversion);
                number(line, "rc", rc);
            }
            Self::Maxes { kvsname, key, value } => {
                number(line, "kvsname_max", kvsname);
                number(line, "keylen_max", key);
                number(line, "vallen_max", value);
            }
            Self::Appnum(appnum) => number(line, "appnum", appnum),
            Self::MyKvsname(name) | Self::NewKvs(name) => pair(line, "kvsname", name),
            Self::UniverseSize(Some(size)) => number(line, "size", size),
            Self::UniverseSize(None) => pair(line, "size", b"-1"),
            Self::PutResult(result) | Self::KvsDestroyed(result) | Self::SignalResult(result) => {
                match result {
                    Ok(()) => pair(line, "rc", b"0"),
                    Err(refusal) => refused(line, refusal, "msg"),
                }
            }
            Self::GetResult(result) => encode_get(line, result),
            Self::GetByIndexResult(result) => encode_entry(line, result),
            Self::BarrierOut { tag } => {
                if let Some(tag) = tag {
                    number(line, "tag", tag);
                }
            }
            Self::PublishResult(result) | Self::UnpublishResult(result) => match result {
                Ok(()) => success(line),
                Err(refusal) => refused(line, refusal, "msg"),
            },
            Self::LookupResult(result) => match result {
                Ok(port) => {
                    success(line);
                    pair(line, "port", port);
                }
                Err(refusal) => refused(line, refusal, "msg"),
            },
            Self::SpawnResult(result) => encode_spawn(line, result),
            Self::Refused { command, refusal } => {
                line.extend_from_slice(command);
                line.extend_from_slice(b"_result");
                refused(line, refusal, "msg");
            }
            Self::NotUnderstood(text) => text.clone_into(line),
        }
        line.push(b'\n');
        std::mem::take(line)
    }
}

fn encode_get(line: &mut Vec<u8>, result: &Result<Vec<u8>, Refusal>) {
    match result {
        Ok(value) => {
            success(line);
            pair(line, "value", value);
        }
        Err(refusal) => {
            refused(line, refusal, "msg");
            // Some clients look for a value before they check rc.
            pair(line, "value", b"unknown");
        }
    }
}

fn encode_entry(line: &mut Vec<u8>, result: &Result<IndexedEntry, Refusal>) {
    match result {
        Ok(entry) => {
            pair(line, "rc", b"0");
            number(line, "nextidx", entry.next);
            pair(line, "key", &entry.key);
            pair(line, "val", &entry.value);
        }
        Err(refusal) => refused(line, refusal, "reason"),
    }
}

fn encode_spawn(line: &mut Vec<u8>, result: &Result<Vec<i32>, Refusal>) {
    match result {
        Ok(codes) => {
            pair(line, "rc", b"0");
            if !codes.is_empty() {
                let codes: Vec<String> = codes.iter().map(i32::to_string).collect();
                pair(line, "errcodes", codes.join(",").as_bytes());
            }
        }
        Err(refusal) => refused(line, refusal, "msg"),
    }
}

fn pair(line: &mut Vec<u8>, name: &str, value: &[u8]) {
    line.push(b' ');
    line.extend_from_slice(name.as_bytes());
    line.push(b'=');
    line.extend_from_slice(value);
}

fn number(line: &mut Vec<u8>, name: &str, value: impl ToString) {
    pair(line, name, value.to_string().as_bytes());
}

fn success(line: &mut Vec<u8>) {
    pair(line, "rc", b"0");
    pair(line, "msg", b"success");
}

fn refused(line: &mut Vec<u8>, refusal: &Refusal, explanation: &str) {
    number(line, "rc", refusal.rc);
    pair(line, explanation, &refusal.msg);
}

/// The refusal in a reply; `None` when its rc is 0.
fn refusal_of(found: &Attributes<'_>, explanation: &str) -> Result<Option<Refusal>, ProtocolError> {
    let rc = found.number("rc")?;
    let msg = found.get(explanation).unwrap_or_default();
    Ok(if rc == 0 { None } else { Some(Refusal::new(rc, msg)) })
}

/// The refusal, or the result of `value`.
fn outcome<T>(
    found: &Attributes<'_>,
    explanation: &str,
    value: impl FnOnce(&Attributes<'_>) -> Result<T, ProtocolError>,
) -> Result<Result<T, Refusal>, ProtocolError> {
    match refusal_of(found, explanation)? {
        Some(refusal) => Ok(Err(refusal)),
        None => value(found).map(Ok),
    }
}

fn build_set(found: &Attributes<'_>) -> Result<Reply, ProtocolError> {
    let set = [Setting::Size, Setting::Rank, Setting::Debug];
    let setting = set.into_iter().find(|setting| found.get(setting.name()).is_some());
    let setting = setting.unwrap_or(Setting::Size);
    Ok(Reply::Set { setting, value: found.number(setting.name())? })
}

fn build_universe_size(found: &Attributes<'_>) -> Result<Reply, ProtocolError> {
    let size: i64 = found.number("size")?;
    Ok(Reply::UniverseSize(u32::try_from(size).ok()))
}

fn build_entry(found: &Attributes<'_>) -> Result<IndexedEntry, ProtocolError> {
    Ok(IndexedEntry {
        next: found.number("nextidx")?,
        key: found.owned("key")?,
        value: found.owned("val")?,
    })
}

fn build_error_codes(found: &Attributes<'_>) -> Result<Vec<i32>, ProtocolError> {
    let Some(list) = found.get("errcodes") else {
        return Ok(Vec::new());
    };
    list.split(|&byte| byte == b',')
        .map(|code| parse_number(code).ok_or_else(|| found.bad_number("errcodes", code)))
        .collect()
}

/// A row of a reply without a form for a refusal.
const fn plain(
    name: &'static str,
    attributes: &'static [Attribute],
    build: fn(&Attributes<'_>) -> Result<Reply, ProtocolError>,
) -> ReplyRow {
    ReplyRow { name, attributes, build, refuse: None }
}

/// A row of a reply with a form for a refusal.
const fn judged(
    name: &'static str,
    attributes: &'static [Attribute],
    build: fn(&Attributes<'_>) -> Result<Reply, ProtocolError>,
    refuse: fn(Refusal) -> Reply,
) -> ReplyRow {
    ReplyRow { name, attributes, build, refuse: Some(refuse) }
}

const RC: Attribute = Attribute::word("rc");
const MSG: Attribute = Attribute::word("msg").optional();
const KVSNAME: Attribute = Attribute::word("kvsname");

/// The attributes of a `NAME_result` that is not in the table.
pub(crate) const REFUSED: &[Attribute] = &[RC, MSG];

/// All replies to clients. `protocol.txt` has the same table; a test compares them.
pub(crate) const REPLIES: &[ReplyRow] = &[
    judged(
        "initack",
        &[RC.optional()],
        // Older process managers omit the rc of a positive answer.
        |found| Ok(Reply::InitAck { rc: found.get("rc").map_or(Ok(0), |_| found.number("rc"))? }),
        |refusal| Reply::InitAck { rc: refusal.rc },
    ),
    plain(
        "set",
        &[
            Attribute::word("size").optional(),
            Attribute::word("rank").optional(),
            Attribute::word("debug").optional(),
        ],
        build_set,
    ),
    judged(
        "response_to_init",
        &[Attribute::word("pmi_version"), Attribute::word("pmi_subversion"), RC],
        |found| {
            Ok(Reply::ResponseToInit {
                version: found.number("pmi_version")?,
                subversion: found.number("pmi_subversion")?,
                rc: found.number("rc")?,
            })
        },
        |refusal| Reply::ResponseToInit {
            version: VERSION,
            subversion: SUBVERSION,
            rc: refusal.rc,
        },
    ),
    plain(
        "maxes",
        &[
            Attribute::word("kvsname_max"),
            Attribute::word("keylen_max"),
            Attribute::word("vallen_max"),
        ],
        |found| {
            Ok(Reply::Maxes {
                kvsname: found.number("kvsname_max")?,
                key: found.number("keylen_max")?,
                value: found.number("vallen_max")?,
            })
        },
    ),
    plain("appnum", &[Attribute::word("appnum")], |found| {
        Ok(Reply::Appnum(found.number("appnum")?))
    }),
    plain("my_kvsname", &[KVSNAME], |found| Ok(Reply::MyKvsname(found.owned("kvsname")?))),
    plain("universe_size", &[Attribute::word("size")], build_universe_size),
    judged(
        "put_result",
        &[RC, MSG],
        |found| Ok(Reply::PutResult(outcome(found, "msg", |_| Ok(()))?)),
        |refusal| Reply::PutResult(Err(refusal)),
    ),
    judged(
        "get_result",
        &[RC, MSG, Attribute::rest("value").optional()],
        |found| Ok(Reply::GetResult(outcome(found, "msg", |found| found.owned("value"))?)),
        |refusal| Reply::GetResult(Err(refusal)),
    ),
    judged(
        "getbyidx_results",
        &[
            RC,
            Attribute::word("reason").optional(),
            Attribute::word("nextidx").optional(),
            Attribute::word("key").optional(),
            Attribute::rest("val").optional(),
        ],
        |found| Ok(Reply::GetByIndexResult(outcome(found, "reason", build_entry)?)),
        |refusal| Reply::GetByIndexResult(Err(refusal)),
    ),
    plain("newkvs", &[KVSNAME], |found| Ok(Reply::NewKvs(found.owned("kvsname")?))),
    judged(
        "kvs_destroyed",
        &[RC, MSG],
        |found| Ok(Reply::KvsDestroyed(outcome(found, "msg", |_| Ok(()))?)),
        |refusal| Reply::KvsDestroyed(Err(refusal)),
    ),
    plain("barrier_out", &[Attribute::word("tag").optional()], |found| {
        Ok(Reply::BarrierOut { tag: found.get("tag").and_then(parse_number) })
    }),
    judged(
        "publish_result",
        &[RC, MSG],
        |found| Ok(Reply::PublishResult(outcome(found, "msg", |_| Ok(()))?)),
        |refusal| Reply::PublishResult(Err(refusal)),
    ),
    judged(
        "lookup_result",
        &[RC, MSG, Attribute::rest("port").optional()],
        |found| Ok(Reply::LookupResult(outcome(found, "msg", |found| found.owned("port"))?)),
        |refusal| Reply::LookupResult(Err(refusal)),
    ),
    judged(
        "unpublish_result",
        &[RC, MSG],
        |found| Ok(Reply::UnpublishResult(outcome(found, "msg", |_| Ok(()))?)),
        |refusal| Reply::UnpublishResult(Err(refusal)),
    ),
    judged(
        "spawn_result",
        &[RC, MSG, Attribute::word("errcodes").optional()],
        |found| Ok(Reply::SpawnResult(outcome(found, "msg", build_error_codes)?)),
        |refusal| Reply::SpawnResult(Err(refusal)),
    ),
    judged(
        "mpd_signal_result",
        &[RC, MSG],
        |found| Ok(Reply::SignalResult(outcome(found, "msg", |_| Ok(()))?)),
        |refusal| Reply::SignalResult(Err(refusal)),
    ),
    judged(
        "finalize_ack",
        &[RC],
        |found| Ok(Reply::FinalizeAck { rc: found.number("rc")? }),
        |refusal| Reply::FinalizeAck { rc: refusal.rc },
    ),
];

/// The version of PMI-1.
pub(crate) const VERSION: u32 = 1;

/// The subversion answered to a client that asked for `asked`. It is never higher, because Flux's client asks for 1 and
/// accepts no other answer.
pub(crate) const fn subversion(asked: u32) -> u32 {
    if asked >= WITH_GROUPS { WITH_GROUPS } else { SUBVERSION }
}

/// The subversion of clients that do not ask for another one, MPICH's among them.
pub(crate) const SUBVERSION: u32 = 1;

/// The subversion that has barriers of groups.
pub(crate) const WITH_GROUPS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn no() -> Refusal {
        Refusal::new(-1, "why")
    }

    fn samples() -> Vec<(Reply, &'static str)> {
        let entry = IndexedEntry { next: 1, key: b"k".into(), value: b"a b=c".into() };
        vec![
            (Reply::InitAck { rc: 0 }, "cmd=initack rc=0"),
            (Reply::Set { setting: Setting::Size, value: 2 }, "cmd=set size=2"),
            (Reply::Set { setting: Setting::Rank, value: 1 }, "cmd=set rank=1"),
            (Reply::Set { setting: Setting::Debug, value: 0 }, "cmd=set debug=0"),
            (
                Reply::ResponseToInit { version: 1, subversion: 1, rc: 0 },
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            ),
            (
                Reply::Maxes { kvsname: 256, key: 64, value: 1024 },
                "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
            ),
            (Reply::Appnum(-1), "cmd=appnum appnum=-1"),
            (Reply::MyKvsname(b"kvs_1".into()), "cmd=my_kvsname kvsname=kvs_1"),
            (Reply::UniverseSize(Some(8)), "cmd=universe_size size=8"),
            (Reply::UniverseSize(None), "cmd=universe_size size=-1"),
            (Reply::PutResult(Ok(())), "cmd=put_result rc=0"),
            (Reply::PutResult(Err(no())), "cmd=put_result rc=-1 msg=why"),
            (Reply::GetResult(Ok(b"a =b".into())), "cmd=get_result rc=0 msg=success value=a =b"),
            (Reply::GetResult(Err(no())), "cmd=get_result rc=-1 msg=why value=unknown"),
            (
                Reply::GetByIndexResult(Ok(entry)),
                "cmd=getbyidx_results rc=0 nextidx=1 key=k val=a b=c",
            ),
            (Reply::GetByIndexResult(Err(no())), "cmd=getbyidx_results rc=-1 reason=why"),
            (Reply::NewKvs(b"kvs_1".into()), "cmd=newkvs kvsname=kvs_1"),
            (Reply::KvsDestroyed(Ok(())), "cmd=kvs_destroyed rc=0"),
            (Reply::BarrierOut { tag: None }, "cmd=barrier_out"),
            (Reply::BarrierOut { tag: Some(7) }, "cmd=barrier_out tag=7"),
            (Reply::PublishResult(Ok(())), "cmd=publish_result rc=0 msg=success"),
            (Reply::LookupResult(Ok(b"p q".into())), "cmd=lookup_result rc=0 msg=success port=p q"),
            (Reply::LookupResult(Err(no())), "cmd=lookup_result rc=-1 msg=why"),
            (Reply::UnpublishResult(Err(no())), "cmd=unpublish_result rc=-1 msg=why"),
            (Reply::SpawnResult(Ok(vec![])), "cmd=spawn_result rc=0"),
            (Reply::SpawnResult(Ok(vec![0, -3])), "cmd=spawn_result rc=0 errcodes=0,-3"),
            (Reply::SignalResult(Ok(())), "cmd=mpd_signal_result rc=0"),
            (Reply::FinalizeAck { rc: 0 }, "cmd=finalize_ack rc=0"),
            (
                Reply::Refused { command: b"fly".into(), refusal: no() },
                "cmd=fly_result rc=-1 msg=why",
            ),
            (Reply::NotUnderstood(b"hello".into()), "hello"),
        ]
    }

    #[test]
    fn each_reply_has_its_line_and_each_line_its_reply() {
        for (reply, line) in samples() {
            assert_eq!(String::from_utf8(reply.encode()).unwrap(), format!("{line}\n"));
            assert_eq!(Reply::parse(line.as_bytes()), reply, "{line}");
        }
    }

    #[test]
    fn every_row_of_the_table_can_be_sent() {
        for row in REPLIES {
            let mut names = samples().into_iter().filter_map(|(reply, _)| reply.name());
            assert!(names.any(|name| name == row.name), "{}", row.name);
        }
    }

    #[test]
    fn a_reply_may_lack_attributes_that_other_servers_omit() {
        assert_eq!(Reply::parse(b"cmd=initack"), Reply::InitAck { rc: 0 });
        let found = Reply::parse(b"cmd=get_result rc=0 found=TRUE value=v");
        assert_eq!(found, Reply::GetResult(Ok(b"v".into())));
    }

    #[test]
    fn a_broken_reply_is_not_understood() {
        for line in ["", "cmd=set", "cmd=put_result", "cmd=appnum appnum=x", "cmd=fly_result rc=0"]
        {
            assert_eq!(Reply::parse(line.as_bytes()), Reply::NotUnderstood(line.into()));
        }
    }

    #[test]
    fn a_reply_without_an_error_form_is_replaced_by_the_command_s_own() {
        let refused = Reply::refuse(Some("barrier_out"), "barrier_in", no());
        assert_eq!(refused.encode(), b"cmd=barrier_in_result rc=-1 msg=why\n");
        let refused = Reply::refuse(Some("get_result"), "get", no());
        assert_eq!(refused.encode(), b"cmd=get_result rc=-1 msg=why value=unknown\n");
    }
}
