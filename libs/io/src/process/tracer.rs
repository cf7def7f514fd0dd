//! Watches a program and all its descendants for signals of crashes, and stops a process before such a signal ends it.
//! The method is ptrace(2) with PTRACE_SEIZE.
//!
//! Nothing else changes: other signals arrive, stopping and continuing works, and a process that handles such a signal
//! itself continues. Tracing costs time only at signals and at new processes and threads.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process::signals::is_default;
use crate::process::spawn::{Fate, fate_in};
use crate::process::status::{self, field};
use crate::process::tree::children;
use crate::raw::{new_thread, ptrace, tgkill, wait};

/// Signals of crashes.
const ACCIDENTS: [i32; 7] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];

/// New processes and threads are traced, too. The kernel kills all of them if this process is killed.
const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_EXITKILL;

/// The longest time in which the threads of a crashing process must stop.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// An event of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process of the program was about to die of the signal. It is stopped and not traced. [`let_die`] sends the
    /// signal again.
    Crashed {
        /// The process.
        pid: Pid,
        /// The thread that received the signal.
        tid: Pid,
        /// The signal's number.
        signal: i32,
    },
    /// The child has ended.
    Ended(Fate),
    /// Another child of this process has ended, which is not traced here.
    OtherEnded(Pid, Fate),
}

/// Watches one child.
#[derive(Debug)]
pub struct Tracer {
    child: Pid,
    /// Threads that are traced.
    traced: BTreeSet<libc::pid_t>,
}

impl Tracer {
    /// Watches a child from now on.
    ///
    /// # Errors
    /// It may not be traced.
    pub fn seize(child: Pid) -> io::Result<Self> {
        ptrace(libc::PTRACE_SEIZE, child.as_raw(), OPTIONS)?;
        Ok(Self { child, traced: BTreeSet::from([child.as_raw()]) })
    }

    /// The next event, without waiting. Each SIGCHLD may bring one.
    ///
    /// # Errors
    /// The child does not exist any more.
    pub fn poll_event(&mut self) -> io::Result<Option<Event>> {
        self.event(libc::WNOHANG)
    }

    fn event(&mut self, options: i32) -> io::Result<Option<Event>> {
        loop {
            let Some((pid, status)) = wait(-1, libc::__WALL | options)? else { return Ok(None) };
            if let Some(fate) = fate_in(status) {
                let was_traced = self.traced.remove(&pid);
                if pid == self.child.as_raw() {
                    return Ok(Some(Event::Ended(fate)));
                }
                if !was_traced {
                    return Ok(Some(Event::OtherEnded(Pid::from_raw(pid), fate)));
                }
            } else if libc::WIFSTOPPED(status) {
                self.traced.insert(pid);
                self.traced.extend(begun(pid, status));
                if let Some(crashed) = self.stopped(pid, status) {
                    return Ok(Some(crashed));
                }
            }
        }
    }

    /// Stops tracing, and continues the remaining threads. Otherwise the kernel would kill them at the end of this
    /// process.
    pub fn let_go(mut self) {
        let until = Instant::now() + STOP_PATIENCE;
        let has_ended = |error: io::Error| error.raw_os_error() == Some(libc::ESRCH);
        self.traced.retain(|tid| !ptrace(libc::PTRACE_INTERRUPT, *tid, 0).is_err_and(has_ended));
        while !self.traced.is_empty() && Instant::now() < until {
            match wait(-1, libc::__WALL | libc::WNOHANG) {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Ok(Some((tid, status))) => {
                    self.traced.remove(&tid);
                    if libc::WIFSTOPPED(status) {
                        self.traced.extend(begun(tid, status));
                        let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
                        let _ = ptrace(libc::PTRACE_DETACH, tid, signal);
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Continues a stopped thread as without tracing, unless the thread is about to crash. Errors are ignored, because
    /// the thread may have died in the meantime.
    fn stopped(&mut self, tid: libc::pid_t, status: i32) -> Option<Event> {
        let signal = libc::WSTOPSIG(status);
        let stops = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        match status >> 16 {
            libc::PTRACE_EVENT_STOP if stops => drop(ptrace(libc::PTRACE_LISTEN, tid, 0)),
            0 if ACCIDENTS.contains(&signal) => {
                if let Some(pid) = victim(tid, signal) {
                    let released = release(pid, tid);
                    self.traced.retain(|tid| !released.contains(tid));
                    let (pid, tid) = (Pid::from_raw(pid), Pid::from_raw(tid));
                    return Some(Event::Crashed { pid, tid, signal });
                }
                let _ = ptrace(libc::PTRACE_CONT, tid, signal);
            }
            0 => drop(ptrace(libc::PTRACE_CONT, tid, signal)),
            _ => drop(ptrace(libc::PTRACE_CONT, tid, 0)),
        }
        None
    }
}

/// The new thread or process, if a stopped thread has just begun one. It is traced from its beginning.
fn begun(tid: libc::pid_t, status: i32) -> Option<libc::pid_t> {
    let begins = [libc::PTRACE_EVENT_CLONE, libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK];
    if begins.contains(&(status >> 16)) { new_thread(tid).ok() } else { None }
}

/// Lets a process that crashed die of its signal.
pub fn let_die(pid: Pid, signal: i32) {
    if let Ok(signal) = Signal::try_from(signal) {
        let _ = kill(pid, signal);
    }
    let _ = kill(pid, Signal::SIGCONT);
}

/// The processes below `watcher` that crashed and that it traces no more; they still have to die.
pub fn caught_by(watcher: Pid) -> Vec<Pid> {
    let mut caught = Vec::new();
    let mut queue = VecDeque::from(children(watcher));
    while let Some(pid) = queue.pop_front() {
        queue.extend(children(pid));
        let status = status::of(pid);
        let tracer =
            field(&status, "TracerPid:").and_then(|pid| pid.parse().ok()).map(Pid::from_raw);
        if !is_dead(&status) && tracer != Some(watcher) {
            caught.push(pid);
        }
    }
    caught
}

/// The process that dies if that signal reaches the thread; `None` if the signal is handled or ignored. A signal that
/// the thread itself causes kills it even if it is blocked.
fn victim(tid: libc::pid_t, signal: i32) -> Option<libc::pid_t> {
    if !is_default(Pid::from_raw(tid), Signal::try_from(signal).ok()?) {
        return None;
    }
    field(&status::of(Pid::from_raw(tid)), "Tgid:")?.parse().ok()
}

/// Stops the process, one thread of which is about to crash, and stops tracing it, so that a debugger can attach.
/// Returns its threads.
///
/// None of its threads continues before all have a stop pending. Otherwise another thread that is about to crash would
/// end the process.
fn release(pid: libc::pid_t, crashed: libc::pid_t) -> BTreeSet<libc::pid_t> {
    let until = Instant::now() + STOP_PATIENCE;
    let mut seen = BTreeSet::from([crashed]);
    let mut stopped = Vec::new();
    loop {
        let new: Vec<_> = threads(pid).into_iter().filter(|tid| seen.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        // Threads may be in a stop already; most others come to one soon.
        new.iter().for_each(|tid| drop(ptrace(libc::PTRACE_INTERRUPT, *tid, 0)));
        for tid in new {
            let Some(status) = stop_of(tid, until) else { continue };
            let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
            // A thread that is also about to crash repeats its crash when it continues.
            if signal != 0 && !ACCIDENTS.contains(&signal) {
                let _ = tgkill(pid, tid, signal);
            }
            stopped.push(tid);
        }
    }
    // Once one thread has taken SIGSTOP, all others stop as soon as they continue, and take no signal before that.
    let _ = ptrace(libc::PTRACE_CONT, crashed, libc::SIGSTOP);
    stop_of(crashed, Instant::now() + STOP_PATIENCE);
    for tid in stopped.into_iter().chain([crashed]) {
        let _ = ptrace(libc::PTRACE_DETACH, tid, 0);
    }
    seen
}

/// The living threads of a process. The first one exists until all have ended.
fn threads(pid: libc::pid_t) -> Vec<libc::pid_t> {
    let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.filter(|tid| !is_dead(&status::of(Pid::from_raw(*tid)))).collect()
}

fn is_dead(status: &str) -> bool {
    field(status, "State:").is_none_or(|state| state.starts_with(['Z', 'X']))
}

/// The status of a thread that stops before `until`. A first thread that has ended before the others does not stop,
/// and neither does a thread in a system call that cannot be interrupted.
fn stop_of(tid: libc::pid_t, until: Instant) -> Option<i32> {
    loop {
        match wait(tid, libc::__WALL | libc::WNOHANG) {
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
            Ok(None) | Err(_) => return None,
            Ok(Some((_, status))) => return Some(status).filter(|s| libc::WIFSTOPPED(*s)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::process::spawn::{Extra, Spawn};

    fn events(script: &str) -> Vec<Event> {
        events_and_rest(script).0
    }

    /// The events of a script, and the processes that were still traced at its end.
    fn events_and_rest(script: &str) -> (Vec<Event>, Vec<libc::pid_t>) {
        let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let none: [&str; 0] = [];
        // The script begins when it is watched.
        let script = format!("read begin; {script}");
        let mut spawn = Spawn::new(b"/bin/sh", ["sh", "-c", &script], none).unwrap();
        // No core files.
        spawn.die_with_parent().limits(vec![(4, 0, 0)]);
        let (input, mut begin) = io::pipe().unwrap();
        let descriptors = [input.as_fd(), null.as_fd(), null.as_fd()];
        let child = spawn.start(&descriptors, Extra::default(), None).unwrap();
        let mut tracer = Tracer::seize(child).unwrap();
        begin.write_all(b"\n").unwrap();
        let mut events = Vec::new();
        loop {
            let event = tracer.event(0).unwrap().unwrap();
            events.push(event);
            let Event::Crashed { pid, tid, signal } = event else {
                let left: Vec<_> = tracer.traced.iter().copied().collect();
                tracer.let_go();
                for &pid in &left {
                    let status = status::of(Pid::from_raw(pid));
                    assert_eq!(field(&status, "TracerPid:"), Some("0"), "it goes on alone");
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
                return (events, left);
            };
            assert_eq!(pid, tid, "it has one thread");
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            assert!(status.contains("TracerPid:\t0"), "{status}");
            assert!(caught_by(Pid::this()).contains(&pid));
            let_die(pid, signal);
        }
    }

    fn exited(code: u8) -> Event {
        Event::Ended(Fate::Exited(code))
    }

    fn killed(signal: i32) -> Event {
        Event::Ended(Fate::Killed { signal, core: false })
    }

    // All cases are in one test, because waiting for any child concerns the whole process.
    #[test]
    fn a_crash_is_caught_in_every_process_and_thread_and_nothing_else_changes() {
        assert_eq!(events("exit 7"), [exited(7)]);
        assert_eq!(events("kill -TERM $$"), [killed(libc::SIGTERM)]);
        assert_eq!(events("trap 'exit 3' SEGV; kill -SEGV $$"), [exited(3)]);
        let crash = events("kill -SEGV $$");
        assert!(matches!(crash[0], Event::Crashed { signal: libc::SIGSEGV, .. }));
        assert_eq!(crash[1..], [killed(libc::SIGSEGV)]);
        let below = events("sh -c 'kill -ABRT $$; exit 1'; exit $?");
        assert!(matches!(below[0], Event::Crashed { signal: libc::SIGABRT, .. }));
        assert_eq!(below[1..], [exited(128 + 6)]);
        // A process that begins just before the end of the program is known at this end, and continues alone.
        for _ in 0..50 {
            let (events, left) = events_and_rest("sleep 60 & exit 0");
            assert_eq!((events, left.len()), (vec![exited(0)], 1));
        }
    }
}
