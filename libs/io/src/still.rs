//! Keeps processes of a job still for a moment, so that they can be examined before a signal ends them.
//!
//! The freezer of a control group does that with one write for all its processes, and they do not notice it. Processes
//! outside the group, and all processes of a job without a group, get SIGSTOP.

use std::collections::BTreeSet;
use std::rc::Rc;

use nix::unistd::Pid;

use crate::cgroup::Cgroup;
use crate::tree::{self, Candidate, Stopped};

/// Processes that are still, or will be. Dropping this lets a frozen group run again, but continues nothing else.
#[derive(Debug, Default)]
pub struct Still {
    freezer: Option<Freezer>,
    stopped: Stopped,
}

/// A frozen control group.
#[derive(Debug)]
struct Freezer {
    group: Rc<Cgroup>,
    /// Its processes, as soon as all are frozen.
    members: Option<BTreeSet<Pid>>,
}

impl Still {
    /// Freezes the group, if there is one, and if this process has children at all.
    pub fn begin(group: Option<&Rc<Cgroup>>) -> Self {
        let group = group.filter(|_| !tree::own_children().is_empty());
        let frozen = group.filter(|group| group.freeze(true).is_ok());
        let freezer = frozen.map(|group| Freezer { group: Rc::clone(group), members: None });
        Self { freezer, stopped: Stopped::default() }
    }

    /// Stops the descendants outside the group that are `wanted`. Returns whether all are still and none can be
    /// missing, see [`Stopped::advance`].
    pub fn advance(&mut self, wanted: impl Fn(&Candidate) -> bool) -> bool {
        let Some(freezer) = &mut self.freezer else { return self.stopped.advance(wanted) };
        if freezer.members.is_none() && freezer.group.is_frozen() {
            freezer.members = freezer.group.members().ok();
        }
        let Some(members) = &freezer.members else { return false };
        self.stopped.advance(|process| !members.contains(&process.pid()) && wanted(process))
    }

    /// Judges the unwanted descendants again, see [`Stopped::judge_again`].
    pub fn judge_again(&mut self) {
        self.stopped.judge_again();
    }

    /// Whether all are still, as [`Still::advance`] returned last.
    pub fn is_complete(&self) -> bool {
        let is_frozen = |freezer: &Freezer| freezer.members.is_some();
        self.freezer.as_ref().is_none_or(is_frozen) && self.stopped.is_complete()
    }

    /// Whether there is nothing to wait for: no group, and no wanted descendant.
    pub fn is_empty(&self) -> bool {
        self.freezer.is_none() && self.stopped.is_empty()
    }

    /// All that are known.
    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        let members = self.freezer.iter().filter_map(|freezer| freezer.members.as_ref());
        members.flatten().copied().chain(self.stopped.pids())
    }

    /// Removes a process that was reaped: its number may be reused.
    pub fn forget(&mut self, pid: Pid) {
        self.freezer.iter_mut().filter_map(|freezer| freezer.members.as_mut()).for_each(
            |members| {
                members.remove(&pid);
            },
        );
        self.stopped.forget(pid);
    }

    /// Continues those that got SIGSTOP, and lets the group run again.
    pub fn resume(mut self) {
        std::mem::take(&mut self.stopped).resume();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        if let Err(e) = self.group.freeze(false) {
            // Its processes may have removed it.
            log::debug!("{}: cgroup.freeze: {e}", self.group.path().display());
        }
    }
}
