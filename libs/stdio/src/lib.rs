//! Standard output and input of a job: whole lines out, bounded bytes in.
//!
//! [`leaf`] decides where lines end, and [`mod@format`] puts labels before them. [`merge`] joins
//! equal lines. [`gate`] lets only one rank at a time be in the middle of a line. In the job tree,
//! [`uplink`] sends a stream to the parent manager, and [`inflow`] holds a stream of a child.
//! [`record`] encodes both. [`feed`] deals standard input to its receivers, and [`input`] encodes
//! it. These modules read and write no descriptors.
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
