//! The manager process: one job on one host. One loop; [`mpd_job::manager`] decides about the job, [`mpd_clients`] about
//! the clients of PMI and PMIx, and [`mpd_ending`] about signals, the kill and the clean-up.
//!
//! | owner | owns |
//! |---|---|
//! | [`upstream`] | the connections to console and daemon, the reports to them |
//! | [`links`] | the links of the job tree, programs on their way to other hosts |
//! | [`ranks`] | the processes of the ranks: start, signals, ends |
//! | [`stdio`] | the ranks' pipes, the outputs, both directions through the job tree |
//! | [`pmi`] | the connections of the ranks' PMI and PMIx clients |
//! | [`ending`] | signals that end ranks, stops, the kill, the clean-up |
//!
//! [`process`] has the owners. Each turn marks the ready descriptors. Then the owners have their turns in the order
//! of [`stages`], with the [`context`] that the loop lends to them. They report [`event`]s; [`deliver`] routes each
//! event to its owners. [`route`] routes each output of the machine to one owner. [`means`] and [`begin`] make all
//! of this; [`parent`] waits for the specification. [`spawning`] makes the orders of spawns,
//! [`host_facts`] has facts of this host, and [`pmi_socket`] is the end of a rank's PMI connection.

mod begin;
mod context;
mod deliver;
mod ending;
mod event;
#[cfg(test)]
mod fixture;
mod fork_server;
mod host_facts;
mod links;
mod means;
mod parent;
mod pmi;
mod pmi_socket;
mod process;
mod ranks;
mod route;
mod spawning;
mod stages;
mod stdio;
mod tokens;
mod upstream;

pub(crate) use self::begin::inherit as run;
pub(crate) use self::fork_server::{COPY, GROUP, MANAGER, run as run_fork_server};
