//! The life of one job, and the decisions of its managers.
//!
//! **Purpose.** One job has a manager on each of its hosts, and the managers form a tree. The
//! machines here decide when ranks start and end and which signals they get. They also decide which
//! messages a manager passes to the others.
//!
//! **Users.** The manager process in `mpd`, and the simulator of jobs.
//!
//! **Must not know.** Processes, descriptors and `/proc`; the ring and its daemons except for their
//! names. The placement of ranks is in `mpd-placement`, the merging of output in `mpd-stdio`, a link
//! between managers in `mpd-joblink`, and what the job leaves in `mpd-leftovers`.
//!
//! | module | subject |
//! |---|---|
//! | [`manager`] | the life of one job on one host, and at the root of the whole job |
#![forbid(unsafe_code)]

pub mod manager;
