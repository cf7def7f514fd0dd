//! The allocators of all daemons of a ring, on simulated hosts with owners that request slots.
//!
//! `world` has the hosts, the owners and the network; `faults` decides what happens to them; `sweep` runs random
//! schedules; `mass` has a long queue.

mod faults;
mod mass;
mod sweep;
mod world;
