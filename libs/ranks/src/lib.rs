//! The processes of the ranks of a job on one host: their starts, their shims, and what their ends mean.
//!
//! **Purpose.** [`Ranks`] decides which ranks start next and at which pace, and which reports follow. It decides how a
//! signal reaches a rank, which orders a shim gets, and when helpers look for ranks that run alone. The manager performs each
//! [`Action`] in its order. It answers each [`Question`] before it gives the machine anything else. Other outputs are for the
//! machines and parts beside this one.
//!
//! **Users.** The node of a manager (`libs/manager/`). System calls are in `mpd/src/manager/ranks/`.
//!
//! **Must not know.** System calls, descriptors, `/proc`, clocks; the life of the job (`mpd-job`); the order of stop, note
//! and kill (`mpd-ending`). The job is lent to each call, and so is what is read of the host ([`Host`]).
//!
//! # A start
//!
//! 1. The checks of a world come first. If one fails, no rank of the world runs.
//! 2. In each turn of the loop some ranks of each world are started, and none while processes are stopped or ended.
//! 3. A started rank is reported before its pipes and its PMI connection are passed on. The first failure ends the start
//!    of its world.
//!
//! # An end
//!
//! The owner reads the last reports of the shim and the last requests of the client before it reaps a process. The shim
//! knows the end of the program, because the process that was reaped is the shim itself. A rank of a spawned world is
//! forgotten when its process and its output have ended.
//!
//! | module | has |
//! |---|---|
//! | `ranks` | the machine, and the way of inputs |
//! | `checks`, `resources`, `world_context` | the checks before a start, in their order |
//! | `environment`, `launch` | what a rank is started with |
//! | `starts` | which ranks are started, and when |
//! | `failures` | failures of a start, for the user |
//! | `ends` | ends, and the notices about them |
//! | `adoption` | a process that ran before its job |
//! | `shims`, `shim` | the launcher shims before ranks |
//! | `search` | ranks that run alone |
//! | `report` | reports to the daemon |
//! | `table` | the ranks that were started |
//! | `errand` | steps that follow each other, with questions between them |
//! | `memory` | ranks that the kernel has killed for lack of memory |
//! | `limits` | what the job may use on its host |
//! | `cpu_share` | the weight of the ranks among other sessions |
//! | `reaping` | when to look for dead children, and for which |
//! | `input`, `output`, `host` | what the owner reports, performs and reads |
#![forbid(unsafe_code)]

mod adoption;
mod checks;
mod cpu_share;
mod ends;
mod environment;
mod errand;
mod failures;
mod host;
mod input;
mod launch;
mod limits;
mod memory;
mod output;
mod ranks;
mod reaping;
mod report;
mod resources;
mod search;
mod shim;
mod shims;
mod starts;
mod table;
#[cfg(test)]
mod tests;
mod world_context;

pub use checks::check_files;
pub use failures::StartProblem;
pub use host::{Host, Unentered, Victims};
pub use input::{Answer, Input, Sent, Started};
pub use launch::Launch;
pub use limits::{Fault, Groups, Place, Process, Refusal, impose};
pub use output::{Action, Line, Output, Question, Slot, Start, Way};
pub use ranks::{Beginning, Context, Ranks};
pub use shim::resize;
