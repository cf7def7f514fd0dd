//! Durations of job links.

use std::time::Duration;

/// Durations of job links. Tests scale them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// After this time without a frame to the peer, a pulse is sent.
    pub pulse: Duration,
    /// Silence after which a peer is suspect. After a stall of its own, a process waits for its
    /// peers for the same time.
    pub suspect: Duration,
    /// Silence after which the host of a peer is lost. The last messages of a closed link have the
    /// same time, so that they arrive if a cable is replugged.
    pub host_lost: Duration,
    /// The time in which managers must find each other.
    pub start: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { pulse: second, suspect: second * 3, host_lost: second * 8, start: second * 10 }
    }
}

impl Timing {
    /// With this silence after which a host is lost. A shorter one than usual also shortens the times before.
    #[must_use]
    pub fn with_host_lost(self, host_lost: Duration) -> Self {
        Self {
            pulse: self.pulse.min(host_lost / 4),
            suspect: self.suspect.min(host_lost / 2),
            host_lost,
            ..self
        }
    }

    /// All durations divided by `divisor`, for tests.
    #[must_use]
    pub fn faster(&self, divisor: u32) -> Self {
        Self {
            pulse: self.pulse / divisor,
            suspect: self.suspect / divisor,
            host_lost: self.host_lost / divisor,
            start: self.start / divisor,
        }
    }
}
