//! Errors in a client's line or message, and errors of a put.
//!
//! The texts are for a manager's log. The client gets one word, [`ProtocolError::msg`]. The session decides which
//! errors are fatal.

use crate::limits::{MAX_EXCERPT, MAX_FRAME, MAX_KEY, MAX_LINE, MAX_PORT, MAX_VALUE};

/// A client's line, message or stream does not follow the protocol.
///
/// Texts taken from the client are bounded and printable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The line names no command.
    #[error("line does not begin with a command: {line}")]
    NoCommand {
        /// The beginning of the line.
        line: String,
    },
    /// The command is not in the table.
    #[error("unknown command {name}")]
    UnknownCommand {
        /// The command as the client wrote it.
        name: String,
    },
    /// A part of the line is not `key=value`.
    #[error("{command}: {word} is not key=value")]
    NotAPair {
        /// The command of the line.
        command: &'static str,
        /// The invalid part.
        word: String,
    },
    /// A required attribute of the command is missing.
    #[error("{command}: {attribute}= is missing")]
    MissingAttribute {
        /// The command of the line.
        command: &'static str,
        /// The missing attribute.
        attribute: &'static str,
    },
    /// The value of a numeric attribute is no number, or is out of range.
    #[error("{command}: {attribute}={value} is not a usable number")]
    BadNumber {
        /// The command of the line.
        command: &'static str,
        attribute: &'static str,
        value: String,
    },
    /// The client asked for another PMI version than 1 and 2, or changed the version while answers are outstanding.
    #[error("client requests PMI {version}, which is not supported now")]
    UnsupportedVersion {
        /// The version asked for.
        version: u32,
    },
    /// The client introduced itself with another rank than the one of this session.
    #[error("client claims to be rank {pmiid}")]
    WrongRank {
        /// The rank that it named.
        pmiid: u32,
    },
    /// The command is allowed only after `init`.
    #[error("{command} outside of init and finalize")]
    NotInitialized {
        /// The command of the line.
        command: &'static str,
    },
    /// The command names a KVS that is not the job's own.
    #[error("{command}: {kvsname} is not the KVS of this job")]
    ForeignKvs {
        /// The command of the line.
        command: &'static str,
        /// The name given.
        kvsname: String,
    },
    /// The key is empty.
    #[error("{command}: empty key")]
    EmptyKey {
        /// The command of the line.
        command: &'static str,
    },
    /// The key is longer than advertised.
    #[error("{command}: key of {length} bytes, at most {} are allowed", MAX_KEY - 1)]
    KeyTooLong {
        /// The command of the line.
        command: &'static str,
        /// Length of the key in bytes.
        length: usize,
    },
    /// The value is longer than advertised.
    #[error("{command}: value of {length} bytes, at most {} are allowed", MAX_VALUE - 1)]
    ValueTooLong {
        /// The command of the line.
        command: &'static str,
        /// Length of the value in bytes.
        length: usize,
    },
    /// The port of a name is longer than the room that MPI programs provide for one.
    #[error(
        "{command}: a port of {length} bytes, at most {} are allowed, which MPI programs have room for; names of \
         MPICH are short with MPIR_CVAR_CH4_NETMOD=ofi",
        MAX_PORT - 1
    )]
    PortTooLong {
        /// The command of the line.
        command: &'static str,
        /// Length of the port in bytes.
        length: usize,
    },
    /// A spawn is larger than [`MAX_SPAWN_BYTES`](crate::limits::MAX_SPAWN_BYTES), or has more than
    /// [`MAX_SPAWN_LINES`](crate::limits::MAX_SPAWN_LINES).
    #[error("spawn: more arguments and hints than are allowed")]
    SpawnTooLarge,
    /// A client has more requests open than [`MAX_OPEN`](crate::limits::MAX_OPEN), or waits in more barriers
    /// than [`MAX_BARRIERS`](crate::limits::MAX_BARRIERS).
    #[error("{command}: too many requests are open")]
    TooManyOpen {
        /// The command of the message.
        command: &'static str,
    },
    /// The client is in a fence, a ring, or a barrier.
    #[error("{command}: the rank is in a fence already")]
    InFence {
        /// The command of the message.
        command: &'static str,
    },
    /// The text of a barrier's group is invalid, or this client may not name that group.
    #[error("barrier_in: {group} is no group of the world with this rank in it")]
    BadGroup {
        /// The beginning of the group.
        group: String,
    },
    /// A client put a key that only the process manager may set.
    #[error("put: key {key} is reserved")]
    ReservedKey { key: String },
    /// The header of a PMI-2 message is no length, or one beyond [`MAX_FRAME`].
    #[error("{header} is no length of a message, or one beyond {MAX_FRAME} bytes")]
    BadFrame {
        /// The six characters.
        header: String,
    },
    /// The line of a command is longer than [`MAX_LINE`].
    #[error("{command}: line of more than {MAX_LINE} bytes")]
    CommandTooLong { command: &'static str },
    /// The line is longer than [`MAX_LINE`], and has no command that could be refused.
    #[error("line of more than {MAX_LINE} bytes")]
    LineTooLong,
    /// The client sent far more than its one request without waiting for the answer.
    #[error("client keeps sending without waiting for answers")]
    TooMuchPending,
    /// The stream ended within a line or message.
    #[error("stream ended within a line or message, after {length} bytes of it")]
    PartialLine {
        /// How many bytes of it had arrived.
        length: usize,
    },
    /// The stream ended between `mcmd=` and `endcmd`.
    #[error("stream ended within a block")]
    UnfinishedBlock,
}

impl ProtocolError {
    /// The word that the client gets as `msg=`.
    pub fn msg(&self) -> &'static str {
        match self {
            Self::NoCommand { .. } => "no_command",
            Self::UnknownCommand { .. } => "unknown_command",
            Self::NotAPair { .. } => "malformed_line",
            Self::MissingAttribute { .. } => "missing_attribute",
            Self::BadNumber { .. } => "bad_number",
            Self::UnsupportedVersion { .. } => "unsupported_version",
            Self::WrongRank { .. } => "wrong_rank",
            Self::BadGroup { .. } => "bad_group",
            Self::NotInitialized { .. } => "not_initialized",
            Self::ForeignKvs { .. } => "unknown_kvsname",
            Self::EmptyKey { .. } => "empty_key",
            Self::KeyTooLong { .. } => "key_too_long",
            Self::ValueTooLong { .. } => "value_too_long",
            Self::PortTooLong { .. } => "port_too_long",
            Self::SpawnTooLarge => "spawn_too_large",
            Self::TooManyOpen { .. } => "too_many_requests",
            Self::InFence { .. } => "already_in_fence",
            Self::ReservedKey { .. } => "reserved_key",
            Self::BadFrame { .. } => "bad_frame",
            Self::CommandTooLong { .. } | Self::LineTooLong => "line_too_long",
            Self::TooMuchPending => "too_much_pending",
            Self::PartialLine { .. } => "partial_line",
            Self::UnfinishedBlock => "unfinished_block",
        }
    }

    /// The command of the line, if it named one.
    pub(crate) fn command(&self) -> Option<&str> {
        match self {
            Self::UnknownCommand { name } => Some(name),
            Self::NotAPair { command, .. }
            | Self::MissingAttribute { command, .. }
            | Self::BadNumber { command, .. }
            | Self::NotInitialized { command }
            | Self::ForeignKvs { command, .. }
            | Self::EmptyKey { command }
            | Self::KeyTooLong { command, .. }
            | Self::ValueTooLong { command, .. }
            | Self::PortTooLong { command, .. }
            | Self::CommandTooLong { command }
            | Self::TooManyOpen { command }
            | Self::InFence { command } => Some(command),
            Self::UnsupportedVersion { .. } => Some("init"),
            Self::WrongRank { .. } => Some("initack"),
            Self::BadGroup { .. } => Some("barrier_in"),
            Self::ReservedKey { .. } => Some("put"),
            Self::SpawnTooLarge => Some("spawn"),
            Self::NoCommand { .. }
            | Self::BadFrame { .. }
            | Self::LineTooLong
            | Self::TooMuchPending
            | Self::PartialLine { .. }
            | Self::UnfinishedBlock => None,
        }
    }
}

/// The server's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Never 0.
    pub rc: i32,
    /// One word of explanation.
    pub msg: Vec<u8>,
}

impl Refusal {
    pub(crate) fn new(rc: i32, msg: impl Into<Vec<u8>>) -> Self {
        Self { rc, msg: msg.into() }
    }
}

/// The reason why a [`Kvs`](crate::Kvs) or [`NodeAttributes`](crate::NodeAttributes) did not store a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The limit of the store would be passed, such as [`MAX_KVS_BYTES`](crate::limits::MAX_KVS_BYTES).
    #[error("the KVS of the job is full")]
    Full,
}

impl PutError {
    /// The word that the client gets as `msg=`.
    pub(crate) fn msg(self) -> &'static str {
        match self {
            Self::Full => "kvs_full",
        }
    }
}

/// A client's bytes, changed to fit a log line or one word of a reply: printable ASCII without spaces, at most
/// [`MAX_EXCERPT`] bytes.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take(MAX_EXCERPT)
        .map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_short_printable_word() {
        assert_eq!(excerpt(b"a b\r\x00\xff=c"), "a_b___=c");
        assert_eq!(excerpt(&[b'x'; 500]).len(), MAX_EXCERPT);
    }

    #[test]
    fn errors_read_as_sentences_for_the_log() {
        let error = ProtocolError::MissingAttribute { command: "put", attribute: "key" };
        assert_eq!(error.to_string(), "put: key= is missing");
        let error = ProtocolError::KeyTooLong { command: "get", length: 70 };
        assert_eq!(error.to_string(), "get: key of 70 bytes, at most 63 are allowed");
        assert_eq!(ProtocolError::LineTooLong.to_string(), "line of more than 65536 bytes");
    }
}
