//! Handling of a host without free memory: the kernel kills ranks first, and the user gets a notice.

use mpd_io::oom;
use nix::unistd::Pid;

/// The state of the host when the job began.
#[derive(Debug)]
pub(super) struct Memory {
    /// How readily this manager is killed, if ranks are killed before it. Not if the manager itself is as likely to be
    /// killed.
    own: Option<i16>,
    /// Processes that are started now inherit the readiness of ranks.
    is_raised: bool,
    /// Processes of this host that the kernel had killed for lack of memory at the last check.
    kills: Option<u64>,
}

impl Memory {
    /// `readiness`: how readily the kernel kills this manager.
    pub(super) fn begin(readiness: Option<i16>) -> Self {
        let own = readiness.filter(|own| *own < oom::OF_RANKS);
        Self { own, is_raised: false, kills: oom::kills() }
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

    /// How many processes the kernel has killed for lack of memory since the last call; `None` if there are none.
    pub(super) fn new_kills(&mut self) -> Option<u64> {
        let before = self.kills?;
        let now = oom::kills().filter(|now| before < *now)?;
        self.kills = Some(now);
        Some(now - before)
    }
}
