//! `mpirun`: the console of one job.
//!
//! The command-line half turns words into a job's specification and touches nothing but the
//! configuration file and the host files: [`caller`] (what we were started with), [`scan`] (words to sections, by the
//! table in [`options`]), [`argsets`] (sections to a job), and the texts for people ([`help`],
//! [`docs`], [`dryrun`], [`exits`], [`trace`]). [`cli::parse`] is its door. [`debug`] is the terminal of a job that is
//! debugged.

pub mod allocation;
pub mod argsets;
pub mod caller;
pub mod caught;
pub mod cli;
mod completion;
pub mod configfile;
pub mod crashes;
pub mod debug;
pub mod demand;
pub mod docs;
pub mod dryrun;
pub mod ends;
pub mod environment;
pub mod exits;
mod feed;
pub mod held;
pub mod help;
mod hosts;
pub mod job_options;
pub mod launch;
pub mod limits;
mod link;
pub mod messages;
pub mod mpir;
pub mod once;
mod opened;
pub mod options;
pub mod place;
pub mod private;
pub mod processes;
pub mod reports;
pub mod ring;
pub mod run;
pub mod scan;
pub mod session;
pub mod singleton;
pub mod suggest;
pub mod target;
pub mod trace;
pub mod usage;
