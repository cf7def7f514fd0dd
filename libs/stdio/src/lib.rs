//! Standard output and input of a job: whole lines out, bounded bytes in.
//!
//! | module | subject |
//! |---|---|
//! | [`line_splitter`] | the ends of lines |
//! | [`silence`] | when a line is over although its end did not come |
//! | [`mod@format`], [`hostlabel`] | the labels before lines, and the names of hosts in them |
//! | [`merge`] | joins equal lines |
//! | [`write_admission`] | lets only one rank at a time be in the middle of a line |
//! | [`uplink`] | a stream to the parent manager of the job tree |
//! | [`inflow`] | a stream of a child in the job tree |
//! | [`record`] | the encoding of both |
//! | [`relay`] | the bytes from and to a pseudo-terminal |
//! | [`feed`] | standard input, distributed to its receivers |
//! | [`input`] | the encoding of standard input |
//!
//! These modules read and write no descriptors.
//!
//! **Users.** The manager process in `mpd`, `mpirun`, `mpd-daemon`, the
//! driver of a debugger in `mpd-debug`, and the owner of a terminal in `mpd-io`.
//!
//! **Must not know.** Descriptors, processes, and the machines that decide when a job ends.
#![forbid(unsafe_code)]

pub mod feed;
pub mod format;
pub mod hostlabel;
pub mod inflow;
pub mod input;
pub mod line_splitter;
pub mod machine;
pub mod merge;
pub mod record;
pub mod relay;
pub mod silence;
pub mod uplink;
pub mod write_admission;

#[cfg(test)]
mod tests;
