//! The errors of a client.

use std::io;

use pmi_proto::limits::MAX_PORT;

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable of the process manager has an invalid value.
    #[error("{name}={value} in the environment is invalid")]
    Variable {
        /// The name of the variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The descriptor of `PMI_FD` is not open.
    #[error("descriptor {fd} of PMI_FD cannot be used")]
    Descriptor {
        /// The number of the descriptor.
        fd: i32,
        /// The error of the system.
        source: io::Error,
    },
    /// The address of `PMI_PORT` cannot be reached.
    #[error("cannot connect to the process manager at {address}")]
    Connect {
        /// The address, as `host:port`.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to the process manager failed")]
    Io(#[from] io::Error),
    /// The process manager closed the connection.
    #[error("the process manager closed the connection")]
    Closed,
    /// The answer of the process manager is not one that the protocol has for this request.
    #[error("the process manager's answer to {request} is invalid: {answer}")]
    NotUnderstood {
        /// The command of the request.
        request: &'static str,
        /// The answer.
        answer: String,
    },
    /// The process manager refused the request.
    #[error("{request} refused: {message} ({rc})")]
    Refused {
        /// The command of the request.
        request: &'static str,
        /// The code of the answer. It is not 0.
        rc: i32,
        /// The reason, which is usually one word.
        message: String,
    },
    /// The key is empty, or has characters that the protocol cannot carry.
    #[error("the key is empty, or has blanks or line ends")]
    InvalidKey,
    /// The key is longer than the process manager takes.
    #[error("a key of {0} bytes is too long")]
    KeyTooLong(usize),
    /// The value has characters that the protocol cannot carry.
    #[error("the value has line ends")]
    InvalidValue,
    /// The value is longer than the process manager takes.
    #[error("a value of {0} bytes is too long")]
    ValueTooLong(usize),
    /// The port is longer than the buffer of MPI programs for a port.
    #[error("a port of {0} bytes is too long: at most {longest} are allowed", longest = MAX_PORT - 1)]
    PortTooLong(usize),
    /// A name, port, program or argument is empty, or has characters that the protocol cannot carry.
    #[error("the text is empty, or has line ends")]
    InvalidText,
    /// This process manager, or this version of PMI, does not have the function.
    #[error("{0} is not supported here")]
    Unsupported(&'static str),
}
