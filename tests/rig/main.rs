//! The ring on a cluster of hosts that are made by `scripts/rig.sh`: real sshd, power cuts, partitions,
//! frozen hosts. Eight hosts unless MPD_RIG_HOSTS says otherwise, booted from the first one unless
//! MPD_RIG_ENTRY gives the number of another; whom the tests hurt counts from there. With
//! MPD_RIG_KILL_FIRST=1 the daemon of that host is killed before the lines of a test. `scripts/rig-full` runs
//! all of this with 64 hosts.
//!
//! A bound in a test is a multiple of what is promised; what was measured is printed. Without root or
//! the tools of the rig, the tests say so and pass.

mod boot;
mod demand;
mod healing;
mod mistakes;
mod random;
mod rig;
