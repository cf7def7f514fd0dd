//! The life of one job: its managers, the links between them, and what it leaves.
//!
//! **Purpose.** One job has a manager on each of its hosts, and the managers form a tree. The
//! machines here decide when ranks start and end and which signals they get. They also decide which
//! messages a manager passes to the others. When the job is over, they decide which objects of a
//! host belong to it.
//!
//! **Users.** The manager process in `mpd`, the helper that removes leftovers, and the simulator of
//! jobs.
//!
//! **Must not know.** Processes, descriptors and `/proc`; the ring and its daemons except for their
//! names; the placement of ranks (`mpd-placement`); the merging of output (`mpd-stdio`);
//! the links between managers (`mpd-joblink`).
//!
//! | module | subject |
//! |---|---|
//! | [`manager`] | the life of one job on one host, and at the root of the whole job |
//! | [`leftovers`] | the System V objects and files in `/dev/shm` that belong to a job |
//! | [`record`] | a daemon's record of a job on disk, in case its manager dies |
#![forbid(unsafe_code)]

pub mod leftovers;
pub mod manager;
pub mod record;
