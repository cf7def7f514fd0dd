//! Ids, frames, messages and job specifications of the suite. They are only data.
//!
//! **Purpose.** This crate has the types of all data that two programs of the suite, or two
//! machines of one program, exchange, with encodings and bounds. The same for people is in
//! docs/PROTOCOL.md.
//!
//! **Users.** Every other crate of the suite except `mpd-sansio` and the crates of PMI.
//!
//! **Must not know.** Decisions: the crate of the receiving machine decides what a message causes.
//! Time, descriptors and keys of the channel are unknown here as well.
//!
//! | item | subject |
//! |---|---|
//! | [`JobId`], [`Rank`], [`RankSet`] | names of jobs and ranks |
//! | [`DaemonName`], [`Instance`], [`Address`], [`Record`] | names of daemons, and their records in the ring |
//! | [`names`] | published names, and their keys |
//! | [`frame`] | frames, of which every stream of the suite consists |
//! | [`message`] | the typed messages, one enum per channel and direction |
//! | [`job`] | a job: its specification, its hosts, the end of its ranks, its exit code |
//! | [`bounded`], [`hex`], [`digest`] | encodings that several messages share |
#![forbid(unsafe_code)]

pub mod job;
pub mod message;
pub mod names;
mod stream;

pub use mpd_base::{
    Address, ConsoleId, DaemonName, Instance, InvalidJobId, InvalidRankSet, InvalidWord, JobId,
    MAX_ADDRESS, MAX_ADDRESSES, MAX_DAEMON_NAME, MAX_MEMBERS, Newcomer, Pid, Rank, RankSet, Record,
    Seat, Standing, binary, bounded, console_of, digest, hex, is_daemon_name, is_plain, one_line,
};
pub use mpd_frame as frame;
pub use stream::Stream;
