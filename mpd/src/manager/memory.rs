//! What happens when the host runs out of memory: ranks go first, and the user is told.

use mpd_io::oom;
use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::job::RankEnd;
use nix::unistd::Pid;

use super::Process;

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
}

impl Process {
    /// A rank that the kernel ended for want of memory has no words for it.
    pub(super) fn explain(&mut self, rank: Rank, end: RankEnd) {
        let name = self.name_of(rank);
        let killed = matches!(end, RankEnd::Signaled { signal: 9, .. }) && !self.deadly.is_kill();
        let before = self.memory.kills.filter(|_| killed);
        let Some((before, now)) = before.zip(oom::kills()).filter(|(before, now)| before < now)
        else {
            return;
        };
        // Once for all that it ended.
        self.memory.kills = Some(now);
        let host = &self.order.shares.get(self.order.place as usize).expect("our share").member;
        let text = format!(
            "host {host}: memory ran out: the kernel has killed {} since the job began, rank {name} most likely \
             among them (dmesg there tells)",
            match now - before {
                1 => "a process".to_owned(),
                many => format!("{many} processes"),
            }
        );
        self.post(Input::Notice(text));
    }
}
