//! PMI-2, the dialect that frames its messages: `    26cmd=name;key=value;`.
//!
//! A conversation begins with a line, `cmd=init pmi_version=2 …`, and its answer is also a line. Requests of several
//! threads may be open at once. Each response repeats the token of its request.

mod client;
mod content;
mod decoder;
mod message;
mod numbered;
#[cfg(test)]
mod protocol_table;
pub(crate) mod request;
pub(crate) mod response;
mod spawn;

pub use client::{Client, Reply};
pub use content::{Content, Welcome};
pub use decoder::{Decoder, Element};
pub use message::{FrameTooLong, Message};
pub use request::Request;
pub use response::Response;
