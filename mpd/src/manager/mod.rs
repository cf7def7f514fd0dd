//! The manager process: one job on one host. One loop. Crates decide: [`mpd_job`] about the job, [`mpd_clients`] about PMI and
//! PMIx, [`mpd_ranks`] about processes, [`mpd_stdio`] about output and input, and [`mpd_ending`] about the end. The node of
//! [`mpd_manager`] routes between them, and has the machines of the job, of the processes and of their end.
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
//! routes them. [`deliver`] has each output of the node performed by one owner. [`means`] has the resources before the
//! job is known, and [`begin`] makes the owners and the node. [`fork_server`] makes managers in waiting, and
//! [`parent`] waits for the specification. [`host_facts`] and [`lent`] have facts that are lent to the node, and [`pmi_socket`] is the end of a
//! rank's PMI connection.

mod begin;
mod context;
mod deliver;
mod ending;
mod event;
mod fork_server;
mod host_facts;
mod lent;
mod links;
mod means;
mod parent;
mod pmi;
mod pmi_socket;
mod process;
mod ranks;
mod stages;
mod stdio;
mod tokens;
mod upstream;

pub(crate) use self::begin::inherit as run;
pub(crate) use self::fork_server::{COPY, GROUP, MANAGER, run as run_fork_server};
