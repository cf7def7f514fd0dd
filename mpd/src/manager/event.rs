//! What the owners report, and what they hand over to each other.

use std::os::fd::OwnedFd;

use mpd_clients::Client;
pub(super) use mpd_manager::{Event, ForLinks, Mark};
use mpd_wire::Rank;

use super::pmi_socket::PmiSocket;
use super::stdio::pipes::Pipes;

/// Descriptors that pass from one owner to another. They keep their place among the events.
#[derive(Debug)]
pub(super) enum Descriptors {
    /// The pipes of a started rank, for `stdio`.
    Pipes(Rank, Box<Pipes>),
    /// The manager's end of a PMI connection, for `pmi`.
    Pmi(Rank, Client, PmiSocket),
    /// The connection of a manager of the job and its hello, for `links`.
    Link(OwnedFd, Vec<u8>),
}
