//! Standard output and input of a job: whole lines out, bounded bytes in.
//!
//! [`line_splitter`] decides where lines end, and [`mod@format`] puts labels before them. [`merge`] joins
//! equal lines. [`write_admission`] lets only one rank at a time be in the middle of a line. In the job tree,
//! [`uplink`] sends a stream to the parent manager, and [`inflow`] holds a stream of a child.
//! [`record`] encodes both. [`relay`] holds the bytes from and to a pseudo-terminal. [`feed`] deals standard input to its receivers, and [`input`] encodes
//! it. These modules read and write no descriptors.
//!
//! **Users.** The manager process in `mpd`, `mpirun`, the links between managers in `mpd-job`, and
//! the owner of a terminal in `mpd-io`.
//!
//! **Must not know.** Descriptors, processes, and the machines that decide when a job ends.
#![forbid(unsafe_code)]

pub mod feed;
pub mod format;
pub mod hostlabel;
pub mod inflow;
pub mod input;
pub mod line_splitter;
pub mod merge;
pub mod record;
pub mod relay;
pub mod uplink;
pub mod write_admission;

#[cfg(test)]
mod tests;
