//! What the job links report.

use mpd_job::manager::LinkEnd;
use mpd_joblink::JobLinkMessage;
use mpd_wire::message::{Down, Up};
use mpd_wire::{DaemonName, Stream};

/// An event of the links; the events of each link are in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The link is open. Earlier messages are on their way now.
    Up(LinkEnd),
    /// From the parent; never a pulse.
    Down(Down),
    /// From the child at this tree index; never a pulse.
    Report(usize, Up),
    /// Records of output from the child at this tree index.
    Output(usize, Stream, Vec<u8>),
    /// Standard input from the parent.
    Stdin(Vec<u8>),
    /// Keys and values.
    Keys(LinkEnd, Vec<u8>),
    /// A piece of the specification.
    Spec(Vec<u8>),
    /// A piece of a program.
    File(Vec<u8>),
    /// A piece of the order of a world.
    World(LinkEnd, Vec<u8>),
    /// A piece of data of PMIx clients.
    Pmix(LinkEnd, Vec<u8>),
    /// The link is lost, or did not come up. This is its last event; later messages to it are dropped.
    Lost {
        /// The lost manager.
        end: LinkEnd,
        host: DaemonName,
        /// The reason, in a form that can follow "host h3 is lost: ".
        problem: String,
        /// Whether the connection was closed. The manager has probably ended.
        closed: bool,
    },
}

impl News {
    /// A message from that neighbour. The machine of a link takes from each side only its own kinds of messages.
    pub fn of(end: LinkEnd, message: JobLinkMessage) -> Option<Self> {
        let tree_index = match end {
            LinkEnd::Parent => None,
            LinkEnd::Child(tree_index) => Some(tree_index),
        };
        Some(match message {
            JobLinkMessage::Down(report) => Self::Down(report),
            JobLinkMessage::Up(report) => Self::Report(tree_index?, report),
            JobLinkMessage::Keys(bytes) => Self::Keys(end, bytes),
            JobLinkMessage::Output(stream, bytes) => Self::Output(tree_index?, stream, bytes),
            JobLinkMessage::Stdin(bytes) => Self::Stdin(bytes),
            JobLinkMessage::Spec(bytes) => Self::Spec(bytes),
            JobLinkMessage::File(bytes) => Self::File(bytes),
            JobLinkMessage::World(bytes) => Self::World(end, bytes),
            JobLinkMessage::Pmix(bytes) => Self::Pmix(end, bytes),
        })
    }
}
