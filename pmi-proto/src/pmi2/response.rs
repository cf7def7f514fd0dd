//! The responses to PMI-2 clients, to and from messages by the table of commands.
//!
//! The session writes, the client machine reads. The session replaces a response that does not fit a message.

use super::Message;
use super::content::{Content, Welcome};
use super::request::{boolean, listed, row_named};
use crate::error::{ProtocolError, Refusal, excerpt};
use crate::keyval::Attribute;

/// The response to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The token of the thread that waits for it, from the request.
    pub thrid: Option<Vec<u8>>,
    /// The name of the request.
    pub command: Vec<u8>,
    pub outcome: Result<Content, Refusal>,
}

impl Response {
    /// Reads a response.
    ///
    /// # Errors
    ///
    /// No command has this response, or an attribute is missing.
    pub fn parse(message: &Message) -> Result<Self, ProtocolError> {
        let unknown = || ProtocolError::UnknownCommand { name: excerpt(message.command()) };
        let command = message.command().strip_suffix(RESPONSE).ok_or_else(unknown)?;
        let thrid = message.get("thrid").map(<[u8]>::to_vec);
        let common = listed("response", COMMON, message)?;
        let rc = common.number("rc")?;
        let outcome = if rc == 0 {
            let row = row_named(command).ok_or_else(unknown)?;
            let attributes = row.response.ok_or_else(unknown)?;
            Ok((row.content)(&listed(row.name, attributes, message)?)?)
        } else {
            Err(Refusal::new(rc, common.get("errmsg").unwrap_or_default()))
        };
        Ok(Self { thrid, command: command.to_vec(), outcome })
    }

    /// The response as a message.
    pub fn message(&self) -> Message {
        let mut message = Message::new([self.command.as_slice(), RESPONSE].concat());
        if let Some(thrid) = &self.thrid {
            message.push("thrid", thrid.clone());
        }
        match &self.outcome {
            Ok(content) => {
                content.write(&self.command, &mut message);
                message.push("rc", "0");
            }
            Err(refusal) => {
                message.push("rc", refusal.rc.to_string());
                message.push("errmsg", refusal.msg.clone());
            }
        }
        message
    }
}

impl Content {
    fn write(&self, command: &[u8], message: &mut Message) {
        match self {
            Self::Done if command == b"job-connect" => message.push("kvscopy", boolean(false)),
            Self::Done => {}
            Self::Welcome(welcome) => welcome.write(message),
            Self::JobId(jobid) => message.push("jobid", jobid.clone()),
            Self::Value(value) => {
                message.push("found", boolean(value.is_some()));
                if let Some(value) = value {
                    message.push("value", value.clone());
                }
            }
            Self::Port(port) => {
                message.push("port", port.clone());
                message.push("value", port.clone());
            }
            Self::Spawned { jobid, errors } => {
                message.push("jobid", jobid.clone());
                message.push("nerrs", errors.len().to_string());
                if !errors.is_empty() {
                    let codes: Vec<String> = errors.iter().map(i32::to_string).collect();
                    message.push("errcodes", codes.join(","));
                }
            }
            Self::Ring { rank, left, right } => {
                message.push("ring-count", rank.to_string());
                message.push("ring-left", left.clone());
                message.push("ring-right", right.clone());
            }
        }
    }
}

impl Welcome {
    fn write(&self, message: &mut Message) {
        message.push("pmi-version", VERSION.to_string());
        message.push("pmi-subversion", SUBVERSION.to_string());
        message.push("rank", self.rank.to_string());
        message.push("size", self.size.to_string());
        message.push("appnum", self.appnum.to_string());
        if let Some(spawner) = &self.spawner {
            message.push("spawner-jobid", spawner.clone());
        }
        message.push("debugged", boolean(false));
        message.push("pmiverbose", boolean(false));
    }
}

/// The attributes of every response.
const COMMON: &[Attribute] = &[Attribute::word("rc"), Attribute::word("errmsg").optional()];

const RESPONSE: &[u8] = b"-response";

/// The version answered to every client of PMI-2.
pub(crate) const VERSION: u32 = 2;

/// The subversion of PMI-2; there is no other.
pub(crate) const SUBVERSION: u32 = 0;
