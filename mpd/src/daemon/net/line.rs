//! One link: its stage, and the meaning of its errors.

use std::io;
use std::net::IpAddr;

use mpd_channel::{HandshakeError, Instance, Purpose};
use mpd_io::network::link::{Link, LinkError};
use mpd_ring::DialFailure;
use mpd_sansio::Time;
use mpd_wire::DaemonName;

use crate::daemon::net::dial::AttemptId;

/// The progress of a link.
#[derive(Debug)]
pub(super) enum Stage {
    /// The handshake is under way, with its own deadline.
    Handshake,
    /// The same for a job link that waits for this manager.
    Seeking(mpd_wire::Instance),
    ExpectGreeting {
        peer: Instance,
        purpose: Purpose,
        until: Time,
    },
    Up,
    Closing {
        until: Time,
    },
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) link: Link,
    pub(super) stage: Stage,
    pub(super) attempt: Option<AttemptId>,
    /// When the connection came up.
    pub(super) connected: Time,
    /// The peer's IP address, for the limits.
    pub(super) from: IpAddr,
    /// The name of the peer, after its greeting.
    pub(super) name: Option<DaemonName>,
}

impl Line {
    pub(super) const fn new(
        link: Link,
        attempt: Option<AttemptId>,
        connected: Time,
        from: IpAddr,
    ) -> Self {
        Self { link, stage: Stage::Handshake, attempt, connected, from, name: None }
    }

    /// The name of the peer for the log; empty if it is unknown.
    pub(super) fn shown_name(&self) -> &str {
        self.name.as_ref().map_or("", DaemonName::as_str)
    }
}

/// The meaning of a failed attempt for the ring.
pub(super) fn failure(error: &LinkError) -> DialFailure {
    match error {
        LinkError::Connect(e) if e.kind() == io::ErrorKind::TimedOut => DialFailure::TimedOut,
        LinkError::Connect(e) if is_local(e) => DialFailure::NoMeans,
        LinkError::Handshake(HandshakeError::NoRandomness(_)) => DialFailure::NoMeans,
        LinkError::Connect(_) => DialFailure::Refused,
        LinkError::Handshake(HandshakeError::TimedOut) => DialFailure::TimedOut,
        LinkError::Handshake(_) | LinkError::Channel(_) | LinkError::Broken(_) | LinkError::Bye => {
            DialFailure::NotProved
        }
    }
}

/// Whether an error of connecting has its cause on this host.
fn is_local(error: &io::Error) -> bool {
    let ours = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOBUFS,
        libc::ENOMEM,
        // No local port is left.
        libc::EADDRNOTAVAIL,
        libc::EADDRINUSE,
        libc::EAGAIN,
    ];
    error.raw_os_error().is_some_and(|errno| ours.contains(&errno))
}

/// The purpose of a link as the ring calls it; `None` for a job link.
pub(super) fn ring_purpose(purpose: Purpose) -> Option<mpd_ring::Purpose> {
    match purpose {
        Purpose::Ring => Some(mpd_ring::Purpose::Ring),
        Purpose::Join => Some(mpd_ring::Purpose::Join),
        Purpose::Probe => Some(mpd_ring::Purpose::Probe),
        Purpose::Chord => Some(mpd_ring::Purpose::Chord),
        Purpose::JobLink => None,
    }
}
