//! The timeline of a job: what each host and each rank did when, told at the end to whoever wants to
//! see how a launch went.

use serde::{Deserialize, Serialize};

use crate::Rank;

/// Most spans in one message; more are sent as several.
pub const MAX_SPANS: usize = 1024;

/// What took a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The daemon decided which rank runs where.
    Placement,
    /// The daemon told the other hosts, until all had answered.
    Scatter,
    /// The manager's process came up.
    Manager,
    /// Connection to the manager above, with proof of the key.
    Link,
    /// The job's specification came from the manager above.
    Specification,
    /// Programs were read, and brought here and below.
    Preload,
    /// All that can be checked before the start was checked.
    Checks,
    /// From being ready to the word that everybody is.
    Ready,
    /// All ranks of the host were started.
    Go,
    /// One rank was started.
    Spawn,
    /// One rank, from its start to its end.
    Run,
    /// A fence, from the first rank of the host that entered it.
    Fence,
    /// The processes of the host were killed, until none was left.
    Kill,
    /// What was left of the output was written.
    Drain,
    /// What the job left on the host was removed.
    Tidy,
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
            Self::Tidy => "tidy",
        }
    }

    /// Whether it is the daemon's, and not the manager's.
    pub const fn is_daemons(self) -> bool {
        matches!(self, Self::Placement | Self::Scatter)
    }
}

/// One stretch of time. Its length was measured by a clock that nobody sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// What was done.
    pub phase: Phase,
    /// By or for which rank; none: by the host.
    pub rank: Option<Rank>,
    /// When it began, in microseconds since 1970.
    pub began_us: u64,
    /// How long it took, in microseconds.
    pub took_us: u64,
}

impl Span {
    /// The same by a clock that is so many microseconds ahead.
    #[must_use]
    pub fn shifted(self, micros: i64) -> Self {
        Self { began_us: self.began_us.saturating_add_signed(micros), ..self }
    }
}

/// Two messages between a manager and one below it, in microseconds since 1970: the word to go, and the
/// word with which the other tells its spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The first was sent, by our clock.
    pub sent: u64,
    /// It was heard, by the other's clock.
    pub heard: u64,
    /// The second was sent, by the other's clock.
    pub answered: u64,
    /// It was heard, by our clock.
    pub received: u64,
}

impl Exchange {
    /// What has to be added to times of the other's clock, in microseconds. Clocks are believed as long
    /// as they do not contradict what is cause and what is effect, and are corrected by the least that
    /// ends the contradiction: hosts that are kept in time by a service for it are closer to each other
    /// than a guess from a busy manager's delays.
    pub fn correction(&self) -> i64 {
        let least = difference(self.sent, self.heard);
        let most = difference(self.received, self.answered);
        if least > most {
            // Somebody has set a clock in between.
            return i64::midpoint(least, most);
        }
        0.clamp(least, most)
    }
}

fn difference(ours: u64, theirs: u64) -> i64 {
    // Times of this millennium are far below the bounds; others' words may be anything.
    i64::try_from(ours).unwrap_or(i64::MAX).saturating_sub_unsigned(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correction(sent: u64, heard: u64, answered: u64, received: u64) -> i64 {
        Exchange { sent, heard, answered, received }.correction()
    }

    #[test]
    fn clocks_that_do_not_contradict_cause_and_effect_are_believed() {
        assert_eq!(correction(1000, 1100, 5000, 5200), 0);
        assert_eq!(correction(1000, 1000, 5000, 5000), 0);
    }

    #[test]
    fn a_clock_that_is_behind_or_ahead_is_corrected_as_far_as_is_certain() {
        assert_eq!(correction(1000, 400, 4300, 5200), 600, "it heard before we had said");
        assert_eq!(correction(1000, 9100, 13_000, 5200), -7800, "it answered after we had heard");
        assert_eq!(correction(1000, 400, 5000, 5200), 400, "its clock was set in between");
        assert_eq!(correction(0, u64::MAX, u64::MAX, 0), i64::MIN);
    }

    #[test]
    fn names_are_those_on_the_wire() {
        for phase in [Phase::Placement, Phase::Specification, Phase::Run, Phase::Tidy] {
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
            place: u32::MAX,
            heard_us: u64::MAX,
            told_us: u64::MAX,
            spans: vec![span; MAX_SPANS],
        };
        let bytes = serde_json::to_vec(&word).unwrap().len();
        assert!(bytes < crate::message::MAX_TREE_FRAME, "{bytes}");
    }
}
