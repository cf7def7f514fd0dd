//! Durations of job links.

use std::time::Duration;

/// Durations of job links. Tests scale them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A peer that was sent nothing for so long is sent a pulse.
    pub pulse: Duration,
    /// Silence of a peer after which it is suspect. Also the patience that a process has with its
    /// peers when it stood still itself.
    pub suspect: Duration,
    /// Silence of a peer after which its host is lost. The last words of a link that is closed have the
    /// same time: a cable that is mended before it delivers them.
    pub host_lost: Duration,
    /// How long managers may take to find each other.
    pub start: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { pulse: second, suspect: second * 3, host_lost: second * 8, start: second * 10 }
    }
}

impl Timing {
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
