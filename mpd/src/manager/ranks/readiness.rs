//! How readily the kernel kills processes when memory runs out: ranks first.

use mpd_io::process::oom;
use nix::unistd::Pid;

/// The readiness of this manager.
#[derive(Debug)]
pub(super) struct Readiness {
    /// How readily this manager is killed, if ranks are killed before it. Not if the manager itself is as likely to be
    /// killed.
    own: Option<i16>,
    /// Processes that are started now inherit the readiness of ranks.
    is_raised: bool,
}

impl Readiness {
    /// `readiness`: how readily the kernel kills this manager.
    pub(super) fn new(readiness: Option<i16>) -> Self {
        Self { own: readiness.filter(|own| *own < oom::OF_RANKS), is_raised: false }
    }

    /// Several ranks are about to be started: they inherit their readiness. That takes less time than a file for each.
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
}
