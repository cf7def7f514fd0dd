//! The node of a manager: one job on one host, as far as no descriptor is concerned.
//!
//! **Purpose.** A [`Node`] has five machines and the reports to console and daemon. The machines are those of the job
//! ([`mpd_job::manager`]), of the clients ([`mpd_clients`]), of output and input ([`mpd_stdio`]), of the processes here
//! ([`mpd_ranks`]) and of their end ([`mpd_ending`]).
//! It routes what the owners of descriptors report ([`Event`]): to the machines, to the reports, and to other owners
//! ([`Output`]). An output is complete: its owner performs it without a further decision about other owners.
//!
//! **Users.** The manager (`mpd/src/manager/`), which has the owners, and the simulator of the whole suite.
//!
//! **Must not know.** Descriptors, files, processes, clocks. The lengths of queues are lent to each call ([`Facts`]).
//! Bytes are read into and written from the machines of clients and output. So these are lent to their owners, which give them
//! the bytes ([`Lending`]).
//!
//! # The order
//!
//! Events go before the machine's next output. [`Node::next`] returns the outputs of the last event first. Then it takes the
//! next event, in the order of reports. Only without events does it take an output of the machine, and only without outputs
//! does the machine take its next input. What the machines of processes and of their end want goes before all that: a question is
//! answered, and an action is performed, before anything else happens. So an owner performs nothing while something is unreported that happened before.
//!
//! | module | has |
//! |---|---|
//! | `node` | the node, its queues, its order |
//! | `event`, `output`, `news` | what owners report, what they perform, what job links report |
//! | `facts`, `lending`, `turn` | what is lent to the node, and by the node; the context of a call |
//! | `routes` | the ways of events, of the machine's outputs, of orders, of messages of the job tree |
//! | `upstream` | reports to console and daemon: start, ends, processes, timeline |
//! | `spawning` | orders of spawns and growth |
#![forbid(unsafe_code)]

mod event;
mod facts;
#[cfg(test)]
#[path = "../../clients/tests/clients/fixture.rs"]
mod fixture;
mod lending;
mod news;
mod node;
mod output;
mod routes;
mod spawning;
#[cfg(test)]
mod tests;
mod turn;
mod upstream;
#[cfg(test)]
#[path = "../tests/willing/mod.rs"]
mod willing;

pub use event::{Event, Mark};
pub use facts::Facts;
pub use lending::Lending;
pub use news::News;
pub use node::Node;
pub use output::{ForLinks, Level, Output, Work};
pub use upstream::{Beginning, Sign, Trace};
