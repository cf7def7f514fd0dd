//! Sockets: connections of frames, links of the ring, passed descriptors.

pub mod addresses;
pub mod conn;
pub mod control;
pub mod far_end;
pub mod link;
pub mod outgoing;
pub mod passing;
pub(crate) mod socket_diagnosis;
pub mod tcp;
pub mod unread;
pub mod watch;
