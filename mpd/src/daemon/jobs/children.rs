//! The children of the daemon that are not managers: helpers, orphans of managers that died, and processes that have
//! nothing to do with jobs. The first process of a container gets every orphan of the container.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpd_io::process::spawn::Fate;
use mpd_io::process::sweep;
use mpd_io::process::tree::{self, Dead};
use mpd_sansio::Time;
use nix::unistd::{Pid, getsid};

/// The time between two attempts to kill all orphans.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

/// How long orphans are not killed while one of them may be a new manager in waiting. A later one is killed, and replaced.
const COPY_PATIENCE: Duration = Duration::from_millis(100);

/// Most dead managers whose orphans are looked for at a time. Beyond, those of the earliest ones stay.
const MAX_DEAD: usize = 256;

/// The number of the first process of a process namespace, which gets all orphans of the namespace.
const FIRST_PROCESS: i32 = 1;

/// A manager that died. Its orphans have its session or its job's cookie.
#[derive(Debug)]
struct DeadManager {
    session: Pid,
    cookie: String,
}

impl DeadManager {
    fn had(&self, pid: Pid) -> bool {
        getsid(Some(pid)) == Ok(self.session) || sweep::carries(pid, &self.cookie)
    }
}

/// The helpers and the orphans.
#[derive(Debug, Default)]
pub(super) struct Children {
    /// Sweepers, and helpers that start lost members.
    helpers: BTreeSet<Pid>,
    /// Helpers that are awaited, and how they have ended.
    awaited: BTreeMap<Pid, Option<Fate>>,
    /// Children that this process had before it became a daemon.
    inherited: BTreeSet<Pid>,
    /// Managers whose orphans are being killed.
    dead: Vec<DeadManager>,
    /// The time of the next attempt to kill orphans.
    killing: Option<Time>,
    /// Until then, an unknown child may be a manager that the fork server has just made.
    spared_until: Time,
}

impl Children {
    /// Adds children that this process had before it became a daemon. They are reaped and never killed.
    pub(super) fn inherit(&mut self, children: Vec<Pid>) {
        self.inherited.extend(children);
    }

    /// Adds a helper. It is reaped and never killed.
    pub(super) fn add_helper(&mut self, pid: Pid) {
        self.helpers.insert(pid);
    }

    /// Adds a helper whose end is kept until it is asked for.
    pub(super) fn await_helper(&mut self, pid: Pid) {
        self.add_helper(pid);
        self.awaited.insert(pid, None);
    }

    /// How an awaited helper has ended, once.
    pub(super) fn take_fate(&mut self, pid: Pid) -> Option<Fate> {
        let fate = (*self.awaited.get(&pid)?)?;
        self.awaited.remove(&pid);
        Some(fate)
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

    /// Reaps children up to the first one that was not a helper, and returns that one and its fate, if that is known.
    pub(super) fn reap(&mut self) -> Option<(Pid, Option<Fate>)> {
        while let Dead::Child(pid) = tree::next_dead() {
            let fate = tree::reap(pid);
            if let Some(awaited) = self.awaited.get_mut(&pid) {
                *awaited = fate.or(Some(Fate::Killed { signal: libc::SIGKILL, core: false }));
            }
            self.inherited.remove(&pid);
            if !self.helpers.remove(&pid) {
                return Some((pid, fate));
            }
        }
        None
    }

    /// A manager died. Its descendants become children of this process.
    pub(super) fn expect_orphans(&mut self, now: Time, manager: Option<Pid>, cookie: String) {
        if let Some(session) = manager.filter(|_| self.dead.len() < MAX_DEAD) {
            self.dead.push(DeadManager { session, cookie });
        }
        if self.killing.is_none() {
            self.spared_until = now + COPY_PATIENCE;
        }
        self.killing = Some(now);
    }

    /// Whether this child may be an orphan of a manager. Only the first process gets other orphans.
    fn is_ours(&self, pid: Pid) -> bool {
        Pid::this().as_raw() != FIRST_PROCESS || self.dead.iter().any(|manager| manager.had(pid))
    }

    /// Kills orphans if it is time: the children that are neither helpers nor `managers`, and come from a manager.
    /// Orphans of another user cannot be killed and continue. `is_copying`: the fork server has not answered yet.
    /// Returns whether a copy may have been killed.
    pub(super) fn kill_orphans(
        &mut self,
        now: Time,
        managers: impl Iterator<Item = Pid>,
        is_copying: bool,
    ) -> bool {
        if self.killing.is_none_or(|at| at > now) {
            return false;
        }
        let mut known = self.helpers.clone();
        known.extend(managers);
        known.extend(&self.inherited);
        let unknown = tree::own_children().into_iter().filter(|pid| !known.contains(pid));
        let (orphans, strangers): (Vec<Pid>, Vec<Pid>) =
            unknown.partition(|&pid| self.is_ours(pid));
        if orphans.is_empty() {
            self.killing = None;
            self.dead.clear();
            return false;
        }
        if is_copying && now < self.spared_until {
            self.killing = Some(now + KILL_INTERVAL);
            return false;
        }
        known.extend(strangers);
        let immune = tree::kill_children(|pid| known.contains(&pid)).immune;
        let is_orphan = |pid: &Pid| !known.contains(pid) && !immune.contains(pid);
        let orphans = tree::own_children().iter().any(is_orphan);
        self.killing = orphans.then(|| now + KILL_INTERVAL);
        if !orphans {
            self.dead.clear();
        }
        for pid in immune.into_iter().filter(|_| !orphans) {
            log::info!("cannot kill {}, which a job left behind", tree::describe(pid));
        }
        is_copying
    }
}
