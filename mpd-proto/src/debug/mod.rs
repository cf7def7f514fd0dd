//! Debugging a parallel program: one debugger for each rank, one prompt for all.

pub mod front;
