//! The manager process: one job on one host. One loop; [`mpd_manager`] decides about the job and routes between the owners,
//! [`mpd_clients`] decides about the clients of PMI and PMIx, and [`mpd_ending`] about signals, the kill and the clean-up.
//!
//! | owner | owns |
//! |---|---|
//! | [`upstream`] | the connections to console and daemon |
//! | [`links`] | the links of the job tree, programs on their way to other hosts |
//! | [`ranks`] | the processes of the ranks: start, signals, ends |
//! | [`stdio`] | the ranks' pipes, the outputs, both directions through the job tree |
//! | [`pmi`] | the connections of the ranks' PMI and PMIx clients |
//! | [`ending`] | signals that end ranks, stops, the kill, the clean-up |
//!
//! [`process`] has the owners. Each turn marks the ready descriptors. Then the owners have their turns in the order
//! of [`stages`], with the [`context`] that the loop lends to them. They report [`event`]s to the node of `mpd-manager`, which
//! routes them. [`deliver`] has each output of the node performed by one owner. [`means`] and [`begin`] make all of this;
//! [`parent`] waits for the specification. [`host_facts`] and [`queues`] have facts that are lent to the node, and [`pmi_socket`] is the end of a
//! rank's PMI connection.

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
mod queues;
mod ranks;
mod stages;
mod stdio;
mod tokens;
mod upstream;

pub(crate) use self::begin::inherit as run;
pub(crate) use self::fork_server::{COPY, GROUP, MANAGER, run as run_fork_server};
