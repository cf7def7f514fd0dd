//! All descendants of this process: found through `/proc`, stopped, continued, killed.
//!
//! This process is a child subreaper, so whatever a descendant does (new sessions, double forks,
//! closed descriptors), it stays a descendant until we reap it. That nothing is left is *proved* by
//! the kernel saying that we have no child.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::{signals, status};

/// Orphans among our descendants become our children from now on.
///
/// # Errors
/// When the kernel refuses.
pub fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// The children of `pid`, of whichever of its threads. Empty when the process is gone.
pub fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok())
        .flat_map(|text| {
            text.split_ascii_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>()
        })
        .map(Pid::from_raw)
        .collect()
}

/// Every process of this host that can be seen now.
pub(crate) fn everybody() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

/// Every descendant of this process that can be seen now.
pub fn descendants() -> BTreeSet<Pid> {
    descendants_of(Pid::this())
}

/// Every descendant of a process that can be seen now.
pub fn descendants_of(pid: Pid) -> BTreeSet<Pid> {
    let mut found = BTreeSet::new();
    let mut queue = children(pid);
    while let Some(pid) = queue.pop() {
        if found.insert(pid) {
            queue.extend(children(pid));
        }
    }
    found
}

/// Sends SIGKILL to every child but `spared`. Grandchildren become children and come next time.
pub fn kill_children(spared: impl Fn(Pid) -> bool) {
    for pid in children(Pid::this()) {
        if !spared(pid) {
            // A pid in this list cannot be reused before we reap it.
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}

/// Passes over all descendants that are to be stopped.
const MAX_PASSES: usize = 50;

/// Stops every descendant. Passes go on until one finds nobody new, since a process may fork between
/// being found and being stopped; `MAX_PASSES` bounds a race that cannot be won.
pub fn stop_descendants() {
    let mut stopped = BTreeSet::new();
    for _ in 0..MAX_PASSES {
        let new: Vec<Pid> = descendants().difference(&stopped).copied().collect();
        if new.is_empty() {
            return;
        }
        for pid in new {
            let _ = kill(pid, Signal::SIGSTOP);
            stopped.insert(pid);
        }
    }
}

/// Stops descendants for a moment that none of them is to notice, and returns whom: neither those that handle SIGCONT
/// or wait for it nor what is below them, which they may be watching, as shells and debuggers do. Bounded as
/// [`stop_descendants`] is.
pub fn stop_unnoticed() -> BTreeSet<Pid> {
    let mut stopped = BTreeSet::new();
    for _ in 0..MAX_PASSES {
        let before = stopped.len();
        let mut queue = children(Pid::this());
        while let Some(pid) = queue.pop() {
            if !stopped.contains(&pid) {
                let status = status::of(pid);
                if signals::is_noticed(&status, Signal::SIGCONT) {
                    continue;
                }
                // One that was stopped before stays so afterwards.
                if !is_still(&status) && kill(pid, Signal::SIGSTOP).is_ok() {
                    stopped.insert(pid);
                }
            }
            queue.extend(children(pid));
        }
        if stopped.len() == before {
            break;
        }
    }
    stopped
}

/// Whether every descendant is stopped, or dead. A signal takes effect only when its process is next
/// scheduled.
pub fn descendants_are_stopped() -> bool {
    are_stopped(&descendants())
}

/// Whether these processes are stopped, or dead.
pub fn are_stopped(pids: &BTreeSet<Pid>) -> bool {
    pids.iter().all(|&pid| is_still(&status::of(pid)))
}

fn is_still(status: &str) -> bool {
    status::field(status, "State:").is_none_or(|state| state.starts_with(['T', 't', 'Z', 'X']))
}

/// Lets every descendant continue.
pub fn continue_descendants() {
    go_on(descendants());
}

/// Lets those of these processes continue that are still descendants.
pub fn continue_those(pids: &BTreeSet<Pid>) {
    go_on(descendants().intersection(pids).copied());
}

fn go_on(pids: impl IntoIterator<Item = Pid>) {
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

/// Looks for a child that has ended, without reaping it: until then its number is its own.
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
