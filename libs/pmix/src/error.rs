//! Errors in the bytes of a client. Their texts are for a manager's log.

use crate::encoding::DataType;
use crate::limits::{MAX_DEPTH, MAX_GROUPS, MAX_ITEMS, MAX_MESSAGE, MAX_OPEN, MAX_RANK_BYTES};

/// The bytes are not the encoding of the expected data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within a datum.
    #[error("the message ends too early")]
    Truncated,
    /// Bytes follow the last datum.
    #[error("{0} bytes follow the last field")]
    Trailing(usize),
    /// A pack has another number of data than the protocol requires here.
    #[error("a field has {0} data instead of {1}")]
    Count(i32, usize),
    /// A length or a number of elements is impossible.
    #[error("a length of {0} is not possible")]
    Length(i64),
    /// A number is too large for its type.
    #[error("a number does not fit {0}")]
    Overflow(DataType),
    /// The type is unknown, or has no encoding.
    #[error("data of type {0} cannot be decoded")]
    Type(DataType),
    /// A tag before a number names another type.
    #[error("a number is tagged as {found}, not as {expected}")]
    Tag { found: DataType, expected: DataType },
    /// A string does not end with a zero byte.
    #[error("a string has no terminating zero")]
    NotTerminated,
    /// The nesting is too deep.
    #[error("data are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// The message has too many data.
    #[error("a message holds more than {MAX_ITEMS} data")]
    TooMany,
    /// A field has a type that the protocol does not allow here.
    #[error("{0} has an unexpected form")]
    Form(&'static str),
}

/// An error in a message or the stream of a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The connect message cannot be read.
    #[error("the connect message is not one of PMIx: {0}")]
    Handshake(&'static str),
    /// The header of a message announces a payload that is too long.
    #[error("a message of {0} bytes, at most {MAX_MESSAGE} are allowed")]
    TooLong(u32),
    /// The command is not in the table.
    #[error("unknown command {0}")]
    UnknownCommand(u8),
    /// The request cannot be read.
    #[error("{command}: {field}: {error}")]
    BadRequest {
        command: &'static str,
        field: &'static str,
        /// The error of the field.
        error: DecodeError,
    },
    /// The request can be read, but it is not allowed.
    #[error("{command}: {problem}")]
    Refused {
        command: &'static str,
        /// The reason of the refusal.
        problem: &'static str,
    },
    /// Too many requests are open.
    #[error("more than {MAX_OPEN} requests are open")]
    TooManyOpen,
    /// Too many groups are constructed.
    #[error("more than {MAX_GROUPS} groups are constructed")]
    TooManyGroups,
    /// The groups take more than what is left of the rank's budget.
    #[error("the groups of a rank take more than the {MAX_RANK_BYTES} bytes that are kept for it")]
    GroupsTooLarge,
    /// The client does not read its replies.
    #[error("the client does not read its replies")]
    NotReading,
    /// The stream ended within a message.
    #[error("the stream ended within a message, after {0} bytes of it")]
    Partial(usize),
}
