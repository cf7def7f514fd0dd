//! This host: its CPUs and GPUs, its names, its random bits, and calls for which memory is scarce.

pub mod cpus;
pub mod drain_mark;
pub mod gpus;
pub(crate) mod names;
pub mod random;
pub mod scarce;
pub mod this_host;
