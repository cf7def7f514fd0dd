//! End-to-end tests: the real programs, started like a user starts them.
//!
//! Each test creates a [`suite::Suite`]: a directory, a run directory and a mark in the environment of every
//! process that the test starts. When the suite is dropped, it stops its daemon and proves that no process, socket
//! or job directory is left. README.md explains how to run the tests.

mod across;
mod alloc;
mod alone;
mod apptainer;
mod argsets;
mod attach;
mod attacker;
mod attacks;
mod bad_input;
mod basics;
mod binding;
mod client_library;
mod connected_jobs;
mod daemon;
mod debugger;
mod demand;
mod everywhere;
mod exit_codes;
mod farm;
mod gdb_shim;
mod groups;
mod hostile;
mod hostile_pmix;
mod inherited;
mod installed;
mod job_links;
mod jobs;
mod kill;
mod lammps;
mod library_spawn;
mod limits;
mod locality;
mod manager;
mod many;
mod members;
mod mixed;
mod mpi;
mod mpir;
#[expect(dead_code, reason = "the attackers only connect and never listen")]
#[path = "../../libs/channel/tests/channel/naive.rs"]
mod naive;
mod on_crash;
mod open_mpi;
mod open_mpi_ends;
mod open_mpi_spawns;
mod options;
mod original;
mod output;
mod pmi;
mod pmi2;
mod pmix;
mod pmix_client;
mod preload;
mod private;
mod process;
mod programs;
mod progress;
mod pty;
mod recording;
mod registered;
mod report_files;
mod resubmit;
mod ring;
mod run;
mod signals;
mod singleton;
mod spawn;
mod stacks;
mod state;
mod stdin;
mod steering;
mod stress;
mod suite;
mod system_calls;
mod terminal;
mod timeline;
mod two_libraries;
mod usage;
mod waiting;
mod world_files;
mod wrapper;
mod wrapping;
