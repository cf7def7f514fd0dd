//! The ring, and jobs on it, on a cluster of hosts made by `scripts/rig.sh`: real sshd, power cuts, partitions
//! and frozen hosts. MPD_RIG_HOSTS sets the number of hosts (default 8) and MPD_RIG_ENTRY the number of the host
//! of `mpdboot` (default 1). Host numbers in faults count from that host. With MPD_RIG_KILL_FIRST=1 the daemon of
//! that host is killed before the steps of a test. `scripts/rig-full` runs the tests of the ring with 64 hosts,
//! `scripts/rig-jobs` the tests of jobs, `scripts/rig-spawns` the tests of spawns.
//!
//! A bound in a test is a multiple of the promise, and the test prints the measured time. Without root or the
//! tools of the rig, the tests print a note and pass.

mod allocations;
mod boot;
mod chaos;
mod containers;
mod debug;
mod demand;
#[path = "../e2e/event_lines.rs"]
mod event_lines;
mod events;
mod farm;
mod faults;
mod healing;
mod hosts;
mod jobs;
mod loads;
mod matrix;
mod mistakes;
mod mpi;
mod names;
mod open_mpi;
#[expect(dead_code, reason = "written for the tests on one host; the rig uses a part")]
#[path = "../e2e/process.rs"]
mod process;
mod random;
mod rig;
#[expect(
    dead_code,
    unused_imports,
    reason = "of the tests on one host; not all of it is needed here"
)]
#[path = "../e2e/run.rs"]
mod run;
mod site;
mod spawn_faults;
mod spawns;
mod streams;
mod two;
