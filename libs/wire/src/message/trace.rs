//! The timeline of a job: the actions of each host and each rank with their times. Managers report
//! it at the end, for users that examine a launch.

use serde::{Deserialize, Serialize};

use crate::Rank;

/// Most spans in one message; more spans need several.
pub const MAX_SPANS: usize = 1024;

/// An action that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The daemon decided which rank runs where.
    Placement,
    /// The daemon sent the job to the other hosts, until all had answered.
    Scatter,
    /// The manager's process started.
    Manager,
    /// Connection to the parent, with proof of the key.
    Link,
    /// The job's specification arrived from the parent.
    Specification,
    /// Programs were read and copied to this host and its descendants.
    Preload,
    /// All checks before the start were made.
    Checks,
    /// From the manager's report that it is ready to the command that starts the ranks.
    Ready,
    /// All ranks of the host were started.
    Go,
    /// One rank was started.
    Spawn,
    /// One rank, from its start to its end.
    Run,
    /// A fence, from the entry of the host's first rank.
    Fence,
    /// The processes of the host were killed, until none remained.
    Kill,
    /// The remaining output was written.
    Drain,
    /// What the job left on the host was removed.
    Cleanup,
}

impl Phase {
    /// Its name, as on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Placement => "placement",
            Self::Scatter => "scatter",
            Self::Manager => "manager",
            Self::Link => "link",
            Self::Specification => "specification",
            Self::Preload => "preload",
            Self::Checks => "checks",
            Self::Ready => "ready",
            Self::Go => "go",
            Self::Spawn => "spawn",
            Self::Run => "run",
            Self::Fence => "fence",
            Self::Kill => "kill",
            Self::Drain => "drain",
            Self::Cleanup => "cleanup",
        }
    }

    /// Whether the daemon, not the manager, records it.
    pub const fn is_daemons(self) -> bool {
        matches!(self, Self::Placement | Self::Scatter)
    }
}

/// One interval. Its length was measured by a monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The action.
    pub phase: Phase,
    /// The rank; `None` for an action of the host.
    pub rank: Option<Rank>,
    /// The start, in microseconds since 1970.
    pub began_us: u64,
    /// The length, in microseconds.
    pub took_us: u64,
}

impl Span {
    /// The same interval by a clock that is `micros` microseconds ahead.
    #[must_use]
    pub fn shifted(self, micros: i64) -> Self {
        Self { began_us: self.began_us.saturating_add_signed(micros), ..self }
    }
}

/// The times of two messages between a manager and a child, in microseconds since 1970: the command
/// to start the ranks, and the report of the child's spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The command was sent, by the manager's clock.
    pub sent: u64,
    /// The command arrived, by the child's clock.
    pub arrived: u64,
    /// The report was sent, by the child's clock.
    pub answered: u64,
    /// The report arrived, by the manager's clock.
    pub received: u64,
}

impl Exchange {
    /// The correction to add to times of the child's clock, in microseconds. Clocks that do not
    /// contradict the order of cause and effect are trusted. A contradiction is corrected by the
    /// smallest sufficient amount. A time service keeps hosts closer together than an estimate from
    /// the delays of a busy manager.
    pub fn correction(&self) -> i64 {
        let least = difference(self.sent, self.arrived);
        let most = difference(self.received, self.answered);
        if least > most {
            // A clock was set in between.
            return i64::midpoint(least, most);
        }
        0.clamp(least, most)
    }
}

fn difference(ours: u64, theirs: u64) -> i64 {
    // Times of this millennium are far below the bounds; a peer may send any value.
    i64::try_from(ours).unwrap_or(i64::MAX).saturating_sub_unsigned(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correction(sent: u64, arrived: u64, answered: u64, received: u64) -> i64 {
        Exchange { sent, arrived, answered, received }.correction()
    }

    #[test]
    fn clocks_consistent_with_cause_and_effect_are_trusted() {
        assert_eq!(correction(1000, 1100, 5000, 5200), 0);
        assert_eq!(correction(1000, 1000, 5000, 5000), 0);
    }

    #[test]
    fn a_clock_that_is_behind_or_ahead_is_corrected_as_far_as_is_certain() {
        assert_eq!(correction(1000, 400, 4300, 5200), 600, "it received before we had sent");
        assert_eq!(correction(1000, 9100, 13_000, 5200), -7800, "it answered after we had heard");
        assert_eq!(correction(1000, 400, 5000, 5200), 400, "its clock was set in between");
        assert_eq!(correction(0, u64::MAX, u64::MAX, 0), i64::MIN);
    }

    #[test]
    fn names_are_those_on_the_wire() {
        for phase in [Phase::Placement, Phase::Specification, Phase::Run, Phase::Cleanup] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        }
    }

    #[test]
    fn the_longest_list_of_spans_fits_a_frame() {
        let span = Span {
            phase: Phase::Specification,
            rank: Some(Rank(u32::MAX)),
            began_us: u64::MAX,
            took_us: u64::MAX,
        };
        let word = crate::message::Up::Trace {
            tree_index: u32::MAX,
            received_us: u64::MAX,
            reported_us: u64::MAX,
            spans: vec![span; MAX_SPANS],
        };
        let bytes = serde_json::to_vec(&word).unwrap().len();
        assert!(bytes < crate::message::MAX_TREE_FRAME, "{bytes}");
    }
}
