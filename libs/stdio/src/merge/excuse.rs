//! Ranks that write nothing because they get no CPU: the merger waits longer for them.
//!
//! When the time is over for a rank of this host, the owner says which of its threads would run if they had a CPU
//! ([`Merger::excuse`]). The merger waits until they have run. For ranks of other hosts, the root asks their managers
//! ([`Merger::question`]). Each manager excuses its ranks in the same way, and answers ([`Merger::answer`]). Without an
//! answer in time, the ranks are late. An answer without a question changes nothing.

use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::{Rank, RankSet};

use super::{Course, Merger};
use crate::silence::{Looks, Task};

/// The time that a line waits for a rank that gets no CPU.
pub const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// The shortest time between two questions about ranks of other hosts.
pub const QUESTION_INTERVAL: Duration = Duration::from_secs(1);

/// An answer that takes longer is ignored. The manager of a busy host may itself wait for a CPU.
pub const ANSWER_TIME: Duration = Duration::from_secs(2);

/// A thread that is ready to run is slow by its own work after this much CPU time without a line.
const CHANCE: Duration = Duration::from_millis(50);

/// The shortest time between two looks at ranks that get no CPU.
const LOOK: Duration = Duration::from_millis(200);

/// Why the merger waits longer for a rank.
#[derive(Clone, Debug)]
pub(super) struct Excuse {
    /// The end of the ordinary time.
    since: Time,
    /// The rank is not late before this time.
    pub(super) until: Time,
    looks: Looks,
    inquiry: Inquiry,
}

/// The questions about a rank of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inquiry {
    /// A question may be asked.
    Open,
    /// The answer is awaited.
    Asked,
    /// The rank is not behind.
    Denied,
}

impl Excuse {
    fn new(now: Time, shortest: Duration) -> Box<Self> {
        let looks = Looks::new(shortest);
        Box::new(Self { since: now, until: now, looks, inquiry: Inquiry::Open })
    }

    /// Waits until the next look. Whether there is one: the wait is bounded.
    fn extend(&mut self, now: Time) -> bool {
        let may_wait = now.since(self.since) < MAX_PATIENCE;
        if may_wait {
            self.looks.repeat(now, self.since);
            self.until = self.looks.next().unwrap_or(now);
        }
        may_wait
    }
}

impl Merger {
    /// Ranks for which the time is over at the next [`Merger::flush`], also for later entries than the first one.
    pub fn overdue(&self, now: Time) -> Vec<Rank> {
        if self.deadline().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let ranks = self.positions.ranks().zip(&self.courses);
        let overdue = ranks.filter(|(_, course)| {
            let awaits = self.entries.get(self.index(course.next)).map(|entry| entry.since);
            let is_due = |since| course.due(now, since, self.patience) <= now;
            !course.ended && !course.late && awaits.is_some_and(is_due)
        });
        overdue.map(|(rank, _)| rank).collect()
    }

    /// Waits longer for a rank that is overdue here or in the root, if it gets no CPU. `writer` has its threads that are
    /// ready to run. It is `None` if the owner has not yet read what the rank wrote. Returns whether the merger waits.
    pub fn excuse(&mut self, now: Time, rank: Rank, writer: Option<&[Task]>) -> bool {
        let Some(course) = self.course_mut(rank) else { return false };
        let excuse = course.excuse.get_or_insert_with(|| Excuse::new(now, LOOK));
        writer.is_none_or(|writer| excuse.looks.find_lack(writer, CHANCE)) && excuse.extend(now)
    }

    /// Waits for answers about those of `overdue` ranks, which run on other hosts, about which there is a question now.
    /// Returns these ranks. There is at most one question in [`QUESTION_INTERVAL`]; the merger waits for its time. The
    /// ranks whose answer did not come in [`ANSWER_TIME`] become late.
    pub fn question(&mut self, now: Time, overdue: &[Rank]) -> RankSet {
        let (from, may_ask) = (self.next_question, now >= self.next_question);
        let mut asked = Vec::new();
        for &rank in overdue {
            let Some(course) = self.course_mut(rank) else { continue };
            let new = || Excuse::new(now, QUESTION_INTERVAL);
            let excuse = course.excuse.get_or_insert_with(new);
            match excuse.inquiry {
                Inquiry::Open if may_ask => {
                    (excuse.inquiry, excuse.until) = (Inquiry::Asked, now + ANSWER_TIME);
                    asked.push(rank);
                }
                Inquiry::Open => excuse.until = from,
                Inquiry::Asked | Inquiry::Denied => {}
            }
        }
        if !asked.is_empty() {
            self.next_question = now + QUESTION_INTERVAL;
        }
        asked.into_iter().collect()
    }

    /// Takes the answer about a rank. `is_behind`: it gets no CPU, or its output is on its way.
    pub fn answer(&mut self, now: Time, rank: Rank, is_behind: bool) {
        let Some(course) = self.course_mut(rank).filter(|course| !course.late) else { return };
        let Some(excuse) = &mut course.excuse else { return };
        if excuse.inquiry != Inquiry::Asked {
            return;
        }
        if is_behind && excuse.extend(now) {
            excuse.inquiry = Inquiry::Open;
        } else {
            (excuse.inquiry, excuse.until) = (Inquiry::Denied, now);
        }
        let until = excuse.until;
        self.again = self.again.min(until);
    }

    /// Whether a line of the rank waits here.
    pub fn has_waiting(&self, rank: Rank) -> bool {
        let position = self.positions.of(rank);
        position.is_some_and(|position| self.courses[position].next > self.first)
    }

    fn course_mut(&mut self, rank: Rank) -> Option<&mut Course> {
        let position = self.positions.of(rank)?;
        self.courses.get_mut(position)
    }
}
