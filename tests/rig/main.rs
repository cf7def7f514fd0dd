//! The ring, and jobs on it, on a cluster of hosts that are made by `scripts/rig.sh`: real sshd, power cuts,
//! partitions, frozen hosts. Eight hosts unless MPD_RIG_HOSTS says otherwise, booted from the first one unless
//! MPD_RIG_ENTRY gives the number of another; whom the tests hurt counts from there. With
//! MPD_RIG_KILL_FIRST=1 the daemon of that host is killed before the lines of a test. `scripts/rig-full` runs
//! the ring's part with 64 hosts, `scripts/rig-jobs` that of jobs, `scripts/rig-spawns` that of processes that spawn.
//!
//! A bound in a test is a multiple of what is promised; what was measured is printed. Without root or
//! the tools of the rig, the tests say so and pass.

mod boot;
mod chaos;
mod debug;
mod demand;
mod faults;
mod healing;
mod hosts;
mod jobs;
mod matrix;
mod mistakes;
mod mpi;
mod names;
#[expect(dead_code, reason = "of the tests on one host; not all of it is needed here")]
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
mod spawn_faults;
mod spawns;
mod streams;
mod two;
