//! `mpirun`: the console of one job.
//!
//! The modules of the command line turn arguments into a job's specification. They read only the
//! configuration file and host files. For `-dry-run` and for a job of several programs, they also read the programs and their
//! libraries, and for `-dry-run` the hosts.
//!
//! - [`caller`]: the inherited state of the process;
//! - [`scan`]: arguments to sections, by the table in [`options`];
//! - [`argsets`]: sections to a job;
//! - [`help`], [`docs`], [`dryrun`], [`exits`], [`trace`]: texts for people;
//! - [`linked`], [`surroundings`]: the MPI library of a program, and the hosts, for `-dry-run`;
//! - `mixture`: the refusal of programs with different MPI libraries;
//! - [`cli::parse`]: the entry point.
//!
//! [`debug`] is the terminal part of a debugged job.

pub mod allocation;
mod architecture;
pub mod argsets;
pub mod caller;
pub mod caught;
mod chosen;
pub mod cli;
mod completion;
pub mod configfile;
pub mod crashes;
pub mod debug;
pub mod demand;
mod dialect;
pub mod docs;
pub mod dryrun;
pub mod ends;
pub mod environment;
pub mod exits;
mod feed;
pub mod held;
pub mod help;
mod hosts;
mod job_file;
pub mod job_options;
pub mod launch;
pub mod limits;
mod link;
pub mod linked;
mod local;
pub mod messages;
mod mixture;
pub mod mpir;
mod multi_prog;
pub mod once;
mod opened;
pub mod options;
mod patience;
pub mod private;
pub mod processes;
pub mod reports;
pub mod ring;
pub mod ring_options;
pub mod run;
pub mod scan;
pub mod session;
pub mod singleton;
pub mod site;
pub mod slots;
pub mod suggest;
pub mod surroundings;
pub mod target;
mod tools;
pub mod trace;
mod translated_placement;
pub mod usage;
mod variables;
