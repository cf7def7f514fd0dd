//! Handling of a host without free memory: the kernel kills ranks first, and the user gets a notice.

use mpd_io::oom;
use nix::unistd::Pid;

/// The state of the host when the job began.
#[derive(Debug)]
pub(super) struct Memory {
    /// Whether ranks are killed before this manager. Not if the manager itself is as likely to be killed.
    ranks_go_first: bool,
    /// Processes of this host that the kernel had killed for lack of memory at the last check.
    kills: Option<u64>,
}

impl Memory {
    /// `readiness`: how readily the kernel kills this manager.
    pub(super) fn begin(readiness: Option<i16>) -> Self {
        let ranks_go_first = readiness.is_some_and(|ours| ours < oom::OF_RANKS);
        Self { ranks_go_first, kills: oom::kills() }
    }

    /// Makes a started rank the first to be killed.
    pub(super) fn put_first(&self, pid: Pid) {
        if self.ranks_go_first {
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
