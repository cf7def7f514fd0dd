//! The requests of a client.

use super::pack::{Packing, Packs};
use super::table::{self, Row};
use super::{read_pairs, write_pairs};
use crate::encoding::{Data, DataType, Encoding, Reader, Writer};
use crate::error::{DecodeError, ProtocolError};
use crate::status::Status;
use crate::view::{App, Info, Pair, Proc, Query};

/// The processes that may read a committed pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The processes of the same node.
    Local,
    /// The processes of other nodes.
    Remote,
    /// All processes.
    Global,
}

/// A committed pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The processes that may read it.
    pub scope: Scope,
    /// The key and the value.
    pub pair: Pair,
}

/// A request with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    JobInfo,
    Abort {
        status: Status,
        message: Option<Vec<u8>>,
        procs: Vec<Proc>,
    },
    Commit {
        puts: Vec<Put>,
    },
    Fence {
        procs: Vec<Proc>,
        info: Vec<Info>,
    },
    Get {
        proc: Proc,
        info: Vec<Info>,
        key: Option<Vec<u8>>,
    },
    Finalize,
    Publish {
        uid: u32,
        info: Vec<Info>,
    },
    Lookup {
        uid: u32,
        keys: Vec<Vec<u8>>,
        info: Vec<Info>,
    },
    Unpublish {
        uid: u32,
        keys: Vec<Vec<u8>>,
        info: Vec<Info>,
    },
    Spawn {
        info: Vec<Info>,
        apps: Vec<App>,
    },
    Connect {
        procs: Vec<Proc>,
        info: Vec<Info>,
    },
    Disconnect {
        procs: Vec<Proc>,
        info: Vec<Info>,
    },
    Notify {
        status: Status,
        range: u8,
        info: Vec<Info>,
    },
    Register {
        codes: Vec<Status>,
        info: Vec<Info>,
    },
    Deregister {
        codes: Vec<Status>,
    },
    Query {
        queries: Vec<Query>,
    },
    Log {
        time: u64,
        info: Vec<Info>,
        directives: Vec<Info>,
    },
    JobControl {
        targets: Vec<Proc>,
        info: Vec<Info>,
    },
    GroupConstruct {
        group: Vec<u8>,
        procs: Vec<Proc>,
        info: Vec<Info>,
    },
    GroupLeave {
        group: Vec<u8>,
        info: Vec<Info>,
    },
    GroupDestruct {
        group: Vec<u8>,
        procs: Vec<Proc>,
        info: Vec<Info>,
    },
    /// A command with the answer that it is not supported.
    Unsupported {
        command: u8,
    },
}

impl Request {
    /// Reads the payload of a request. Bytes after the known packs are ignored.
    ///
    /// `release` is the version of the client's library.
    ///
    /// # Errors
    ///
    /// The command is unknown, or a pack does not match the table.
    pub fn read(
        encoding: Encoding,
        release: [u32; 3],
        payload: &[u8],
    ) -> Result<Self, ProtocolError> {
        Self::read_sized(encoding, release, payload).map(|(request, _)| request)
    }

    /// The same, with the estimated memory of the request in bytes.
    pub(crate) fn read_sized(
        encoding: Encoding,
        release: [u32; 3],
        payload: &[u8],
    ) -> Result<(Self, usize), ProtocolError> {
        let mut reader = Reader::new(encoding, payload);
        let bad =
            |command| move |(field, error)| ProtocolError::BadRequest { command, field, error };
        let first = reader.one(DataType::COMMAND).map_err(|error| ("command", error));
        let number = match first.map_err(bad("a request"))? {
            Data::Unsigned(number) => u8::try_from(number).unwrap_or(u8::MAX),
            _ => u8::MAX,
        };
        let row = table::row(number).ok_or(ProtocolError::UnknownCommand(number))?;
        let request = Self::read_row(row, release, &mut reader, encoding).map_err(bad(row.name))?;
        Ok((request, payload.len() + reader.decoded()))
    }

    fn read_row(
        row: &Row,
        release: [u32; 3],
        reader: &mut Reader<'_>,
        encoding: Encoding,
    ) -> Result<Self, (&'static str, DecodeError)> {
        let Some(mut list) = row.request else {
            return Ok(Self::Unsupported { command: row.number });
        };
        let is_early = row.number == 28 && release < [4, 2, 4];
        if is_early {
            list = table::DESTRUCT_EARLY;
        }
        let mut packs = Packs::read(list, reader)?;
        Self::build(row.number, is_early, encoding, &mut packs).map_err(|error| ("contents", error))
    }

    fn build(
        command: u8,
        is_early: bool,
        encoding: Encoding,
        p: &mut Packs,
    ) -> Result<Self, DecodeError> {
        Ok(match command {
            0 => Self::JobInfo,
            1 => Self::Abort { status: p.status()?, message: p.optional_text()?, procs: p.many()? },
            2 => Self::Commit { puts: puts(p.all(), encoding)? },
            3 => Self::Fence { procs: p.many()?, info: p.many()? },
            4 => Self::Get {
                proc: Proc { namespace: p.text()?, rank: p.number()? },
                info: p.many()?,
                key: p.optional_text()?,
            },
            5 => Self::Finalize,
            6 => Self::Publish { uid: p.number()?, info: p.many()? },
            7 => Self::Lookup { uid: p.number()?, keys: p.texts()?, info: p.many()? },
            8 => Self::Unpublish { uid: p.number()?, keys: p.texts()?, info: p.many()? },
            9 => Self::Spawn { info: p.many()?, apps: p.many()? },
            10 => Self::Connect { procs: p.many()?, info: p.many()? },
            11 => Self::Disconnect { procs: p.many()?, info: p.many()? },
            12 => Self::Notify { status: p.status()?, range: p.number()?, info: p.many()? },
            13 => Self::Register { codes: p.statuses()?, info: p.many()? },
            14 => Self::Deregister { codes: p.statuses()? },
            15 => Self::Query { queries: p.many()? },
            16 => Self::Log { time: p.number()?, info: p.many()?, directives: p.many()? },
            18 => Self::JobControl { targets: p.many()?, info: p.many()? },
            24 => Self::GroupConstruct { group: p.text()?, procs: p.many()?, info: p.many()? },
            27 => Self::GroupLeave { group: p.text()?, info: p.many()? },
            28 => Self::GroupDestruct {
                group: p.text()?,
                procs: if is_early { Vec::new() } else { p.many()? },
                info: p.many()?,
            },
            command => Self::Unsupported { command },
        })
    }

    pub const fn command(&self) -> u8 {
        match self {
            Self::JobInfo => 0,
            Self::Abort { .. } => 1,
            Self::Commit { .. } => 2,
            Self::Fence { .. } => 3,
            Self::Get { .. } => 4,
            Self::Finalize => 5,
            Self::Publish { .. } => 6,
            Self::Lookup { .. } => 7,
            Self::Unpublish { .. } => 8,
            Self::Spawn { .. } => 9,
            Self::Connect { .. } => 10,
            Self::Disconnect { .. } => 11,
            Self::Notify { .. } => 12,
            Self::Register { .. } => 13,
            Self::Deregister { .. } => 14,
            Self::Query { .. } => 15,
            Self::Log { .. } => 16,
            Self::JobControl { .. } => 18,
            Self::GroupConstruct { .. } => 24,
            Self::GroupLeave { .. } => 27,
            Self::GroupDestruct { .. } => 28,
            Self::Unsupported { command } => *command,
        }
    }

    /// Writes the payload of the request.
    pub fn write(&self, encoding: Encoding) -> Vec<u8> {
        let p = Packing::default();
        let p = match self {
            Self::JobInfo | Self::Finalize | Self::Unsupported { .. } => p,
            Self::Abort { status, message, procs } => {
                p.status(*status).optional_text(message.as_deref()).many(procs)
            }
            Self::Commit { puts } => p.all(buffers(puts, encoding)),
            Self::Fence { procs, info }
            | Self::Connect { procs, info }
            | Self::Disconnect { procs, info }
            | Self::JobControl { targets: procs, info } => p.many(procs).many(info),
            Self::Get { proc, info, key } => {
                let p = p.text(&proc.namespace).number(proc.rank).many(info);
                match key {
                    Some(key) => p.text(key),
                    None => p,
                }
            }
            Self::Publish { uid, info } => p.number(*uid).many(info),
            Self::Lookup { uid, keys, info } | Self::Unpublish { uid, keys, info } => {
                p.number(*uid).texts(keys).many(info)
            }
            Self::Spawn { info, apps } => p.many(info).many(apps),
            Self::Notify { status, range, info } => p.status(*status).number(*range).many(info),
            Self::Register { codes, info } => p.statuses(codes).many(info),
            Self::Deregister { codes } => p.statuses(codes),
            Self::Query { queries } => p.many(queries),
            Self::Log { time, info, directives } => p.number(*time).many(info).many(directives),
            Self::GroupLeave { group, info } => p.text(group).many(info),
            Self::GroupConstruct { group, procs, info }
            | Self::GroupDestruct { group, procs, info } => p.text(group).many(procs).many(info),
        };
        let mut writer = Writer::new(encoding);
        writer.one(DataType::COMMAND, &Data::Unsigned(self.command().into()));
        let list = table::row(self.command()).and_then(|row| row.request);
        p.write(list.unwrap_or_default(), &mut writer);
        writer.into_bytes()
    }
}

impl Scope {
    /// All scopes, in the order of their numbers.
    const ALL: [Self; 3] = [Self::Local, Self::Remote, Self::Global];

    fn number(self) -> u64 {
        match self {
            Self::Local => 1,
            Self::Remote => 2,
            Self::Global => 3,
        }
    }
}

/// The pairs of a commit. The data are scopes, each with a buffer of pairs.
fn puts(data: Vec<Data>, encoding: Encoding) -> Result<Vec<Put>, DecodeError> {
    let mut puts = Vec::new();
    let mut data = data.into_iter();
    while let (Some(scope), Some(Data::Record(buffer))) = (data.next(), data.next()) {
        let scope = Scope::ALL.into_iter().find(|one| scope == Data::Unsigned(one.number()));
        let scope = scope.ok_or(DecodeError::Form("a scope"))?;
        let Some(Data::Bytes(bytes)) = buffer.into_iter().nth(1) else {
            return Err(DecodeError::Form("a buffer"));
        };
        let pairs = read_pairs(encoding, &bytes)?;
        puts.extend(pairs.into_iter().map(|pair| Put { scope, pair }));
    }
    Ok(puts)
}

fn buffers(puts: &[Put], encoding: Encoding) -> Vec<Data> {
    let mut data = Vec::new();
    for scope in Scope::ALL {
        let pairs: Vec<_> =
            puts.iter().filter(|put| put.scope == scope).map(|put| &put.pair).collect();
        if !pairs.is_empty() {
            let bytes = write_pairs(encoding, pairs);
            data.push(Data::Unsigned(scope.number()));
            data.push(Data::Record(vec![Data::Unsigned(1), Data::Bytes(bytes)]));
        }
    }
    data
}
