//! This host: its CPUs and GPUs, its names, its random bits.

pub mod cpus;
pub mod gpus;
pub(crate) mod names;
pub mod random;
pub mod scarce;
pub mod this_host;
