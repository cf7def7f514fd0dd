//! The allocators of all daemons of a ring, on simulated hosts with owners that request slots.
//!
//! `world` has the hosts, the owners and the network; `faults` decides what happens to them; `sweep` runs random schedules.

mod faults;
mod sweep;
mod world;
