//! What can go wrong between a client and its process manager.

use std::io;

use pmi_proto::limits::MAX_PORT;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable that leads to the process manager cannot be read.
    #[error("{name}={value} in the environment makes no sense")]
    Variable {
        /// Which.
        name: &'static str,
        /// What it holds.
        value: String,
    },
    /// The descriptor of `PMI_FD` is not open.
    #[error("descriptor {fd} of PMI_FD cannot be used")]
    Descriptor {
        /// Its number.
        fd: i32,
        /// Why.
        source: io::Error,
    },
    /// Nobody answers at `PMI_PORT`.
    #[error("connect to the process manager at {address}")]
    Connect {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("speak to the process manager")]
    Io(#[from] io::Error),
    /// The process manager closed the connection.
    #[error("the process manager is gone")]
    Closed,
    /// The process manager said what no client knows.
    #[error("the process manager's answer to {request} makes no sense: {answer}")]
    NotUnderstood {
        /// What was asked.
        request: &'static str,
        /// What came.
        answer: String,
    },
    /// The process manager said no.
    #[error("{request} refused: {message} ({rc})")]
    Refused {
        /// What was asked.
        request: &'static str,
        /// Never 0.
        rc: i32,
        /// Its reason, in one word as a rule.
        message: String,
    },
    /// The key is empty, or has characters that the protocol cannot carry.
    #[error("an empty key, or one with blanks or line ends")]
    InvalidKey,
    /// The key is longer than the process manager takes.
    #[error("a key of {0} bytes is too long")]
    KeyTooLong(usize),
    /// The value has characters that the protocol cannot carry.
    #[error("a value with line ends")]
    InvalidValue,
    /// The value is longer than the process manager takes.
    #[error("a value of {0} bytes is too long")]
    ValueTooLong(usize),
    /// The port is longer than the room that MPI programs provide for one.
    #[error("a port of {0} bytes is too long: at most {longest} are allowed", longest = MAX_PORT - 1)]
    PortTooLong(usize),
    /// A name, port, program or argument has characters that the protocol cannot carry.
    #[error("an empty text, or one with line ends")]
    InvalidText,
    /// This process manager, or this version of PMI, knows no such thing.
    #[error("{0} is not to be had here")]
    Unsupported(&'static str),
}
