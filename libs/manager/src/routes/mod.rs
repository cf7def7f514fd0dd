//! The ways through the node: one match for each kind of thing that arrives.
//!
//! | module | routes |
//! |---|---|
//! | [`of_clients`] | outputs of the machine of the clients |
//! | [`of_console`] | messages of the console, orders of the daemon and of users |
//! | [`of_ending`] | outputs of the machine of the end |
//! | [`of_job`] | outputs of the job's machine |
//! | [`of_links`] | messages of the job tree, and the ends of links |
//! | [`of_owners`] | events of the owners |
//! | [`of_ranks`] | outputs of the machine of the ranks |
//! | [`of_stdio`] | outputs of the machine of output and input |

mod of_clients;
mod of_console;
mod of_ending;
mod of_job;
mod of_links;
mod of_owners;
mod of_ranks;
mod of_stdio;
