//! The tools as users run them, against a simulated daemon.

mod check;
mod cleanup;
mod events;
mod every_tool;
mod jobs;
mod members;
mod metrics;
mod names;
mod support;
mod top;
mod trace;
