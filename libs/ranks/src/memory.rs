//! A host without free memory: the user gets a notice about a rank that the kernel has killed. A rank that `kill -9` has
//! ended gets none, although the kernel may have killed other processes of the host.

use std::time::Duration;

use mpd_ending::Pid;

use crate::host::{Host, Victims};

/// Whether a process was killed for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The kernel's log names it.
    Certain,
    /// The kernel has killed a process of this host, and does not tell us which.
    Possible,
    /// The kernel has killed a process of the job. The flag: because the job has reached its own limit.
    OfJob(bool),
}

/// What the kernel counts for the group of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Events {
    /// Processes that were killed for lack of memory, of the group or of the host, also in groups below it.
    kills: u64,
    /// How often the group was full.
    full: u64,
}

impl Events {
    /// `None` if one of them is missing or is no number: then nothing is known.
    fn of(text: &str, local: Option<&str>) -> Option<Self> {
        let count = |text: &str, name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
        };
        // The first text counts also the groups below, which may have smaller limits.
        let full = count(local.unwrap_or(text), "oom")?;
        Some(Self { kills: count(text, "oom_kill")?, full })
    }
}

/// The state of the host when the job began.
#[derive(Debug)]
pub(crate) struct Memory {
    /// When the job began, on the clock of the kernel's log.
    began: Duration,
    /// Processes of this host that the kernel had killed for lack of memory before.
    kills_before: Option<u64>,
    /// The number of kills when the log was read, and the victims since the job began; `None`: the log cannot be read.
    victims: Option<(u64, Option<Victims>)>,
    /// The number of kills when a rank was suspected last.
    suspected: u64,
    /// What is known of the job's group, and was reported.
    reported: Events,
    /// The number of kills in the group when a rank was suspected that no kill has ended.
    suspected_in_group: u64,
}

impl Memory {
    pub(crate) fn begin(began: Duration, kills_before: Option<u64>) -> Self {
        Self {
            began,
            kills_before,
            victims: None,
            suspected: kills_before.unwrap_or(0),
            reported: Events::default(),
            suspected_in_group: 0,
        }
    }

    /// Whether the kernel has killed a process of the job's group which was not reported yet. `None`: that is not known. The
    /// flag: a kill has ended the rank.
    pub(crate) fn cause_in_group(
        &mut self,
        is_killed: bool,
        host: &dyn Host,
    ) -> Option<Option<Cause>> {
        let (text, local) = host.memory_events()?;
        let now = Events::of(&text, local.as_deref())?;
        if now.kills <= self.reported.kills {
            return Some(None);
        }
        let is_full = now.full > self.reported.full;
        if !is_killed {
            // Perhaps the kernel has killed another rank, and its end is not known yet.
            let before = std::mem::replace(&mut self.suspected_in_group, now.kills);
            return Some((before < now.kills).then_some(Cause::OfJob(is_full)));
        }
        // Each kill is reported once. Several kills may have the same reason.
        self.reported.kills += 1;
        if now.kills == self.reported.kills {
            self.reported.full = now.full;
        }
        Some(Some(Cause::OfJob(is_full)))
    }

    /// Why a process that SIGKILL has ended may have been killed for lack of memory. `None`: it was not. Without a
    /// number, its death is known from another process.
    pub(crate) fn cause_of(&mut self, pid: Option<Pid>, host: &dyn Host) -> Option<Cause> {
        let count = host.kills()?;
        let kills = count.checked_sub(self.kills_before?).filter(|kills| *kills > 0)?;
        let knows_all = |victims: &Option<Victims>| {
            victims.as_ref().is_some_and(|victims| victims.len() as u64 >= kills)
        };
        if self.victims.as_ref().is_none_or(|(at, known)| *at != count || !knows_all(known)) {
            self.victims = Some((count, host.victims(self.began)));
        }
        let victims = self.victims.as_ref().map(|(_, victims)| victims)?;
        match pid {
            Some(pid) if victims.iter().flatten().any(|victim| *victim == pid) => {
                Some(Cause::Certain)
            }
            Some(_) if knows_all(victims) => None,
            // Each kill is suspected once.
            _ => (std::mem::replace(&mut self.suspected, count) < count).then_some(Cause::Possible),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Manager;

    /// A host with that number of kills, and that log.
    fn host(kills: u64, victims: Option<Victims>) -> Manager {
        let mut manager = Manager::new(1);
        (manager.kills, manager.victims) = (kills, victims);
        manager
    }

    fn victims(pids: &[i32]) -> Option<Victims> {
        Some(pids.iter().copied().map(Pid).collect())
    }

    #[test]
    fn a_rank_was_killed_for_lack_of_memory_only_if_the_log_names_it() {
        let mut memory = Memory::begin(Duration::ZERO, Some(5));
        let [ours, other] = [7, 8].map(|pid| Some(Pid(pid)));
        assert_eq!(memory.cause_of(other, &host(6, victims(&[7]))), None, "kill -9");
        assert_eq!(memory.cause_of(ours, &host(6, None)), Some(Cause::Certain), "it was read");
        // The record of the second kill is not in the log yet.
        assert_eq!(memory.cause_of(other, &host(7, victims(&[7]))), Some(Cause::Possible));
        assert_eq!(memory.cause_of(other, &host(7, victims(&[7, 8]))), Some(Cause::Certain));
    }

    #[test]
    fn without_the_log_each_kill_of_the_host_is_suspected_once() {
        let mut memory = Memory::begin(Duration::ZERO, Some(5));
        let rank = Some(Pid(7));
        assert_eq!(memory.cause_of(rank, &host(6, None)), Some(Cause::Possible));
        assert_eq!(memory.cause_of(rank, &host(6, None)), None);
        assert_eq!(memory.cause_of(rank, &host(8, None)), Some(Cause::Possible));
        // A process below a rank, whose number is not known here.
        let all = victims(&[1, 2, 3, 4]);
        assert_eq!(memory.cause_of(None, &host(9, all.clone())), Some(Cause::Possible));
        assert_eq!(memory.cause_of(None, &host(9, all)), None);
    }

    #[test]
    fn each_kill_in_the_group_of_the_job_is_reported_once_with_its_reason() {
        let mut memory = Memory::begin(Duration::ZERO, Some(5));
        let mut manager = host(5, None);
        let mut cause = |events| {
            manager.events = events;
            memory.cause_in_group(true, &manager)
        };
        assert_eq!(cause(None), None);
        let none = Some("low 0\nhigh 0\nmax 9\noom 0\noom_kill 0\noom_group_kill 0\n");
        assert_eq!(cause(none), Some(None));
        // The group of an outer limit was full.
        assert_eq!(cause(Some("max 9\noom 0\noom_kill 1\n")), Some(Some(Cause::OfJob(false))));
        assert_eq!(cause(Some("max 9\noom 0\noom_kill 1\n")), Some(None));
        let both = Some("oom 1\noom_kill 3\nsock_throttled 0\n");
        assert_eq!(cause(both), Some(Some(Cause::OfJob(true))));
        assert_eq!(cause(both), Some(Some(Cause::OfJob(true))));
        assert_eq!(cause(both), Some(None));
    }

    #[test]
    fn a_full_group_below_that_of_the_job_is_not_its_limit_where_the_kernel_tells_them_apart() {
        let text = "oom 1\noom_kill 1\n";
        let full = |local| Events::of(text, local).map(|events| (events.kills, events.full));
        assert_eq!(full(Some("oom 0\noom_kill 0\n")), Some((1, 0)));
        assert_eq!(full(Some("oom 1\noom_kill 0\n")), Some((1, 1)));
        assert_eq!(full(None), Some((1, 1)));
        assert_eq!(full(Some("")), None);
    }

    #[test]
    fn events_that_are_not_understood_are_not_no_events() {
        for text in ["", "oom 0\n", "oom_kill 0\n", "oom 0\noom_kill many\n", "oom\noom_kill\n"] {
            assert_eq!(Events::of(text, None), None, "{text:?}");
        }
    }
}
