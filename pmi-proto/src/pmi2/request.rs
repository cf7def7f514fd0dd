//! The requests of PMI-2 clients and the attributes of their responses: the table of commands.
//!
//! Each row has a command's attributes and those of its response, and the functions that build both. Only the form is
//! checked here. The session checks whether a request is allowed now.

use super::Message;
use super::content::{Content, Welcome};
use super::numbered::{self, Lists};
use super::spawn;
use crate::error::{ProtocolError, excerpt};
use crate::keyval::{Attribute, Attributes, parse_number};
use crate::pmi1::command::UNREADABLE_EXIT_CODE;
use crate::service::Service;
use crate::spawn::SpawnRequest;

/// A request with its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `fullinit`: the first message.
    FullInit {
        /// The rank from the client's environment.
        rank: Option<u32>,
        /// Whether several threads will send requests.
        threaded: bool,
    },
    /// `job-getid`: the job's id, which is the name of its KVS.
    JobId,
    /// `job-connect`: connect with another job.
    Connect {
        /// Its id.
        jobid: Vec<u8>,
    },
    /// `job-disconnect`: disconnect from it.
    Disconnect {
        /// Its id.
        jobid: Vec<u8>,
    },
    /// `kvs-put`.
    Put { key: Vec<u8>, value: Vec<u8> },
    /// `kvs-fence`: answered when all ranks have sent it.
    Fence,
    /// `kvs-get`.
    Get {
        /// The job of the KVS; empty means the own job.
        jobid: Vec<u8>,
        key: Vec<u8>,
    },
    /// `info-putnodeattr`: for the ranks of this job on this node.
    PutNodeAttribute { key: Vec<u8>, value: Vec<u8> },
    /// `info-getnodeattr`.
    GetNodeAttribute {
        key: Vec<u8>,
        /// Whether to wait until a process has put the key.
        wait: bool,
    },
    /// `info-getjobattr`: an attribute of the job that the process manager sets.
    GetJobAttribute { key: Vec<u8> },
    /// `name-publish`.
    Publish { service: Service, port: Vec<u8> },
    /// `name-lookup`.
    Lookup { service: Service },
    /// `name-unpublish`.
    Unpublish { service: Service },
    /// `spawn`.
    Spawn(SpawnRequest),
    /// `ring`, of Slurm and MVAPICH: exchanges values with the neighbours by rank, when all ranks have sent it.
    Ring {
        /// For the left neighbour, which gets it as the value from its right.
        left: Vec<u8>,
        /// For the right neighbour, which gets it as the value from its left.
        right: Vec<u8>,
    },
    /// `mpd-signal`: send a signal to another rank.
    Signal {
        /// The rank that gets the signal.
        rank: u32,
        /// The signal's number.
        signal: u8,
    },
    /// `abort`; not answered.
    Abort {
        /// The exit code; 1 if it is missing or cannot be parsed.
        code: i32,
        /// Whether the whole world is to end, not only the client.
        world: bool,
        /// The client's message.
        message: Vec<u8>,
    },
    /// `finalize`.
    Finalize,
}

/// One command of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) attributes: &'static [Attribute],
    /// The attributes of its response besides the common ones; `None` if it has no response.
    pub(crate) response: Option<&'static [Attribute]>,
    build: fn(&Attributes<'_>, &Message) -> Result<Request, ProtocolError>,
    pub(crate) content: fn(&Attributes<'_>) -> Result<Content, ProtocolError>,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// The command is unknown, or lacks a required attribute. An abort is never refused.
    pub fn parse(message: &Message) -> Result<Self, ProtocolError> {
        let Some(row) = row_named(message.command()) else {
            return Err(ProtocolError::UnknownCommand { name: excerpt(message.command()) });
        };
        (row.build)(&listed(row.name, row.attributes, message)?, message)
    }

    /// The request as a message, with the token of the thread that waits for the response.
    pub fn message(&self, thrid: Option<&[u8]>) -> Message {
        let mut message = Message::new(self.name());
        if let Some(thrid) = thrid {
            message.push("thrid", thrid);
        }
        match self {
            Self::FullInit { rank, threaded } => {
                if let Some(rank) = rank {
                    message.push("pmirank", rank.to_string());
                }
                message.push("threaded", boolean(*threaded));
            }
            Self::JobId | Self::Fence | Self::Finalize => {}
            Self::Connect { jobid } | Self::Disconnect { jobid } => {
                message.push("jobid", jobid.clone());
            }
            Self::Put { key, value } | Self::PutNodeAttribute { key, value } => {
                message.push("key", key.clone());
                message.push("value", value.clone());
            }
            Self::Get { jobid, key } => {
                message.push("jobid", jobid.clone());
                message.push("srcid", "-1");
                message.push("key", key.clone());
            }
            Self::GetNodeAttribute { key, wait } => {
                message.push("key", key.clone());
                message.push("wait", boolean(*wait));
            }
            Self::GetJobAttribute { key } => message.push("key", key.clone()),
            Self::Publish { service, port } => {
                message.push("name", service.name.clone());
                message.push("port", port.clone());
                numbered::write_info(&service.info, &mut message);
            }
            Self::Lookup { service } | Self::Unpublish { service } => {
                message.push("name", service.name.clone());
                numbered::write_info(&service.info, &mut message);
            }
            Self::Spawn(request) => spawn::write(request, &mut message),
            Self::Ring { left, right } => {
                message.push("ring-count", "1");
                message.push("ring-left", left.clone());
                message.push("ring-right", right.clone());
            }
            Self::Signal { rank, signal } => {
                message.push("rank", rank.to_string());
                message.push("signal", signal.to_string());
            }
            Self::Abort { code, world, message: words } => {
                message.push("exitcode", code.to_string());
                message.push("isworld", boolean(*world));
                message.push("message", words.clone());
            }
        }
        message
    }

    /// The name in the table.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::FullInit { .. } => "fullinit",
            Self::JobId => "job-getid",
            Self::Connect { .. } => "job-connect",
            Self::Disconnect { .. } => "job-disconnect",
            Self::Put { .. } => "kvs-put",
            Self::Fence => "kvs-fence",
            Self::Get { .. } => "kvs-get",
            Self::PutNodeAttribute { .. } => "info-putnodeattr",
            Self::GetNodeAttribute { .. } => "info-getnodeattr",
            Self::GetJobAttribute { .. } => "info-getjobattr",
            Self::Publish { .. } => "name-publish",
            Self::Lookup { .. } => "name-lookup",
            Self::Unpublish { .. } => "name-unpublish",
            Self::Spawn(_) => "spawn",
            Self::Ring { .. } => "ring",
            Self::Signal { .. } => "mpd-signal",
            Self::Abort { .. } => "abort",
            Self::Finalize => "finalize",
        }
    }
}

/// The row of a command.
pub(crate) fn row_named(name: &[u8]) -> Option<&'static Row> {
    COMMANDS.iter().find(|row| row.name.as_bytes() == name)
}

/// The pairs of a message that a row lists; of a repeated one the first counts.
pub(crate) fn listed<'m>(
    command: &'static str,
    attributes: &'static [Attribute],
    message: &'m Message,
) -> Result<Attributes<'m>, ProtocolError> {
    let named = |attribute: &Attribute| Some((attribute.name, message.get(attribute.name)?));
    Attributes::from_pairs(command, attributes, attributes.iter().filter_map(named).collect())
}

pub(super) fn boolean(value: bool) -> &'static str {
    if value { "TRUE" } else { "FALSE" }
}

/// Whether an attribute exists and is true. All clients write capitals.
pub(super) fn is_true(found: &Attributes<'_>, name: &str) -> bool {
    found.get(name) == Some(b"TRUE")
}

/// Both spellings of abort: MPICH's, and Slurm's, which has no code.
fn build_abort(found: &Attributes<'_>, _: &Message) -> Result<Request, ProtocolError> {
    let code = found.get("exitcode").and_then(parse_number).unwrap_or(UNREADABLE_EXIT_CODE);
    let words = found.get("message").or_else(|| found.get("msg")).unwrap_or_default();
    let world = found.get("isworld").is_none() || is_true(found, "isworld");
    Ok(Request::Abort { code, world, message: words.to_vec() })
}

fn build_full_init(found: &Attributes<'_>, _: &Message) -> Result<Request, ProtocolError> {
    let rank = found.get("pmirank").map(|_| found.number("pmirank")).transpose()?;
    Ok(Request::FullInit { rank, threaded: is_true(found, "threaded") })
}

fn service(
    command: &'static str,
    found: &Attributes<'_>,
    message: &Message,
) -> Result<Service, ProtocolError> {
    Ok(Service { name: found.owned("name")?, info: Lists(command).info(message.pairs())? })
}

fn welcome(found: &Attributes<'_>) -> Result<Content, ProtocolError> {
    Ok(Content::Welcome(Welcome {
        rank: found.number("rank")?,
        size: found.number("size")?,
        appnum: found.number("appnum")?,
        spawner: found.get("spawner-jobid").map(<[u8]>::to_vec),
    }))
}

fn value(found: &Attributes<'_>) -> Result<Content, ProtocolError> {
    let value = is_true(found, "found").then(|| found.owned("value")).transpose()?;
    Ok(Content::Value(value))
}

/// The port of a service: MPICH reads the key `port`, Slurm's client `value`.
fn port(found: &Attributes<'_>) -> Result<Content, ProtocolError> {
    let port = if found.get("port").is_some() { "port" } else { "value" };
    Ok(Content::Port(found.owned(port)?))
}

fn neighbours(found: &Attributes<'_>) -> Result<Content, ProtocolError> {
    Ok(Content::Ring {
        rank: found.number("ring-count")?,
        left: found.owned("ring-left")?,
        right: found.owned("ring-right")?,
    })
}

fn done(_: &Attributes<'_>) -> Result<Content, ProtocolError> {
    Ok(Content::Done)
}

const fn may(name: &'static str) -> Attribute {
    Attribute::word(name).optional()
}

const JOBID: Attribute = Attribute::word("jobid");
const KEY: Attribute = Attribute::word("key");
const NAME: Attribute = Attribute::word("name");
const VALUE: Attribute = Attribute::word("value");
const NOTHING: Option<&[Attribute]> = Some(&[]);
const FOUND: Option<&[Attribute]> = Some(&[Attribute::word("found"), may("value")]);
const RING: &[Attribute] =
    &[Attribute::word("ring-count"), Attribute::word("ring-left"), Attribute::word("ring-right")];

/// All requests of clients. `protocol2.txt` has the same table for readers; a test compares them.
pub(crate) const COMMANDS: &[Row] = &[
    Row {
        name: "fullinit",
        attributes: &[may("pmijobid"), may("pmirank"), may("srcid"), may("threaded")],
        response: Some(&[
            Attribute::word("pmi-version"),
            Attribute::word("pmi-subversion"),
            Attribute::word("rank"),
            Attribute::word("size"),
            Attribute::word("appnum"),
            may("spawner-jobid"),
            may("debugged"),
            may("pmiverbose"),
        ]),
        build: build_full_init,
        content: welcome,
    },
    Row {
        name: "job-getid",
        attributes: &[],
        response: Some(&[JOBID]),
        build: |_, _| Ok(Request::JobId),
        content: |found| Ok(Content::JobId(found.owned("jobid")?)),
    },
    Row {
        name: "job-connect",
        attributes: &[JOBID],
        response: Some(&[may("kvscopy")]),
        build: |found, _| Ok(Request::Connect { jobid: found.owned("jobid")? }),
        content: done,
    },
    Row {
        name: "job-disconnect",
        attributes: &[JOBID],
        response: NOTHING,
        build: |found, _| Ok(Request::Disconnect { jobid: found.owned("jobid")? }),
        content: done,
    },
    Row {
        name: "kvs-put",
        attributes: &[KEY, VALUE],
        response: NOTHING,
        build: |found, _| {
            Ok(Request::Put { key: found.owned("key")?, value: found.owned("value")? })
        },
        content: done,
    },
    Row {
        name: "kvs-fence",
        attributes: &[],
        response: NOTHING,
        build: |_, _| Ok(Request::Fence),
        content: done,
    },
    Row {
        name: "kvs-get",
        attributes: &[may("jobid"), may("srcid"), KEY],
        response: FOUND,
        build: |found, _| {
            let jobid = found.get("jobid").unwrap_or_default().to_vec();
            Ok(Request::Get { jobid, key: found.owned("key")? })
        },
        content: value,
    },
    Row {
        name: "info-putnodeattr",
        attributes: &[KEY, VALUE],
        response: NOTHING,
        build: |found, _| {
            Ok(Request::PutNodeAttribute { key: found.owned("key")?, value: found.owned("value")? })
        },
        content: done,
    },
    Row {
        name: "info-getnodeattr",
        attributes: &[KEY, may("wait")],
        response: FOUND,
        build: |found, _| {
            let wait = is_true(found, "wait");
            Ok(Request::GetNodeAttribute { key: found.owned("key")?, wait })
        },
        content: value,
    },
    Row {
        name: "info-getjobattr",
        attributes: &[KEY],
        response: FOUND,
        build: |found, _| Ok(Request::GetJobAttribute { key: found.owned("key")? }),
        content: value,
    },
    Row {
        name: "name-publish",
        attributes: &[NAME, Attribute::word("port")],
        response: NOTHING,
        build: |found, message| {
            let service = service("name-publish", found, message)?;
            Ok(Request::Publish { service, port: found.owned("port")? })
        },
        content: done,
    },
    Row {
        name: "name-lookup",
        attributes: &[NAME],
        response: Some(&[may("port"), may("value")]),
        build: |found, message| {
            Ok(Request::Lookup { service: service("name-lookup", found, message)? })
        },
        content: port,
    },
    Row {
        name: "name-unpublish",
        attributes: &[NAME],
        response: NOTHING,
        build: |found, message| {
            Ok(Request::Unpublish { service: service("name-unpublish", found, message)? })
        },
        content: done,
    },
    Row {
        name: "spawn",
        attributes: &[may("ncmds"), may("preputcount")],
        response: Some(&[JOBID, may("nerrs"), may("errcodes")]),
        build: |_, message| spawn::read(message).map(Request::Spawn),
        content: spawn::outcome,
    },
    Row {
        name: "ring",
        attributes: RING,
        response: Some(RING),
        build: |found, _| {
            Ok(Request::Ring { left: found.owned("ring-left")?, right: found.owned("ring-right")? })
        },
        content: neighbours,
    },
    Row {
        name: "mpd-signal",
        attributes: &[Attribute::word("rank"), Attribute::word("signal")],
        response: NOTHING,
        build: |found, _| {
            Ok(Request::Signal { rank: found.number("rank")?, signal: found.number("signal")? })
        },
        content: done,
    },
    Row {
        name: "abort",
        attributes: &[may("exitcode"), may("isworld"), may("message"), may("msg")],
        response: None,
        build: build_abort,
        content: done,
    },
    Row {
        name: "finalize",
        attributes: &[],
        response: NOTHING,
        build: |_, _| Ok(Request::Finalize),
        content: done,
    },
];
