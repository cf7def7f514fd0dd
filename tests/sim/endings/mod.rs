//! The machine that ends the processes of a job, on one simulated host.
//!
//! `crate::kernel` has the processes, which fork, make files and exit, and the files of `/dev/shm`. `host` answers the
//! machine's questions by the kernel, runs its helper, and checks invariants. `sweep` runs random orders of events.

mod host;
mod sweep;
