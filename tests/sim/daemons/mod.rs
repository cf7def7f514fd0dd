//! Whole nodes of daemons on simulated hosts, with consoles, managers and disks.
//!
//! The world, its hosts and its network are those of the rings; `process` beside them has the process around a node.
//! `schedule` has one random schedule of requests and faults, with its checks; `sweep` runs many.

mod schedule;
mod sweep;

pub(crate) use self::schedule::{after_calm, allocate};
