//! Debugging a parallel program.

pub mod stacks;
