//! Debugging a parallel program: one debugger for each rank, one prompt for all.
//!
//! | module | subject |
//! |---|---|
//! | [`mi`] | records of GDB/MI read, CLI commands quoted |
//! | [`driver`] | the driver of one rank's gdb: commands in, lines and marks out |
//! | [`front`] | the user's side: what is typed, who is addressed, the prompt |
//! | [`numbers`] | what ranks are called that a debugger is attached to |
//! | [`survey`] | the stacks of all ranks, taken without a user |
//! | [`stacks`] | where all ranks stand, as one tree |
//!
//! **Purpose.** The text machines between a user and the debuggers of all ranks. None of them reads or writes.
//!
//! **Users.** `mpirun -d` (the front), the helper of the manager that owns one gdb (the driver).
//!
//! **Must not know.** Processes and descriptors; the life of the job, which `mpd-job` decides.
#![forbid(unsafe_code)]

pub mod driver;
pub mod front;
pub mod mi;
pub mod numbers;
pub mod stacks;
pub mod survey;
