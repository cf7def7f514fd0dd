//! Processes: started, found, watched, signalled, and what the kernel says about them.

pub(crate) mod caught;
pub mod cgroup;
pub mod identity;
pub mod locate;
pub mod oom;
pub mod pidfd;
pub mod priority;
pub(crate) mod procfile;
pub mod search;
pub mod session_share;
pub mod signals;
pub mod spawn;
pub(crate) mod stat;
pub mod status;
pub mod sweep;
pub mod tracer;
pub mod tree;
pub mod usage;
pub mod without_pmi;
