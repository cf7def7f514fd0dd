//! The ring machine of the daemons on simulated hosts.
//!
//! `sweep` runs random fault schedules (`schedule`) and replays one by its seed. `rules` has one scenario for each rule of the
//! ring, and `mass` has large rings. `world`, `hosts` and `network` are the hosts and the network between them, `checks` and
//! `names` the invariants. `jobs` does the same with the managers of a job, `allocations` with requests for slots, and
//! `daemons` with whole nodes of daemons. `endings` does it with the processes of a job on one host. `whole` has all of them
//! together: daemons, managers, ranks that print, spawn and connect, and consoles. `recordings` replays recordings of simulated
//! machines. `kernel` is the kernel of a host, `kernel_check` compares it with the real one, `dialect` what ranks say.
//! scripts/sim and scripts/replay run these tests.

mod allocations;
mod checks;
mod daemon;
mod daemons;
mod dialect;
mod endings;
mod host_facts;
mod hosts;
mod jobs;
mod kernel;
mod kernel_check;
mod managers;
mod mass;
mod names;
mod network;
mod process;
mod recordings;
mod rules;
mod schedule;
mod sweep;
mod trace;
mod whole;
mod world;
