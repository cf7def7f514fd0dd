//! The boot of a ring: what `mpdboot` and its agents share.
//!
//! `mpdboot` starts the daemon of its host, and remote shells to the others. At the far end of each remote shell an
//! agent starts the daemon of that host, and the daemons of further hosts. Both drive the machine of [`boot`] with
//! a [`drive::Driver`], and understand each other by [`wire`].
//!
//! The decisions are pure: [`boot`], [`command`], [`failure`], `plan`. The other modules own the descriptors.

pub mod agent;
pub mod boot;
pub mod child;
pub mod command;
pub mod daemon;
pub mod drive;
pub mod failure;
pub mod keep;
pub mod key;
mod plan;
pub mod wire;
