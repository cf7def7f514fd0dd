//! Whole nodes of daemons on simulated hosts, with consoles, managers and disks.
//!
//! `process` is what the node needs of its process. The world, its hosts and its network are those of the rings. `schedule`
//! has one random schedule of requests and faults, with its checks; `sweep` runs many.

pub(crate) mod process;
mod schedule;
mod sweep;
