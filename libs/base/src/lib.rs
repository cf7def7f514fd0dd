//! Names of jobs, ranks and daemons, records of members, and encodings with bounds.
//!
//! **Purpose.** The words of which all messages of the suite consist. `mpd-wire` gives them to the other crates under
//! its own name.
//!
//! **Users.** `mpd-wire` alone.
//!
//! **Must not know.** Messages, frames and jobs.
#![forbid(unsafe_code)]

pub mod binary;
pub mod bounded;
pub mod digest;
pub mod hex;
mod id;
mod member;
mod plain;
mod rankset;

pub use id::{ConsoleId, InvalidJobId, JobId, Pid, Rank, console_of};
pub use member::{
    Address, DaemonName, Instance, InvalidWord, MAX_ADDRESS, MAX_ADDRESSES, MAX_DAEMON_NAME,
    MAX_MEMBERS, Newcomer, Record, Seat, Standing, is_daemon_name,
};
pub use plain::{is_plain, one_line};
pub use rankset::{InvalidRankSet, RankSet};
