//! Consoles of the ring: `mpdtrace` and its siblings.
//!
//! Each tool is a short file in `src/tools`: its request and its output. This library holds the
//! options, the requests, and the functions that turn replies into text. Text is made by pure
//! functions. Only `tool`, `ask`, `farm`, `job_events`, `live`, `export`, `remote`, and the collecting modules of
//! `check` do I/O.

pub mod all_users;
pub mod ask;
pub mod check;
pub mod checked;
pub mod cleanup;
pub mod cli;
pub mod con;
mod connection;
pub mod export;
pub mod farm;
pub mod growth;
pub mod hold;
pub mod hosts;
pub mod job_events;
pub mod job_news;
pub mod jobs;
pub mod live;
pub mod lookup;
pub mod member;
pub mod metrics;
mod own_jobs;
mod owner;
pub mod ping;
pub mod programs;
pub mod remote;
pub mod render;
pub mod serve;
pub mod signal;
pub mod site;
pub mod slots;
mod spawn_tree;
pub mod svg;
mod table;
pub mod tool;
pub mod top;
pub mod verify;
pub mod watch;

include!("names.rs");

#[cfg(test)]
mod samples;
