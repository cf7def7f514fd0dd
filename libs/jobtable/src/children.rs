//! The children of the daemon that are not managers: helpers, orphans of managers that died, and processes that have
//! nothing to do with jobs. The first process of a container gets every orphan of the container.

use std::collections::BTreeSet;
use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::Pid;

/// The time between two attempts to kill all orphans.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

/// How long orphans are not killed while one of them may be a new manager in waiting. A later one is killed, and replaced.
const COPY_PATIENCE: Duration = Duration::from_millis(100);

/// Most dead managers whose orphans are looked for at a time. Beyond, those of the earliest ones stay.
const MAX_DEAD: usize = 256;

/// A manager that died. Its orphans have its session or its job's cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadManager {
    pub session: Pid,
    pub cookie: String,
}

/// The helpers and the orphans.
#[derive(Debug)]
pub(crate) struct Children {
    /// Sweepers, and helpers that start lost members.
    helpers: BTreeSet<Pid>,
    /// Children that this process had before it became a daemon, and managers in waiting that end.
    inherited: BTreeSet<Pid>,
    /// Managers whose orphans are being killed.
    dead: Vec<DeadManager>,
    /// The time of the next attempt to kill orphans.
    killing: Option<Time>,
    /// Until then, an unknown child may be a manager that the fork server has just made.
    spared_until: Time,
}

impl Children {
    /// `inherited` are reaped and never killed.
    pub(crate) fn new(inherited: Vec<Pid>) -> Self {
        Self {
            helpers: BTreeSet::new(),
            inherited: inherited.into_iter().collect(),
            dead: Vec::new(),
            killing: None,
            spared_until: Time::ZERO,
        }
    }

    /// Adds a helper. It is reaped and never killed.
    pub(crate) fn add_helper(&mut self, pid: Pid) {
        self.helpers.insert(pid);
    }

    /// This child ends by itself, and a daemon with such children is idle.
    pub(crate) fn let_end(&mut self, pid: Pid) {
        self.inherited.insert(pid);
    }

    /// Whether it still runs.
    pub(crate) fn is_helper(&self, pid: Pid) -> bool {
        self.helpers.contains(&pid)
    }

    /// Whether no helper runs and no orphan is being killed.
    pub(crate) fn is_idle(&self) -> bool {
        self.helpers.is_empty() && self.killing.is_none()
    }

    pub(crate) const fn next_deadline(&self) -> Option<Time> {
        self.killing
    }

    /// A child was reaped. Whether it was a helper.
    pub(crate) fn remove(&mut self, pid: Pid) -> bool {
        self.inherited.remove(&pid);
        self.helpers.remove(&pid)
    }

    /// A manager died. Its descendants become children of this process.
    pub(crate) fn expect_orphans(&mut self, now: Time, manager: Option<Pid>, cookie: String) {
        if let Some(session) = manager.filter(|_| self.dead.len() < MAX_DEAD) {
            self.dead.push(DeadManager { session, cookie });
        }
        if self.killing.is_none() {
            self.spared_until = now + COPY_PATIENCE;
        }
        self.killing = Some(now);
    }

    /// Whether it is time to kill orphans.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.killing.is_some_and(|at| at <= now)
    }

    /// The children that are never killed: `managers`, helpers, and those that were there before.
    pub(crate) fn known(&self, managers: impl Iterator<Item = Pid>) -> BTreeSet<Pid> {
        let mut known = self.helpers.clone();
        known.extend(managers);
        known.extend(&self.inherited);
        known
    }

    /// The managers whose orphans are being killed.
    pub(crate) fn dead(&self) -> Vec<DeadManager> {
        self.dead.clone()
    }

    /// Whether an unknown child may still be a new manager in waiting.
    pub(crate) fn spares(&self, now: Time) -> bool {
        now < self.spared_until
    }

    /// Orphans are left.
    pub(crate) fn try_later(&mut self, now: Time) {
        self.killing = Some(now + KILL_INTERVAL);
    }

    /// No orphan is left that can be killed.
    pub(crate) fn end_kill(&mut self) {
        self.killing = None;
        self.dead.clear();
    }
}
