//! `mpirun -d`: the terminal's part of the parallel debugger. What is decided is decided by
//! [`mpd_proto::debug::front::Front`]; here are the options, the user's terminal or files, and the pipes on which the
//! job's lines come, instead of our own output.

mod desk;
mod editor;
mod lines;
mod plain;
mod terminal;
mod wish;

pub(crate) use desk::{Desk, Order};
pub use wish::Wish;
pub(crate) use wish::is_own;

/// What the program is called where it is the debugger.
pub(crate) const NAME: &str = "mpigdb";

/// What it stands for.
pub(crate) const MEANS: [&str; 1] = ["-d"];
