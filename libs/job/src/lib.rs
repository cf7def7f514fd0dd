//! The life of one job: its managers, the links between them, and what it leaves.
//!
//! **Purpose.** One job has a manager on each of its hosts, and the managers form a tree. The machines here decide
//! when ranks start, end and are signalled, what a manager passes to the others, when a link between two
//! managers counts as lost, and which objects of a host belong to the job when it is over.
//!
//! **Users.** The manager process in `mpd`, the helper that removes leftovers, and the simulator of jobs.
//!
//! **Must not know.** Processes, descriptors and `/proc`; the ring and its daemons beyond their names; where
//! ranks are placed (`mpd-placement`); how output is joined (`mpd-stdio`).
//!
//! | module | subject |
//! |---|---|
//! | [`manager`] | the life of one job on one host, and at the root of the whole job |
//! | [`joblink`] | one end of a link between two managers: classes, bounds, pulses |
//! | [`leftovers`] | which System V objects and files in `/dev/shm` are the job's |
//! | [`record`] | what a daemon keeps on disk of a job, for the case that its manager dies |
#![forbid(unsafe_code)]

pub mod joblink;
pub mod leftovers;
pub mod manager;
pub mod record;
