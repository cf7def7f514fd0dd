//! Standard output and input of a job: whole lines out, bounded bytes in.
//!
//! [`leaf`] decides where lines end; [`mod@format`] puts labels in front of them; [`merge`] joins equal
//! lines; [`gate`] lets only one rank at a time be in the middle of a line. In the job tree, [`uplink`]
//! sends a stream to the manager above, [`inflow`] holds what came from one below, [`record`] is how it
//! travels. [`feed`] deals standard input to its receivers, [`input`] is how that travels. None of them reads
//! or writes.
//!
//! **Users.** The manager process in `mpd`, `mpirun`, and the links between managers in `mpd-job`.
//!
//! **Must not know.** Descriptors, processes, and the machines that decide when a job ends.
#![forbid(unsafe_code)]

pub mod feed;
pub mod format;
pub mod gate;
pub mod hostlabel;
pub mod inflow;
pub mod input;
pub mod leaf;
pub mod merge;
pub mod record;
pub mod uplink;

#[cfg(test)]
mod tests;
