//! All descendants of this process: found through `/proc`, stopped, continued, killed.
//!
//! This process is a child subreaper. So a descendant stays one until it is reaped, in spite of new sessions, double
//! forks and closed descriptors. The proof that no process is left is the kernel's answer that this process has no
//! child.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process::identity::user_name;
use crate::process::procfile;
use crate::process::signals;
use crate::process::spawn::{Fate, fate_in};
use crate::process::stat::Stat;
use crate::process::status;
use crate::raw::{self, peek};

/// Options of a look for dead children.
const DEAD: i32 = libc::WEXITED | libc::WNOHANG;

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
    match peek(None, DEAD) {
        Err(error) if is_childless(&error) => Vec::new(),
        _ => children(Pid::this()),
    }
}

/// Whether this is a child of this process, dead or alive, that was not reaped.
pub fn is_child(pid: Pid) -> bool {
    match peek(Some(pid.as_raw()), DEAD) {
        Ok(_) => true,
        Err(error) if is_childless(&error) => false,
        Err(_) => Stat::of(pid).is_some_and(|stat| stat.parent == Pid::this().as_raw()),
    }
}

/// Whether this error of a wait says that there is no such child. Every other one says nothing about children.
fn is_childless(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECHILD)
}

/// The children of all threads of `pid`. Empty if the process is gone. Where the kernel's list cannot be read, all
/// processes are asked for their parents.
pub fn children(pid: Pid) -> Vec<Pid> {
    match listed_children(pid) {
        Ok(children) => children,
        Err(_) if !exists(pid) => Vec::new(),
        Err(_) => with_parent(pid),
    }
}

/// The children in the kernel's lists. Some kernels keep none.
fn listed_children(pid: Pid) -> io::Result<Vec<Pid>> {
    let threads = format!("/proc/{pid}/task");
    // The directory has two links and one for each thread.
    if fs::metadata(&threads)?.nlink() == 3 {
        return children_of_thread(format!("{threads}/{pid}/children"));
    }
    let mut children = Vec::new();
    for thread in fs::read_dir(threads)? {
        let thread = thread?.path();
        match children_of_thread(thread.join("children")) {
            Ok(listed) => children.extend(listed),
            // The thread has ended.
            Err(_) if !thread.exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

fn children_of_thread(file: impl AsRef<Path>) -> io::Result<Vec<Pid>> {
    let text = procfile::table(file)?;
    let pids = text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    Ok(pids.map(Pid::from_raw).collect())
}

/// Whether there is such a process, living or dead. A process of another user counts.
fn exists(pid: Pid) -> bool {
    kill(pid, None) != Err(Errno::ESRCH)
}

/// The processes of this host with this parent.
fn with_parent(parent: Pid) -> Vec<Pid> {
    let is_child = |pid: &Pid| Stat::of(*pid).is_some_and(|stat| stat.parent == parent.as_raw());
    all_processes().filter(is_child).collect()
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
/// The living children of other users cannot be killed. Their descendants get SIGKILL, too.
pub fn kill_children(spared: impl Fn(Pid) -> bool) -> Killing {
    let children = own_children();
    let found_any = !children.is_empty();
    let mut immune = Vec::new();
    for pid in children {
        // A pid in this list cannot be reused before this process reaps it.
        // Processes of others may be hidden in /proc.
        if !spared(pid) && kill(pid, Signal::SIGKILL) == Err(Errno::EPERM) && !is_dead(pid) {
            immune.push(pid);
            for below in descendants_of(pid) {
                let _ = kill(below, Signal::SIGKILL);
            }
        }
    }
    Killing { immune, found_any }
}

/// What a round of killing has found.
#[derive(Debug)]
pub struct Killing {
    /// The living children of other users.
    pub immune: Vec<Pid>,
    /// Whether a child was found at all. There may be children, and the system does not say which.
    pub found_any: bool,
}

/// Whether this process exists and has not ended.
fn lives(pid: Pid) -> bool {
    state_of(pid).is_some_and(|state| !"ZX".contains(state))
}

/// The name of a process's program, as the kernel knows it, and the parent; `None`: the process is hidden, or has ended.
pub fn program_of(pid: Pid) -> Option<(String, Pid)> {
    let status = status::of(pid);
    let parent = status::field(&status, "PPid:")?.parse().ok()?;
    Some((status::field(&status, "Name:")?.to_owned(), Pid::from_raw(parent)))
}

/// The file that a process executes, also one that was removed. `None`: the process is closed to us, or has ended.
pub fn executable_of(pid: Pid) -> Option<PathBuf> {
    let file = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let removed = file.to_str().and_then(|text| text.strip_suffix(" (deleted)"));
    Some(removed.map(PathBuf::from).unwrap_or(file))
}

/// A description of a process for messages: its number, the name of its program, its user.
pub fn describe(pid: Pid) -> String {
    let name = program_of(pid).map_or_else(|| "?".to_owned(), |(name, _)| name);
    let owner = fs::metadata(format!("/proc/{pid}")).map(|metadata| user_name(metadata.uid()));
    let owner = owner.unwrap_or_else(|_| "?".to_owned());
    format!("process {pid} ({name}) of user {owner}")
}

/// Stops a process. Whether it got the signal.
pub fn stop(pid: Pid) -> bool {
    kill(pid, Signal::SIGSTOP).is_ok()
}

/// Whether a signal would have its default effect on a process now, see `signals::has_effect`, and whether the process is
/// stopped or gone.
pub fn effect(pid: Pid, signal: i32) -> (bool, bool) {
    let status = status::of(pid);
    let was_stopped = state_in(&status).is_none_or(is_stopped);
    (signals::has_effect(&status, signal), was_stopped)
}

/// Whether a process is stopped or dead. A signal takes effect only when its process is next scheduled. A child that
/// another process traces counts only if `also_traced`.
pub fn is_still(pid: Pid, also_traced: bool) -> bool {
    match peek(Some(pid.as_raw()), DEAD | libc::WSTOPPED) {
        Ok(Some(_)) => true,
        Ok(None) if !also_traced => false,
        // Perhaps traced, or not a child, or the kernel does not say.
        Ok(None) | Err(_) => {
            Stat::of(pid).is_none_or(|stat| is_stopped(stat.state) || stat.state == 'Z')
        }
    }
}

/// Whether a process with this letter of the kernel is gone, or runs again only when it is continued.
const fn is_stopped(state: char) -> bool {
    matches!(state, 'T' | 't' | 'X')
}

/// Whether a process is stopped, by a signal or by a tracer; `None` if it is gone, or its state cannot be read.
pub fn is_suspended(pid: Pid) -> Option<bool> {
    match Stat::of(pid)?.state {
        'Z' | 'X' => None,
        state => Some(is_stopped(state)),
    }
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

/// Lets these processes continue.
pub fn send_continue(pids: impl IntoIterator<Item = Pid>) {
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
    match peek(None, DEAD) {
        Ok(Some(pid)) => Dead::Child(Pid::from_raw(pid)),
        Ok(None) => Dead::None,
        Err(error) if is_childless(&error) => Dead::NoChildren,
        // A filter of system calls may refuse waitid(2).
        Err(_) => reap_next(),
    }
}

/// The child that [`reap_next`] has reaped, until [`reap`] takes its fate.
static REAPED: Mutex<Option<(Pid, Fate)>> = Mutex::new(None);

/// [`next_dead`] where the kernel does not let us look without reaping.
fn reap_next() -> Dead {
    let mut reaped = REAPED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((pid, _)) = *reaped {
        return Dead::Child(pid);
    }
    match raw::wait(-1, libc::WNOHANG) {
        Ok(Some((pid, status))) => match fate_in(status) {
            Some(fate) => Dead::Child(reaped.insert((Pid::from_raw(pid), fate)).0),
            None => Dead::None,
        },
        Err(error) if is_childless(&error) => Dead::NoChildren,
        // The end of the children is never concluded from another error.
        Ok(None) | Err(_) => Dead::None,
    }
}

/// Whether this child has ended and still has to be reaped. Takes the same time for any number of children, unlike
/// [`next_dead`].
pub fn is_dead(child: Pid) -> bool {
    match peek(Some(child.as_raw()), DEAD) {
        Ok(dead) => dead.is_some(),
        Err(error) if is_childless(&error) => false,
        Err(_) => Stat::of(child)
            .is_some_and(|stat| stat.state == 'Z' && stat.parent == Pid::this().as_raw()),
    }
}

/// Waits for the end of a child, without reaping it.
pub fn await_end(child: Pid) {
    /// The time between two looks, where a filter of system calls refuses the wait.
    const INTERVAL: Duration = Duration::from_millis(10);
    match peek(Some(child.as_raw()), libc::WEXITED) {
        Err(error) if !is_childless(&error) => {
            while lives(child) {
                std::thread::sleep(INTERVAL);
            }
        }
        Ok(_) | Err(_) => {}
    }
}

/// Reaps a child found by [`next_dead`] or [`is_dead`]. `None`: its fate is lost, since other code has reaped it.
pub fn reap(pid: Pid) -> Option<Fate> {
    let mut reaped = REAPED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, fate)) = reaped.take_if(|(dead, _)| *dead == pid) {
        return Some(fate);
    }
    let wait = || raw::wait(pid.as_raw(), libc::WNOHANG);
    // A call that fails has reaped nothing.
    wait().or_else(|_| wait()).ok().flatten().and_then(|(_, status)| fate_in(status))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::fd::AsFd as _;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::process::spawn::{Extra, Spawn};

    fn child(program: &str, argument: &str) -> Pid {
        let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let none: [&str; 0] = [];
        let spawn = Spawn::new(program.as_bytes(), [program, argument], none).unwrap();
        spawn.start(&[null.as_fd(); 3], Extra::default(), None).unwrap()
    }

    /// Waits until a child has ended. Nothing is reaped.
    fn end(pid: Pid) {
        while !is_dead(pid) {
            std::thread::yield_now();
        }
    }

    // All cases are in one test, because the question about any child concerns the whole process.
    #[test]
    fn a_child_that_any_signal_ended_is_found_and_reaped_with_the_number_of_the_signal() {
        assert_eq!((next_dead(), own_children()), (Dead::NoChildren, Vec::new()));
        let witness = child("/bin/sleep", "60");
        for signal in [libc::SIGTERM, libc::SIGKILL].into_iter().chain(32..=64) {
            let pid = child("/bin/sleep", "60");
            assert_eq!((next_dead(), is_dead(pid), is_child(pid)), (Dead::None, false, true));
            assert!(!is_still(pid, false));
            signals::send(pid, signal).unwrap();
            end(pid);
            assert!(is_child(pid) && is_still(pid, false) && !lives(pid), "{signal}");
            assert_eq!(next_dead(), Dead::Child(pid), "{signal}");
            assert_eq!(reap(pid), Some(Fate::Killed { signal, core: false }));
            assert_eq!((next_dead(), reap(pid), is_child(pid)), (Dead::None, None, false));
        }
        signals::send(witness, libc::SIGKILL).unwrap();
        end(witness);
        reap(witness);
        assert_eq!(next_dead(), Dead::NoChildren);
        assert_eq!(own_children(), []);
    }

    #[test]
    fn a_process_whose_name_is_no_text_lives_until_it_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let name = [directory.path().as_os_str().as_bytes(), b"/sl\xff\xfeep"].concat();
        fs::copy("/bin/sleep", Path::new(OsStr::from_bytes(&name))).unwrap();
        let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let none: [&str; 0] = [];
        let spawn = Spawn::new(&name, ["sleep", "60"], none).unwrap();
        let pid = spawn.start(&[null.as_fd(); 3], Extra::default(), None).unwrap();
        assert!(lives(pid) && !is_still(pid, true));
        assert_eq!(Stat::of(pid).map(|stat| stat.parent), Some(Pid::this().as_raw()));
        signals::send(pid, libc::SIGKILL).unwrap();
        end(pid);
        assert!(!lives(pid) && is_still(pid, true));
        reap(pid);
    }

    #[test]
    fn without_a_look_at_the_dead_they_are_reaped_at_once_and_their_fate_is_kept() {
        let pid = child("/bin/sh", "/nonexistent");
        end(pid);
        // Another test of this process may have children, too.
        while reap_next() != Dead::Child(pid) {}
        assert_eq!(reap_next(), Dead::Child(pid), "it waits until it is taken");
        assert!(matches!(reap(pid), Some(Fate::Exited(code)) if code != 0));
        assert_eq!(reap(pid), None);
    }

    #[test]
    fn a_stopped_process_is_still_until_it_is_continued_and_gets_its_signals_then() {
        let pid = child("/bin/sleep", "60");
        assert_eq!(effect(pid, libc::SIGTERM), (true, false));
        assert!(stop(pid));
        while !is_still(pid, false) {
            std::thread::yield_now();
        }
        assert_eq!(effect(pid, libc::SIGTERM), (true, true));
        signals::send(pid, libc::SIGTERM).unwrap();
        send_continue([pid]);
        end(pid);
        assert_eq!(reap(pid), Some(Fate::Killed { signal: libc::SIGTERM, core: false }));
        assert!(!stop(pid), "it is gone");
    }
}
