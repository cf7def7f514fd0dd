//! One rank under a debugger: what gdb says over its machine interface, and the driver that speaks to it.
//!
//! | module | subject |
//! |---|---|
//! | [`mi`] | records of GDB/MI read, CLI commands quoted |
//! | [`driver`] | the driver of one rank's gdb: commands in, lines and marks out |

pub mod driver;
pub mod mi;
pub mod stacks;
