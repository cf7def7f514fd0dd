//! The decisions of a daemon as one node.
//!
//! **Purpose.** A [`Node`] has the table of jobs, the machine of the ring, and all that decides around them. These are
//! requests of consoles and managers, orders of other members, slots, published names, the events of jobs, entering and leaving.
//! The process calls [`Node::handle`] with each event and [`Node::turn`] at each deadline. It performs the outputs of
//! [`Node::poll_output`] and [`Node::poll_turn`] in their order. The simulators do the same.
//!
//! A daemon for one job and one host has a node too, but no [`Member`]. It opens no port and reads no key. It arms no timer
//! of a ring, and writes no state.
//!
//! **Users.** The daemon (`mpd/src/daemon`), and the simulators of daemons and of the whole suite.
//!
//! **Must not know.** Descriptors, files, processes and clocks. Answers of the kernel come as [`Facts`], with an input, or by
//! [`Kernel`].
#![forbid(unsafe_code)]

mod address;
mod allocations;
mod alone;
mod connection;
mod consoles;
mod demand;
mod draining;
mod effect;
mod followers;
mod guests;
mod hosts;
mod input;
mod journal;
mod keep;
mod kept_events;
mod launch;
mod lease;
mod loads;
mod local_names;
mod meetings;
mod member;
mod names;
mod node;
mod orders;
mod outcome;
mod output;
mod pages;
mod placement;
mod request;
mod saved;
mod spawns;
mod stay;
#[cfg(test)]
mod tests;
mod view;

pub use address::Foreign;
pub use allocations::{HookEnd, SlotsImage};
pub use connection::{Connection, Handed, Taken, Way, most_consoles, most_unread};
pub use guests::check_guest;
pub use input::{Input, RingEvent, Submitted};
pub use lease::{First, LeaseTerms};
pub use member::{Facts, Member, Membership};
pub use node::{At, Kernel, Node};
pub use output::{HookId, Output, RingAction};
pub use saved::{Before, RingImage, Saved};
pub use stay::Entrance;
pub use view::{RingIdentity, not_pingable};
