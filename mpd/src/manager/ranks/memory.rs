//! What happens when the host runs out of memory: ranks go first, and the user is told.

use mpd_io::oom;
use nix::unistd::Pid;

/// How things stood when the job began.
#[derive(Debug)]
pub(super) struct Memory {
    /// Ranks are to be ended before us; not if we are as ready for that ourselves.
    ranks_go_first: bool,
    /// Processes of this host that the kernel has ended for want of memory, as far as was told.
    kills: Option<u64>,
}

impl Memory {
    pub(super) fn begin() -> Self {
        let ranks_go_first = oom::readiness().is_ok_and(|ours| ours < oom::OF_RANKS);
        Self { ranks_go_first, kills: oom::kills() }
    }

    /// A rank was started.
    pub(super) fn put_first(&self, pid: Pid) {
        if self.ranks_go_first {
            // It may have ended already.
            let _ = oom::set_readiness_of(pid, oom::OF_RANKS);
        }
    }

    /// How many processes the kernel has killed for want of memory since the job began, if there are new ones since
    /// the last call.
    pub(super) fn new_kills(&mut self) -> Option<u64> {
        let before = self.kills?;
        let now = oom::kills().filter(|now| before < *now)?;
        self.kills = Some(now);
        Some(now - before)
    }
}
