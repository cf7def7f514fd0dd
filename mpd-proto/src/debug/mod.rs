//! Debugging a parallel program: one debugger for each rank, one prompt for all.
//!
//! | module | subject |
//! |---|---|
//! | [`mi`] | records of GDB/MI read, CLI commands quoted |
//! | [`driver`] | the driver of one rank's gdb: commands in, lines and marks out |
//! | [`front`] | the user's side: what is typed, who is addressed, the prompt |
//! | [`stacks`] | where all ranks stand, as one tree |

pub mod driver;
pub mod front;
pub mod mi;
pub mod stacks;
