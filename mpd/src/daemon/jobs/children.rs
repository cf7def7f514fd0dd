//! The children of the daemon that are not managers: helpers, and orphans of managers that died.

use std::collections::BTreeSet;
use std::time::Duration;

use mpd_io::tree::{self, Dead};
use mpd_machine::Time;
use nix::unistd::Pid;

/// The time between two attempts to kill all orphans.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

/// The helpers and the orphans.
#[derive(Debug, Default)]
pub(super) struct Children {
    /// Sweepers, and helpers that start lost members.
    helpers: BTreeSet<Pid>,
    /// The time of the next attempt to kill orphans.
    killing: Option<Time>,
}

impl Children {
    /// Adds a helper. It is reaped and never killed.
    pub(super) fn add_helper(&mut self, pid: Pid) {
        self.helpers.insert(pid);
    }

    /// Whether it still runs.
    pub(super) fn is_helper(&self, pid: Pid) -> bool {
        self.helpers.contains(&pid)
    }

    /// Whether no helper runs and no orphan is being killed.
    pub(super) fn is_idle(&self) -> bool {
        self.helpers.is_empty() && self.killing.is_none()
    }

    pub(super) const fn next_deadline(&self) -> Option<Time> {
        self.killing
    }

    /// Reaps children up to the first one that was not a helper, and returns that one.
    pub(super) fn reap(&mut self) -> Option<Pid> {
        while let Dead::Child(pid) = tree::next_dead() {
            tree::reap(pid);
            if !self.helpers.remove(&pid) {
                return Some(pid);
            }
        }
        None
    }

    /// A manager died. Its descendants become children of this process.
    pub(super) const fn expect_orphans(&mut self, now: Time) {
        self.killing = Some(now);
    }

    /// Kills orphans if it is time: the children that are neither helpers nor `managers`. Orphans of another user
    /// cannot be killed and continue.
    pub(super) fn kill_orphans(&mut self, now: Time, managers: impl Iterator<Item = Pid>) {
        if self.killing.is_none_or(|at| at > now) {
            return;
        }
        let mut known = self.helpers.clone();
        known.extend(managers);
        let immune = tree::kill_children(|pid| known.contains(&pid));
        let is_orphan = |pid: &Pid| !known.contains(pid) && !immune.contains(pid);
        let orphans = tree::own_children().iter().any(is_orphan);
        self.killing = orphans.then(|| now + KILL_INTERVAL);
        for pid in immune.into_iter().filter(|_| !orphans) {
            log::info!("cannot kill {}, which a job left behind", tree::describe(pid));
        }
    }
}
