//! The ring on a cluster of hosts that are made by `scripts/rig.sh`: real sshd, power cuts, partitions,
//! frozen hosts. Eight hosts unless MPD_RIG_HOSTS says otherwise; `scripts/rig-full` runs all with 64.
//!
//! A bound in a test is a multiple of what is promised; what was measured is printed. Without root or
//! the tools of the rig, the tests say so and pass.

mod boot;
mod healing;
mod mistakes;
mod random;
mod rig;
