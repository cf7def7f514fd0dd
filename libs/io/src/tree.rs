//! All descendants of this process: found through `/proc`, stopped, continued, killed.
//!
//! This process is a child subreaper. So a descendant stays one until it is reaped, in spite of new sessions, double
//! forks and closed descriptors. The proof that no process is left is the kernel's answer that this process has no
//! child.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::procfile;
use crate::rundir::user_name;
use crate::stat::Stat;
use crate::status;

/// Makes orphans among our descendants our children from now on.
///
/// # Errors
/// The kernel refuses.
pub fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// The children of this process.
pub fn own_children() -> Vec<Pid> {
    // The kernel answers this question faster than it lists children.
    if next_dead() == Dead::NoChildren { Vec::new() } else { children(Pid::this()) }
}

/// The children of all threads of `pid`. Empty if the process is gone.
pub fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads
        .filter_map(|thread| procfile::table(thread.ok()?.path().join("children")).ok())
        .flat_map(|text| {
            text.split_ascii_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>()
        })
        .map(Pid::from_raw)
        .collect()
}

/// Every process of this host that `/proc` lists now.
pub(crate) fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

/// Every descendant of this process that can be seen now.
pub fn descendants() -> BTreeSet<Pid> {
    below(own_children())
}

/// Every descendant of a process that can be seen now.
pub fn descendants_of(pid: Pid) -> BTreeSet<Pid> {
    below(children(pid))
}

/// These processes and all their descendants that can be seen now.
fn below(mut queue: Vec<Pid>) -> BTreeSet<Pid> {
    let mut found = BTreeSet::new();
    while let Some(pid) = queue.pop() {
        if found.insert(pid) {
            queue.extend(children(pid));
        }
    }
    found
}

/// Whether a process is a descendant of another; `None` if it is gone, or was orphaned again and again meanwhile.
pub(crate) fn descends(pid: Pid, ancestor: Pid) -> Option<bool> {
    const TRIES: usize = 5;
    (0..TRIES).find_map(|_| ancestry_has(pid, ancestor))
}

/// Follows the parents from `pid`. `None` if a process on the way has ended: its child has another parent now.
fn ancestry_has(pid: Pid, ancestor: Pid) -> Option<bool> {
    let mut at = pid;
    while at.as_raw() > 1 {
        at = Pid::from_raw(Stat::of(at)?.parent);
        if at == ancestor {
            return Some(true);
        }
    }
    Some(false)
}

/// Sends SIGKILL to every child except the `spared` ones. Orphaned grandchildren become children, for the next call.
/// Returns the living children of other users, which cannot be killed. Their descendants get SIGKILL, too.
pub fn kill_children(spared: impl Fn(Pid) -> bool) -> Vec<Pid> {
    let mut immune = Vec::new();
    for pid in own_children() {
        // A pid in this list cannot be reused before this process reaps it.
        if !spared(pid) && kill(pid, Signal::SIGKILL) == Err(Errno::EPERM) && lives(pid) {
            immune.push(pid);
            for below in descendants_of(pid) {
                let _ = kill(below, Signal::SIGKILL);
            }
        }
    }
    immune
}

/// Whether this process exists and has not ended.
pub fn lives(pid: Pid) -> bool {
    state_of(pid).is_some_and(|state| !"ZX".contains(state))
}

/// A description of a process for messages: its number, the name of its program, its user.
pub fn describe(pid: Pid) -> String {
    let name = status::field(&status::of(pid), "Name:").unwrap_or("?").to_owned();
    let owner = fs::metadata(format!("/proc/{pid}")).map(|metadata| user_name(metadata.uid()));
    let owner = owner.unwrap_or_else(|_| "?".to_owned());
    format!("process {pid} ({name}) of user {owner}")
}

/// Most passes over all descendants that are to be stopped.
const MAX_PASSES: usize = 50;

/// Descendants that this process has stopped and will continue later.
#[derive(Debug, Default)]
pub struct Stopped {
    seen: BTreeSet<Pid>,
    /// Those that were not stopped before.
    ours: BTreeSet<Pid>,
}

impl Stopped {
    /// Stops the descendants that are `wanted`, but none below an unwanted one. Returns whether any was new. Passes are
    /// repeated until one finds no new process, because a process may fork before it is stopped. The number of passes
    /// is bounded.
    pub fn add(&mut self, wanted: impl Fn(Pid) -> bool) -> bool {
        let before = self.seen.len();
        for _ in 0..MAX_PASSES {
            let known = self.seen.len();
            self.pass(&wanted);
            if self.seen.len() == known {
                break;
            }
        }
        self.seen.len() > before
    }

    fn pass(&mut self, wanted: impl Fn(Pid) -> bool) {
        let mut queue = own_children();
        while let Some(pid) = queue.pop() {
            if !self.seen.contains(&pid) {
                if !wanted(pid) {
                    continue;
                }
                let was_stopped = state_of(pid).is_none_or(|state| "TtX".contains(state));
                if kill(pid, Signal::SIGSTOP).is_ok() && !was_stopped {
                    self.ours.insert(pid);
                }
                self.seen.insert(pid);
            }
            queue.extend(children(pid));
        }
    }

    /// Whether no descendant was wanted.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Whether all of them have stopped: the signal takes effect when a process is next scheduled.
    pub fn are_still(&self) -> bool {
        self.ours.iter().all(|&pid| is_still(pid))
    }

    /// Removes a process that was reaped: its number may be reused.
    pub fn forget(&mut self, pid: Pid) {
        self.seen.remove(&pid);
        self.ours.remove(&pid);
    }

    /// Continues the processes.
    pub fn resume(self) {
        send_continue(self.ours);
    }
}

/// Stops every descendant.
pub fn stop_descendants() {
    Stopped::default().add(|_| true);
}

/// Whether every descendant is stopped or dead. A signal takes effect only when its process is next scheduled.
pub fn descendants_are_stopped() -> bool {
    descendants().into_iter().all(is_still)
}

/// Whether a process is stopped or dead.
fn is_still(pid: Pid) -> bool {
    state_of(pid).is_none_or(|state| "TtZX".contains(state))
}

/// The kernel's letter for the state of a process; `None` if it is gone.
fn state_of(pid: Pid) -> Option<char> {
    status::field(&status::of(pid), "State:")?.chars().next()
}

/// Lets every descendant continue.
pub fn continue_descendants() {
    send_continue(descendants());
}

fn send_continue(pids: BTreeSet<Pid>) {
    for pid in pids {
        let _ = kill(pid, Signal::SIGCONT);
    }
}

/// What [`next_dead`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dead {
    /// This child ended and still has to be reaped with [`reap`].
    Child(Pid),
    /// Children live; none has ended.
    None,
    /// There is no child at all, living or dead.
    NoChildren,
}

/// Finds a child that has ended, without reaping it: until then its number is not reused.
pub fn next_dead() -> Dead {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::All, flags) {
            Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => {
                return Dead::Child(pid);
            }
            Ok(_) => return Dead::None,
            Err(Errno::EINTR) => {}
            Err(_) => return Dead::NoChildren,
        }
    }
}

/// Reaps a child found by [`next_dead`].
pub fn reap(pid: Pid) -> Option<WaitStatus> {
    waitpid(pid, Some(WaitPidFlag::WNOHANG)).ok()
}
