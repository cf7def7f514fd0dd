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
    /// The group that is still to be frozen.
    group: Option<Rc<Cgroup>>,
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
    /// Nothing is still before the first [`Still::advance`].
    pub fn begin(group: Option<&Rc<Cgroup>>) -> Self {
        Self { group: group.cloned(), freezer: None, stopped: Stopped::default() }
    }

    /// Freezes the group, if there is one and this process has children at all. Stops the descendants outside the group
    /// that are `wanted`. Returns whether all are still and none can be missing, see [`Stopped::advance`].
    pub fn advance(&mut self, wanted: impl Fn(&Candidate) -> bool) -> bool {
        let children = tree::own_children();
        let group =
            self.group.take().filter(|group| !children.is_empty() && group.freeze(true).is_ok());
        self.freezer = group.map(|group| Freezer { group, members: None }).or(self.freezer.take());
        let Some(freezer) = &mut self.freezer else {
            return self.stopped.advance_among(children, wanted);
        };
        if freezer.members.is_none() && freezer.group.is_frozen() {
            freezer.members = freezer.group.members().ok();
        }
        let Some(members) = &freezer.members else { return false };
        let is_outside = |process: &Candidate| !members.contains(&process.pid());
        self.stopped.advance_among(children, |process| is_outside(process) && wanted(process))
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

    /// All processes that are known.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use nix::sys::signal::{Signal, kill};

    use super::*;

    fn wait_until(mut is_true: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_true() {
            assert!(Instant::now() < deadline, "not within 10 s");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_processes_of_a_group_are_frozen_and_run_again_at_the_end() {
        let name = format!("mpd-test-{}", std::process::id());
        // Only systems that permit groups have something to test.
        let Some(group) = Cgroup::create(&name).map(Rc::new) else { return };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        fs::write(group.path().join("cgroup.procs"), pid.to_string()).unwrap();
        let mut still = Still::begin(Some(&group));
        wait_until(|| still.advance(|_| panic!("every process is in the group")));
        assert!(still.is_complete() && !still.is_empty() && group.is_frozen());
        assert_eq!(still.pids().collect::<Vec<_>>(), [pid]);
        assert_eq!(child.try_wait().unwrap(), None);
        kill(pid, Signal::SIGTERM).unwrap();
        still.resume();
        assert!(!group.is_frozen());
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
        group.remove().unwrap();
    }

    #[test]
    fn without_a_group_the_wanted_processes_are_stopped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        let mut still = Still::begin(None);
        assert!(still.advance(|_| false) && still.is_empty(), "none is wanted");
        still.judge_again();
        wait_until(|| still.advance(|process| process.pid() == pid));
        assert_eq!(still.pids().collect::<Vec<_>>(), [pid]);
        kill(pid, Signal::SIGTERM).unwrap();
        still.resume();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
    }
}
