//! The whole suite on simulated hosts: daemons, managers, ranks and consoles, with one kernel for each host.
//!
//! The hosts, the ring's network and the clock are those of `crate::world`, and the daemons are whole nodes. The consoles are
//! the machine of `mpirun`.
//!
//! | module | has |
//! |---|---|
//! | `suite` | everything, and its events |
//! | `daemons` | the jobs of the daemons: submissions, managers that start, die and register |
//! | `consoles` | consoles, which submit jobs |
//! | `manager`, `machines`, `lent`, `links` | a manager: its turns, its node with the owners around it, what is lent to the node, its job links |
//! | `output` | the pipes of ranks, and the terminals of consoles |
//! | `network` | the job links between hosts |
//! | `programs` | the scripts of ranks |
//! | `faults` | faults, and what they change |
//! | `facts`, `reference` | what has happened, and the end of a job that follows from it |
//! | `schedule`, `sweep` | random schedules, their checks, and the smallest one that fails |

mod consoles;
mod daemons;
mod facts;
mod faults;
mod lent;
mod links;
mod machines;
mod manager;
mod network;
mod output;
mod programs;
mod reference;
mod schedule;
mod suite;
mod sweep;
#[path = "../../../libs/manager/tests/willing/mod.rs"]
mod willing;
