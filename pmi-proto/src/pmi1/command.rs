//! The commands of clients: the table of commands, and the parser from a line to a [`Command`].
//!
//! Each row has a command's attributes, its reply, and the function that builds the command. Only the form is checked
//! here. The session checks whether a command is allowed now and names the right KVS.

use super::spawn::{Numbered, SpawnBlock};
use crate::error::{ProtocolError, excerpt};
use crate::keyval::{Attribute, Attributes, parse_number, split_pair};

/// A command with its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    InitAck { pmiid: u32 },
    Init { version: u32, subversion: u32 },
    GetMaxes,
    GetAppnum,
    GetMyKvsname,
    GetUniverseSize,
    Put { kvsname: Vec<u8>, key: Vec<u8>, value: Vec<u8> },
    Get { kvsname: Vec<u8>, key: Vec<u8> },
    GetByIndex { kvsname: Vec<u8>, index: usize },
    CreateKvs,
    DestroyKvs { kvsname: Vec<u8> },
    BarrierIn { group: Option<Vec<u8>> },
    PublishName { service: Vec<u8>, port: Vec<u8> },
    LookupName { service: Vec<u8> },
    UnpublishName { service: Vec<u8> },
    Spawn(Box<SpawnBlock>),
    Signal { rank: u32, signal: u8 },
    Abort { code: i32, message: Vec<u8> },
    Finalize,
}

/// The form of a command on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `cmd=name` and attributes on one line.
    Line,
    /// `mcmd=name`, one attribute on each line, `endcmd`.
    Block,
}

/// One command of the table.
#[derive(Debug)]
pub(crate) struct CommandRow {
    pub(crate) name: &'static str,
    pub(crate) framing: Framing,
    pub(crate) attributes: &'static [Attribute],
    pub(crate) reply: Option<&'static str>,
    build: fn(&Attributes<'_>) -> Result<Command, ProtocolError>,
}

impl Command {
    /// Parses one line, without its end.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, ProtocolError> {
        let Some((name, text)) = split_name(line, "cmd") else {
            return Err(ProtocolError::NoCommand { line: excerpt(line) });
        };
        let Some(row) = find_row(name, Framing::Line) else {
            return Err(ProtocolError::UnknownCommand { name: excerpt(name) });
        };
        let command = Attributes::parse(row.name, row.attributes, text)
            .and_then(|attributes| (row.build)(&attributes));
        match command {
            // A request to end the job is not refused for its form.
            Err(_) if name == ABORT => {
                Ok(Self::Abort { code: UNREADABLE_EXIT_CODE, message: text.to_vec() })
            }
            command => command,
        }
    }

    /// Whether a line is an abort. Only an abort does not wait for its turn.
    pub(crate) fn is_abort(line: &[u8]) -> bool {
        split_name(line, "cmd").is_some_and(|(name, _)| name == ABORT)
    }

    /// The name in the table.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::InitAck { .. } => "initack",
            Self::Init { .. } => "init",
            Self::GetMaxes => "get_maxes",
            Self::GetAppnum => "get_appnum",
            Self::GetMyKvsname => "get_my_kvsname",
            Self::GetUniverseSize => "get_universe_size",
            Self::Put { .. } => "put",
            Self::Get { .. } => "get",
            Self::GetByIndex { .. } => "getbyidx",
            Self::CreateKvs => "create_kvs",
            Self::DestroyKvs { .. } => "destroy_kvs",
            Self::BarrierIn { .. } => "barrier_in",
            Self::PublishName { .. } => "publish_name",
            Self::LookupName { .. } => "lookup_name",
            Self::UnpublishName { .. } => "unpublish_name",
            Self::Spawn(_) => "spawn",
            Self::Signal { .. } => "mpd_signal",
            Self::Abort { .. } => "abort",
            Self::Finalize => "finalize",
        }
    }
}

/// A block being read, from its `mcmd=` to its `endcmd`. There is one kind of block, that of a spawn.
///
/// It keeps the attributes of its row and the numbered lines of a spawn. Both are bounded. It drops all other lines, so
/// its size is bounded for any input.
#[derive(Debug)]
pub(crate) struct Block {
    name: String,
    row: Option<&'static CommandRow>,
    pairs: Vec<(&'static str, Vec<u8>)>,
    numbered: Numbered,
}

impl Block {
    /// A block, if `line` begins one.
    pub(crate) fn begin(line: &[u8]) -> Option<Self> {
        let (name, _) = split_name(line, "mcmd")?;
        let row = find_row(name, Framing::Block);
        Some(Self { name: excerpt(name), row, pairs: Vec::new(), numbered: Numbered::default() })
    }

    /// Takes the next line. Returns true if it was the block's last one.
    pub(crate) fn add(&mut self, line: &[u8]) -> bool {
        if line.strip_prefix(b"endcmd").is_some_and(|rest| rest.iter().all(|&byte| byte == b' ')) {
            return true;
        }
        let Some(row) = self.row else { return false };
        let pair = split_pair(line);
        let named = |(name, _): &(&[u8], &[u8])| {
            row.attributes.iter().find(|attribute| attribute.name.as_bytes() == *name)
        };
        match (pair, pair.as_ref().and_then(named)) {
            (Some((_, value)), Some(attribute)) => {
                if !self.pairs.iter().any(|(known, _)| *known == attribute.name) {
                    self.pairs.push((attribute.name, value.to_vec()));
                }
            }
            _ => self.numbered.add(line),
        }
        false
    }

    /// The command of the whole block.
    pub(crate) fn finish(&self) -> Result<Command, ProtocolError> {
        let Some(row) = self.row else {
            return Err(ProtocolError::UnknownCommand { name: self.name.clone() });
        };
        let pairs = self.pairs.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        let found = Attributes::unchecked(row.name, pairs);
        Ok(Command::Spawn(Box::new(SpawnBlock::build(&found, &self.numbered)?)))
    }
}

/// The row of a command, by name alone.
pub(crate) fn row_named(name: &str) -> Option<&'static CommandRow> {
    COMMANDS.iter().find(|row| row.name == name)
}

fn find_row(name: &[u8], framing: Framing) -> Option<&'static CommandRow> {
    COMMANDS.iter().find(|row| row.framing == framing && row.name.as_bytes() == name)
}

/// Splits `word=NAME rest` into the name and the rest, for the given word.
pub(crate) fn split_name<'l>(line: &'l [u8], word: &str) -> Option<(&'l [u8], &'l [u8])> {
    let named = line.strip_prefix(word.as_bytes())?.strip_prefix(b"=")?;
    let end = named.iter().position(|&byte| byte == b' ').unwrap_or(named.len());
    Some(named.split_at(end))
}

/// Both spellings of abort: MPICH's, and that of older Flux clients.
fn build_abort(attributes: &Attributes<'_>) -> Result<Command, ProtocolError> {
    let code = attributes.get("exitcode").or_else(|| attributes.get("exit_code"));
    let message = attributes.get("message").or_else(|| attributes.get("error_msg"));
    Ok(Command::Abort {
        code: code.and_then(parse_number).unwrap_or(UNREADABLE_EXIT_CODE),
        message: message.unwrap_or_default().to_vec(),
    })
}

/// A row of a command written on one line.
const fn line(
    name: &'static str,
    attributes: &'static [Attribute],
    reply: &'static str,
    build: fn(&Attributes<'_>) -> Result<Command, ProtocolError>,
) -> CommandRow {
    CommandRow { name, framing: Framing::Line, attributes, reply: Some(reply), build }
}

const KVSNAME: Attribute = Attribute::word("kvsname");
const KEY: Attribute = Attribute::word("key");

/// All commands of clients. `protocol.txt` has the same table for readers; a test compares them.
pub(crate) const COMMANDS: &[CommandRow] = &[
    line("initack", &[Attribute::word("pmiid")], "initack", |found| {
        Ok(Command::InitAck { pmiid: found.number("pmiid")? })
    }),
    line(
        "init",
        &[Attribute::word("pmi_version"), Attribute::word("pmi_subversion").optional()],
        "response_to_init",
        |found| {
            let subversion = found.get("pmi_subversion").and_then(parse_number).unwrap_or_default();
            Ok(Command::Init { version: found.number("pmi_version")?, subversion })
        },
    ),
    line("get_maxes", &[], "maxes", |_| Ok(Command::GetMaxes)),
    line("get_appnum", &[], "appnum", |_| Ok(Command::GetAppnum)),
    line("get_my_kvsname", &[], "my_kvsname", |_| Ok(Command::GetMyKvsname)),
    line("get_universe_size", &[], "universe_size", |_| Ok(Command::GetUniverseSize)),
    line("put", &[KVSNAME, KEY, Attribute::rest("value")], "put_result", |found| {
        Ok(Command::Put {
            kvsname: found.owned("kvsname")?,
            key: found.owned("key")?,
            value: found.owned("value")?,
        })
    }),
    line("get", &[KVSNAME, KEY], "get_result", |found| {
        Ok(Command::Get { kvsname: found.owned("kvsname")?, key: found.owned("key")? })
    }),
    line("getbyidx", &[KVSNAME, Attribute::word("idx")], "getbyidx_results", |found| {
        Ok(Command::GetByIndex { kvsname: found.owned("kvsname")?, index: found.number("idx")? })
    }),
    line("create_kvs", &[], "newkvs", |_| Ok(Command::CreateKvs)),
    line("destroy_kvs", &[KVSNAME], "kvs_destroyed", |found| {
        Ok(Command::DestroyKvs { kvsname: found.owned("kvsname")? })
    }),
    line("barrier_in", &[Attribute::word("group").optional()], "barrier_out", |found| {
        Ok(Command::BarrierIn { group: found.get("group").map(<[u8]>::to_vec) })
    }),
    line(
        "publish_name",
        &[Attribute::until_last("service", "port"), Attribute::rest("port")],
        "publish_result",
        |found| {
            Ok(Command::PublishName {
                service: found.owned("service")?,
                port: found.owned("port")?,
            })
        },
    ),
    line("lookup_name", &[Attribute::rest("service")], "lookup_result", |found| {
        Ok(Command::LookupName { service: found.owned("service")? })
    }),
    line("unpublish_name", &[Attribute::rest("service")], "unpublish_result", |found| {
        Ok(Command::UnpublishName { service: found.owned("service")? })
    }),
    CommandRow {
        name: "spawn",
        framing: Framing::Block,
        attributes: &[
            Attribute::rest("nprocs"),
            Attribute::rest("execname"),
            Attribute::rest("totspawns"),
            Attribute::rest("spawnssofar"),
            Attribute::rest("argcnt").optional(),
            Attribute::rest("preput_num").optional(),
            Attribute::rest("info_num").optional(),
        ],
        reply: Some("spawn_result"),
        // Numbered lines are not attributes: the block builds this command itself.
        build: |_| Err(ProtocolError::UnknownCommand { name: "spawn".to_owned() }),
    },
    line(
        "mpd_signal",
        &[Attribute::word("rank"), Attribute::word("signal")],
        "mpd_signal_result",
        |found| {
            Ok(Command::Signal { rank: found.number("rank")?, signal: found.number("signal")? })
        },
    ),
    CommandRow {
        name: "abort",
        framing: Framing::Line,
        attributes: &[
            Attribute::word("exitcode").optional(),
            Attribute::word("exit_code").optional(),
            Attribute::rest("message").optional(),
            Attribute::rest("error_msg").optional(),
        ],
        reply: None,
        build: build_abort,
    },
    line("finalize", &[], "finalize_ack", |_| Ok(Command::Finalize)),
];

const ABORT: &[u8] = b"abort";

/// The exit code of an abort without a readable code.
pub(crate) const UNREADABLE_EXIT_CODE: i32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn abort(code: i32, message: &str) -> Command {
        Command::Abort { code, message: message.into() }
    }

    #[test]
    fn a_trailing_space_does_not_matter() {
        assert_eq!(Command::parse(b"cmd=get_maxes "), Ok(Command::GetMaxes));
        assert_eq!(
            Command::parse(b"cmd=get kvsname=k key=x "),
            Ok(Command::Get { kvsname: b"k".into(), key: b"x".into() })
        );
    }

    #[test]
    fn an_unneeded_attribute_may_be_missing_and_a_needed_one_may_not() {
        for (line, subversion) in [
            (&b"cmd=init pmi_version=1"[..], 0),
            (b"cmd=init pmi_version=1 pmi_subversion=2", 2),
            (b"cmd=init pmi_version=1 pmi_subversion=x", 0),
        ] {
            assert_eq!(Command::parse(line), Ok(Command::Init { version: 1, subversion }));
        }
        assert_eq!(
            Command::parse(b"cmd=put kvsname=k value=v"),
            Err(ProtocolError::MissingAttribute { command: "put", attribute: "key" })
        );
    }

    #[test]
    fn a_line_must_begin_with_its_command() {
        for line in [&b""[..], b"hello", b"kvsname=x cmd=get", b"command=get", b"mcmd=spawn"] {
            assert!(matches!(Command::parse(line), Err(ProtocolError::NoCommand { .. })));
        }
        let error = Command::parse(b"cmd=fly high").unwrap_err();
        assert_eq!(error, ProtocolError::UnknownCommand { name: "fly".into() });
        let error = Command::parse(b"cmd=").unwrap_err();
        assert_eq!(error, ProtocolError::UnknownCommand { name: String::new() });
    }

    #[test]
    fn a_block_command_is_unknown_on_a_line() {
        let error = Command::parse(b"cmd=spawn totspawns=1 spawnssofar=1").unwrap_err();
        assert_eq!(error, ProtocolError::UnknownCommand { name: "spawn".into() });
    }

    #[test]
    fn an_abort_is_understood_in_every_spelling() {
        let cases = [
            ("cmd=abort exitcode=7", abort(7, "")),
            ("cmd=abort exitcode=-1 message=PMI_Init failed", abort(-1, "PMI_Init failed")),
            ("cmd=abort exit_code=3 error_msg=out of luck", abort(3, "out of luck")),
            ("cmd=abort", abort(1, "")),
            ("cmd=abort exitcode=99999999999", abort(1, "")),
            ("cmd=abort something broke", abort(1, " something broke")),
        ];
        for (line, command) in cases {
            assert!(Command::is_abort(line.as_bytes()));
            assert_eq!(Command::parse(line.as_bytes()), Ok(command), "{line}");
        }
        assert!(!Command::is_abort(b"cmd=aborted"));
    }

    #[test]
    fn a_block_is_one_command() {
        let mut block = Block::begin(b"mcmd=spawn").unwrap();
        let lines = ["nprocs=1", "totspawns=2", "arg1=endcmd x", "arg2=", "spawnssofar=1", "junk"];
        assert!(lines.iter().all(|line| !block.add(line.as_bytes())));
        assert!(block.add(b"endcmd"));
        let Ok(Command::Spawn(block)) = block.finish() else { panic!("{block:?}") };
        assert_eq!((block.number, block.total), (1, 2));
    }

    #[test]
    fn an_unknown_block_is_read_to_its_end() {
        let mut block = Block::begin(b"mcmd=fly").unwrap();
        assert!(!block.add(b"totspawns=2"));
        assert!(block.add(b"endcmd "));
        assert_eq!(block.finish(), Err(ProtocolError::UnknownCommand { name: "fly".into() }));
    }
}
