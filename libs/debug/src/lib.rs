//! Debugging a parallel program: one debugger for each rank, one prompt for all.
//!
//! | module | subject |
//! |---|---|
//! | [`mi`] | reads records of GDB/MI, quotes commands of gdb's command line |
//! | [`driver`] | the driver of one rank's gdb: commands in, lines and marks out |
//! | [`prompt`] | the user's side: typed lines, the addressed ranks, the prompt |
//! | [`numbers`] | the numbers of the debugged ranks |
//! | [`shim`] | the launcher shim: the process between the manager and a rank's program |
//! | [`survey`] | the stacks of all ranks, taken without a user |
//! | [`stacks`] | the stacks of all ranks, as one tree |
//!
//! **Purpose.** The text machines between a user and the debuggers of all ranks. They read and
//! write no descriptors.
//!
//! **Users.** `mpirun -d` (the prompt), and the process of a launcher shim (shim and driver).
//!
//! **Must not know.** Processes and descriptors. `mpd-job` decides about the life of the job.
#![forbid(unsafe_code)]

pub mod driver;
pub mod mi;
pub mod numbers;
pub mod prompt;
pub mod shim;
pub mod stacks;
pub mod survey;
