//! What a job may leave behind, and its removal.

pub mod ipc;
pub mod job_directory;
pub mod leftovers;
pub mod registered;
pub mod shm;
