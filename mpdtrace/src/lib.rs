//! Consoles of the ring: `mpdtrace` and its siblings.
//!
//! Each tool is a short file in `src/tools` that says what is asked and what is shown. What they
//! share is here: their options, the questions and answers, and everything that makes text of an
//! answer. Text is made by pure functions; descriptors are touched in `tool`, `ask`, `live`, `remote`
//! and the gathering half of `check`.

pub mod ask;
pub mod check;
pub mod checked;
pub mod cleanup;
pub mod cli;
pub mod hosts;
pub mod jobs;
pub mod live;
pub mod lookup;
pub mod member;
pub mod ping;
pub mod programs;
pub mod remote;
pub mod render;
pub mod signal;
pub mod svg;
pub mod tool;
pub mod top;
pub mod verify;
pub mod watch;

include!("names.rs");

#[cfg(test)]
mod samples;
