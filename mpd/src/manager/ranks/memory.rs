//! Handling of a host without free memory: the kernel kills ranks first, and the user gets a notice. A rank that
//! `kill -9` has ended gets none, although the kernel may have killed other processes of the host.

use std::time::Duration;

use mpd_io::process::oom::{self, Victim};
use nix::unistd::Pid;

/// Whether a process was killed for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The kernel's log names it.
    Certain,
    /// The kernel has killed a process of this host, and does not tell us which.
    Possible,
}

/// The state of the host when the job began.
#[derive(Debug)]
pub(super) struct Memory {
    /// How readily this manager is killed, if ranks are killed before it. Not if the manager itself is as likely to be
    /// killed.
    own: Option<i16>,
    /// Processes that are started now inherit the readiness of ranks.
    is_raised: bool,
    /// When the job began, on the clock of the kernel's log.
    began: Duration,
    /// Processes of this host that the kernel had killed for lack of memory before.
    kills_before: Option<u64>,
    /// The number of kills when the log was read, and the victims since the job began; `None`: the log cannot be read.
    victims: Option<(u64, Option<Vec<Victim>>)>,
    /// The number of kills when a rank was suspected last.
    suspected: u64,
}

impl Memory {
    /// `readiness`: how readily the kernel kills this manager.
    pub(super) fn begin(readiness: Option<i16>) -> Self {
        let own = readiness.filter(|own| *own < oom::OF_RANKS);
        let kills_before = oom::kills();
        let suspected = kills_before.unwrap_or(0);
        let began = oom::log_time();
        Self { own, is_raised: false, began, kills_before, victims: None, suspected }
    }

    /// Many ranks are about to be started: they inherit their readiness. That takes less time than a file for each.
    pub(super) fn begin_starts(&mut self) {
        self.is_raised = self.own.is_some() && oom::set_readiness(oom::OF_RANKS).is_ok();
    }

    /// No more ranks are started now.
    pub(super) fn end_starts(&mut self) {
        if let Some(own) = self.own.filter(|_| std::mem::take(&mut self.is_raised))
            && let Err(e) = oom::set_readiness(own)
        {
            log::warn!(
                "this manager is as likely to be killed for lack of memory as its ranks: {e}"
            );
        }
    }

    /// Makes a started rank the first to be killed.
    pub(super) fn put_first(&self, pid: Pid) {
        if self.own.is_some() && !self.is_raised {
            // The rank may have ended already.
            let _ = oom::set_readiness_of(pid, oom::OF_RANKS);
        }
    }

    /// Why a process that SIGKILL has ended may have been killed for lack of memory. `None`: it was not. Without a
    /// number, its death is known from another process.
    pub(super) fn cause_of(&mut self, pid: Option<Pid>) -> Option<Cause> {
        let count = oom::kills()?;
        let kills = count.checked_sub(self.kills_before?).filter(|kills| *kills > 0)?;
        self.verdict(pid, (count, kills), oom::victims)
    }

    /// The same, by the number of all kills and of those since the job began. `log` reads the kernel's log.
    fn verdict(
        &mut self,
        pid: Option<Pid>,
        (count, kills): (u64, u64),
        log: impl Fn(Duration) -> Option<Vec<Victim>>,
    ) -> Option<Cause> {
        let knows_all = |victims: &Option<Vec<Victim>>| {
            victims.as_ref().is_some_and(|victims| victims.len() as u64 >= kills)
        };
        if self.victims.as_ref().is_none_or(|(at, known)| *at != count || !knows_all(known)) {
            self.victims = Some((count, log(self.began)));
        }
        let victims = self.victims.as_ref().map(|(_, victims)| victims)?;
        let is_victim = |pid: Pid| victims.iter().flatten().any(|it| it.pid == pid.as_raw());
        match pid {
            Some(pid) if is_victim(pid) => Some(Cause::Certain),
            Some(_) if knows_all(victims) => None,
            // Each kill is suspected once.
            _ => (std::mem::replace(&mut self.suspected, count) < count).then_some(Cause::Possible),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        Memory {
            own: None,
            is_raised: false,
            began: Duration::ZERO,
            kills_before: Some(5),
            victims: None,
            suspected: 5,
        }
    }

    fn victims(pids: &[i32]) -> Option<Vec<Victim>> {
        let victim = |&pid| Victim { pid, name: "solver".to_owned() };
        Some(pids.iter().map(victim).collect())
    }

    #[test]
    fn a_rank_was_killed_for_lack_of_memory_only_if_the_log_names_it() {
        let mut memory = memory();
        let [ours, other] = [7, 8].map(|pid| Some(Pid::from_raw(pid)));
        assert_eq!(memory.verdict(other, (6, 1), |_| victims(&[7])), None, "kill -9");
        assert_eq!(memory.verdict(ours, (6, 1), |_| panic!("it is read")), Some(Cause::Certain));
        // The record of the second kill is not in the log yet.
        assert_eq!(memory.verdict(other, (7, 2), |_| victims(&[7])), Some(Cause::Possible));
        assert_eq!(memory.verdict(other, (7, 2), |_| victims(&[7, 8])), Some(Cause::Certain));
    }

    #[test]
    fn without_the_log_each_kill_of_the_host_is_suspected_once() {
        let mut memory = memory();
        let rank = Some(Pid::from_raw(7));
        assert_eq!(memory.verdict(rank, (6, 1), |_| None), Some(Cause::Possible));
        assert_eq!(memory.verdict(rank, (6, 1), |_| None), None);
        assert_eq!(memory.verdict(rank, (8, 3), |_| None), Some(Cause::Possible));
        // A process below a rank, whose number is not known here.
        assert_eq!(memory.verdict(None, (9, 4), |_| victims(&[1, 2, 3, 4])), Some(Cause::Possible));
        assert_eq!(memory.verdict(None, (9, 4), |_| victims(&[1, 2, 3, 4])), None);
    }
}
