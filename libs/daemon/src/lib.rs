//! The decisions of a daemon as one node.
//!
//! **Purpose.** A [`Node`] has the machine of the ring, and all that decides around it. These are requests of consoles and
//! managers, orders of other members, slots, published names, the events of jobs, entering and leaving. The process
//! calls [`Node::handle`] with each event and [`Node::turn`] at each deadline. It performs the outputs of
//! [`Node::poll_output`] in their order. The simulator does the same.
//!
//! **Users.** The daemon (`mpd/src/daemon`), and the simulator of daemons.
//!
//! **Must not know.** Descriptors, files, processes and clocks. The table of jobs is lent to each call, for reading
//! ([`mpd_jobtable::JobTable`]). Answers of the kernel come as [`Facts`], with a call or with an input.
#![forbid(unsafe_code)]

mod address;
mod allocations;
mod consoles;
mod demand;
mod draining;
mod effect;
mod followers;
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
mod names;
mod node;
mod orders;
mod outcome;
mod output;
mod pages;
mod placement;
mod request;
mod roots;
mod saved;
mod spawns;
mod stay;
#[cfg(test)]
mod tests;
mod throttle;
mod view;

pub use address::Foreign;
pub use allocations::{HookEnd, SlotsImage};
pub use demand::Demand;
pub use input::Input;
pub use launch::{Announcement, TooLarge};
pub use lease::{First, LeaseTerms};
pub use local_names::{LocalNames, NameRequest};
pub use meetings::MeetingRequest;
pub use node::{Facts, Membership, Node, Turn};
pub use output::{HookId, Output};
pub use placement::{Plan, PlanError, adopted_alone, alone};
pub use roots::{NoRoot, by_request, is_unregistered, manager_messages, no_such_job};
pub use saved::{Before, RingImage, Saved};
pub use spawns::{Spawn, answers};
pub use stay::Entrance;
pub use throttle::Throttle;
pub use view::{RingIdentity, not_pingable};
