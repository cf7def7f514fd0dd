//! Watches a program and all that descends from it for signals that end it in an accident, and catches it
//! before it is gone: ptrace(2), with PTRACE_SEIZE.
//!
//! Nothing else is changed: other signals arrive, stopping and continuing works, and whoever handles such a
//! signal itself goes on. Costs nothing but at signals and new processes and threads.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::raw::{ptrace, tgkill, wait};
use crate::signals::is_default;
use crate::status::{self, field};
use crate::tree::children;

/// Signals of accidents.
const ACCIDENTS: [i32; 7] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];

/// New processes and threads are watched, too.
const OPTIONS: i32 =
    libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;

/// How long the threads of a process that crashes may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// What became of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This process of it was about to die of the signal. It is stopped, whole and not traced; the signal is
    /// to be sent again by [`Tracer::let_die`].
    Crashed {
        /// Which.
        pid: Pid,
        /// The thread of it that the signal came to.
        tid: Pid,
        /// The signal's number.
        signal: i32,
    },
    /// The child exited with this code.
    Exited(i32),
    /// The child was killed by this signal.
    Killed(i32),
}

/// Watches one child.
#[derive(Debug)]
pub struct Tracer {
    child: Pid,
}

impl Tracer {
    /// Watches a child from now on.
    ///
    /// # Errors
    /// It may not be traced.
    pub fn seize(child: Pid) -> io::Result<Self> {
        ptrace(libc::PTRACE_SEIZE, child.as_raw(), OPTIONS)?;
        Ok(Self { child })
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    /// There is no child any more.
    pub fn next_event(&self) -> io::Result<Event> {
        loop {
            if let Some(event) = self.event(0)? {
                return Ok(event);
            }
        }
    }

    /// What has come, without waiting; each SIGCHLD may bring something.
    ///
    /// # Errors
    /// There is no child any more.
    pub fn poll_event(&self) -> io::Result<Option<Event>> {
        self.event(libc::WNOHANG)
    }

    fn event(&self, options: i32) -> io::Result<Option<Event>> {
        loop {
            let Some((pid, status)) = wait(-1, libc::__WALL | options)? else { return Ok(None) };
            let ours = pid == self.child.as_raw();
            if libc::WIFEXITED(status) && ours {
                return Ok(Some(Event::Exited(libc::WEXITSTATUS(status))));
            }
            if libc::WIFSIGNALED(status) && ours {
                return Ok(Some(Event::Killed(libc::WTERMSIG(status))));
            }
            if libc::WIFSTOPPED(status)
                && let Some(crashed) = stopped(pid, status)
            {
                return Ok(Some(crashed));
            }
        }
    }

    /// Lets a process that crashed die of its signal.
    pub fn let_die(&self, pid: Pid, signal: i32) {
        if let Ok(signal) = Signal::try_from(signal) {
            let _ = kill(pid, signal);
        }
        let _ = kill(pid, Signal::SIGCONT);
    }
}

/// The processes below one that watches which it traces no more: they have crashed, and are not let die yet.
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

/// Lets a thread that stopped go on as it would without us, unless it is about to crash. Whoever has
/// died in the meantime needs nothing more.
fn stopped(tid: libc::pid_t, status: i32) -> Option<Event> {
    let signal = libc::WSTOPSIG(status);
    let stops = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
    match status >> 16 {
        libc::PTRACE_EVENT_STOP if stops => drop(ptrace(libc::PTRACE_LISTEN, tid, 0)),
        0 if ACCIDENTS.contains(&signal) => {
            if let Some(pid) = victim(tid, signal) {
                release(pid, tid);
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

/// The process that dies if that signal reaches the thread; none if it is handled or ignored. One that the thread
/// brings upon itself kills it even where it is blocked.
fn victim(tid: libc::pid_t, signal: i32) -> Option<libc::pid_t> {
    if !is_default(Pid::from_raw(tid), Signal::try_from(signal).ok()?) {
        return None;
    }
    field(&status::of(Pid::from_raw(tid)), "Tgid:")?.parse().ok()
}

/// Stops the process, one thread of which is about to crash, and traces it no more: a debugger will.
///
/// None of its threads goes on before all are to stop, or another one that is about to crash would end it.
fn release(pid: libc::pid_t, crashed: libc::pid_t) {
    let until = Instant::now() + STOP_PATIENCE;
    let mut seen = BTreeSet::from([crashed]);
    let mut stopped = Vec::new();
    loop {
        let new: Vec<_> = threads(pid).into_iter().filter(|tid| seen.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        // They may be in a stop already; most come to one soon.
        new.iter().for_each(|tid| drop(ptrace(libc::PTRACE_INTERRUPT, *tid, 0)));
        for tid in new {
            let Some(status) = stop_of(tid, until) else { continue };
            let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
            // One that is about to crash, too, does that again when it goes on.
            if signal != 0 && !ACCIDENTS.contains(&signal) {
                let _ = tgkill(pid, tid, signal);
            }
            stopped.push(tid);
        }
    }
    // Once one has taken it, all others stop as soon as they go on, and take no signal before that.
    let _ = ptrace(libc::PTRACE_CONT, crashed, libc::SIGSTOP);
    stop_of(crashed, Instant::now() + STOP_PATIENCE);
    for tid in stopped.into_iter().chain([crashed]) {
        let _ = ptrace(libc::PTRACE_DETACH, tid, 0);
    }
}

/// The living threads of a process. The first one stays until all have ended.
fn threads(pid: libc::pid_t) -> Vec<libc::pid_t> {
    let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.filter(|tid| !is_dead(&status::of(Pid::from_raw(*tid)))).collect()
}

fn is_dead(status: &str) -> bool {
    field(status, "State:").is_none_or(|state| state.starts_with(['Z', 'X']))
}

/// The status of a thread that comes to a stop in time. A first thread that has ended before the others does
/// not, nor does one in the middle of a system call that cannot be interrupted.
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
    use crate::spawn::{Extra, Spawn};

    fn events(script: &str) -> Vec<Event> {
        let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let none: [&str; 0] = [];
        // It begins when it is watched.
        let script = format!("read begin; {script}");
        let mut spawn = Spawn::new(b"/bin/sh", ["sh", "-c", &script], none).unwrap();
        spawn.die_with_parent();
        let (input, mut begin) = io::pipe().unwrap();
        let descriptors = [input.as_fd(), null.as_fd(), null.as_fd()];
        let child = spawn.start(&descriptors, Extra::default(), None).unwrap();
        let tracer = Tracer::seize(child).unwrap();
        begin.write_all(b"\n").unwrap();
        let mut events = Vec::new();
        loop {
            let event = tracer.next_event().unwrap();
            events.push(event);
            let Event::Crashed { pid, tid, signal } = event else { return events };
            assert_eq!(pid, tid, "it has one thread");
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            assert!(status.contains("TracerPid:\t0"), "{status}");
            assert!(caught_by(Pid::this()).contains(&pid));
            tracer.let_die(pid, signal);
        }
    }

    // One test: waiting for any child is of the whole process.
    #[test]
    fn a_crash_is_caught_wherever_it_happens_and_all_else_goes_on_as_before() {
        assert_eq!(events("exit 7"), [Event::Exited(7)]);
        assert_eq!(events("kill -TERM $$"), [Event::Killed(libc::SIGTERM)]);
        assert_eq!(events("trap 'exit 3' SEGV; kill -SEGV $$"), [Event::Exited(3)]);
        let crash = events("kill -SEGV $$");
        assert!(matches!(crash[0], Event::Crashed { signal: libc::SIGSEGV, .. }));
        assert_eq!(crash[1..], [Event::Killed(libc::SIGSEGV)]);
        let below = events("sh -c 'kill -ABRT $$; exit 1'; exit $?");
        assert!(matches!(below[0], Event::Crashed { signal: libc::SIGABRT, .. }));
        assert_eq!(below[1..], [Event::Exited(128 + libc::SIGABRT)]);
    }
}
