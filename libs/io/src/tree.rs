//! All descendants of this process: found through `/proc`, stopped, continued, killed.
//!
//! This process is a child subreaper. So a descendant stays one until it is reaped, in spite of new sessions, double
//! forks and closed descriptors. The proof that no process is left is the kernel's answer that this process has no
//! child.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::procfile;
use crate::rundir::user_name;
use crate::signals;
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

/// Whether this is a child of this process, dead or alive, that was not reaped.
pub fn is_child(pid: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(pid), flags).is_ok()
}

/// The children of all threads of `pid`. Empty if the process is gone.
pub fn children(pid: Pid) -> Vec<Pid> {
    let threads = format!("/proc/{pid}/task");
    // The directory has two links and one for each thread.
    if fs::metadata(&threads).is_ok_and(|metadata| metadata.nlink() == 3) {
        return children_of_thread(format!("{threads}/{pid}/children"));
    }
    let Ok(threads) = fs::read_dir(threads) else { return Vec::new() };
    let files = threads.filter_map(|thread| Some(thread.ok()?.path().join("children")));
    files.flat_map(children_of_thread).collect()
}

fn children_of_thread(file: impl AsRef<Path>) -> Vec<Pid> {
    let text = procfile::table(file).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
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

/// A descendant that may be stopped. Its data is read when it is asked for.
#[derive(Debug)]
pub struct Candidate {
    pid: Pid,
    status: OnceCell<String>,
}

impl Candidate {
    /// Its process id.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether a signal would have its default effect on it now, see `signals::has_effect`.
    pub fn takes_effect(&self, signal: i32) -> bool {
        signals::has_effect(self.status.get_or_init(|| status::of(self.pid)), signal)
    }

    /// Whether it was stopped when its data was read. Unknown counts as running.
    fn was_stopped(&self) -> bool {
        self.status.get().is_some_and(|status| state_in(status).is_none_or(is_stopped))
    }
}

/// Descendants that this process has stopped and will continue later.
///
/// A process may fork until it is still. So its children are looked up when it is still, once. Its orphans become
/// children of this process, which are looked up each time.
#[derive(Debug, Default)]
pub struct Stopped {
    /// The processes to stop.
    seen: BTreeSet<Pid>,
    /// Those that were not stopped before.
    ours: BTreeSet<Pid>,
    /// Those that may not be still.
    moving: Vec<Pid>,
    unwanted: BTreeSet<Pid>,
    advances: u32,
}

/// Only every so many calls look in `/proc` for children that the kernel does not report as still: other processes may
/// trace them. That costs twenty times as much.
const ADVANCES_PER_LOOK: u32 = 4;

impl Stopped {
    /// Stops the descendants that are `wanted`, but none below an unwanted one. Each is judged once. Returns whether
    /// all are still, and none can be missing. To be called again until then, after a pause.
    pub fn advance(&mut self, wanted: impl Fn(&Candidate) -> bool) -> bool {
        self.advance_among(own_children(), wanted)
    }

    /// The same with the present children of this process.
    pub(crate) fn advance_among(
        &mut self,
        mut found: Vec<Pid>,
        wanted: impl Fn(&Candidate) -> bool,
    ) -> bool {
        self.advances = self.advances.wrapping_add(1);
        let also_traced = self.advances.is_multiple_of(ADVANCES_PER_LOOK);
        for pid in std::mem::take(&mut self.moving) {
            if is_still(pid, also_traced) {
                found.extend(children(pid));
            } else {
                self.moving.push(pid);
            }
        }
        for pid in found {
            if !self.seen.contains(&pid) && !self.unwanted.contains(&pid) {
                self.add(Candidate { pid, status: OnceCell::new() }, &wanted);
            }
        }
        self.moving.is_empty()
    }

    fn add(&mut self, candidate: Candidate, wanted: impl Fn(&Candidate) -> bool) {
        let pid = candidate.pid;
        if !wanted(&candidate) {
            self.unwanted.insert(pid);
            return;
        }
        if kill(pid, Signal::SIGSTOP).is_ok() && !candidate.was_stopped() {
            self.ours.insert(pid);
        }
        self.seen.insert(pid);
        self.moving.push(pid);
    }

    /// Judges the unwanted descendants again, for another purpose.
    pub fn judge_again(&mut self) {
        self.unwanted.clear();
    }

    /// Whether all are still, as [`Stopped::advance`] returned last.
    pub const fn is_complete(&self) -> bool {
        self.moving.is_empty()
    }

    /// Whether no descendant was wanted.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// All of them, in order.
    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        self.seen.iter().copied()
    }

    /// Removes a process that was reaped: its number may be reused.
    pub fn forget(&mut self, pid: Pid) {
        self.seen.remove(&pid);
        self.ours.remove(&pid);
        self.unwanted.remove(&pid);
    }

    /// Continues the processes.
    pub fn resume(self) {
        send_continue(self.ours);
    }
}

/// Whether a process is stopped or dead. A signal takes effect only when its process is next scheduled. A child that
/// another process traces counts only if `also_traced`.
pub fn is_still(pid: Pid, also_traced: bool) -> bool {
    let flags =
        WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(pid), flags) {
        Ok(WaitStatus::StillAlive) if !also_traced => false,
        // Not a child, or perhaps traced.
        Ok(WaitStatus::StillAlive) | Err(_) => {
            Stat::of(pid).is_none_or(|stat| is_stopped(stat.state) || stat.state == 'Z')
        }
        Ok(_) => true,
    }
}

/// Whether a process with this letter of the kernel is gone, or runs again only when it is continued.
const fn is_stopped(state: char) -> bool {
    matches!(state, 'T' | 't' | 'X')
}

/// The kernel's letter for the state of a process; `None` if it is gone.
fn state_of(pid: Pid) -> Option<char> {
    state_in(&status::of(pid))
}

fn state_in(status: &str) -> Option<char> {
    status::field(status, "State:")?.chars().next()
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

/// Whether this child has ended and still has to be reaped. Takes the same time for any number of children, unlike
/// [`next_dead`].
pub fn is_dead(child: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    matches!(waitid(Id::Pid(child), flags), Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)))
}

/// Reaps a child found by [`next_dead`] or [`is_dead`].
pub fn reap(pid: Pid) -> Option<WaitStatus> {
    waitpid(pid, Some(WaitPidFlag::WNOHANG)).ok()
}
