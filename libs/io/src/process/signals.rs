//! Signals as events of the loop: from a handler (`caught.rs`), or, in a process of one thread, from the kernel. A process
//! uses one of the two, once.
//!
//! Daemon, manager, fork server and farm read them from the kernel: no handler may run in a copy of a process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, read};

use crate::process::caught::Caught;
use crate::process::status;
use crate::raw;
use crate::wait::until_ready;

/// Signals that a launcher passes on to its program: those that users, batch systems and timers send and that can be
/// caught. Left out are signals that the kernel sends about errors, children and files of a process. Also left out are
/// those that stop, continue and resize, which need more than passing on.
pub fn for_programs() -> impl Iterator<Item = i32> {
    const NAMED: [i32; 15] = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGABRT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGTERM,
        libc::SIGSTKFLT,
        libc::SIGURG,
        libc::SIGXCPU,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
    ];
    NAMED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// The name of a signal; real-time signals have only their number.
pub fn name(signal: i32) -> String {
    match Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

/// Sends a process a signal, given by its number.
///
/// # Errors
/// There is no such signal or process, or this process may not signal it.
pub fn send(process: Pid, signal: i32) -> io::Result<()> {
    send_to(process, 1, signal)
}

/// Sends a process group a signal, given by its number.
///
/// # Errors
/// There is no such signal or group, or this process may not signal it.
pub fn send_to_group(group: Pid, signal: i32) -> io::Result<()> {
    send_to(group, -1, signal)
}

fn send_to(target: Pid, sign: i32, signal: i32) -> io::Result<()> {
    // 0, 1 and negative numbers mean many other processes, or all.
    if target.as_raw() <= 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    raw::kill(sign * target.as_raw(), signal)
}

/// The mask of signals that this process ignores, from `/proc`; bit 0 is signal 1.
pub fn ignored() -> u64 {
    let asked = || (1..=raw::LAST_SIGNAL).filter(|&signal| raw::is_ignored(signal));
    mask_of(Pid::this(), "SigIgn:").unwrap_or_else(|| mask_with(asked()))
}

/// The signals that may not have their default effect in this process: those with which it began, and those that it has
/// changed itself.
///
/// The first call reads `/proc`, so a process that will start children for others may call it early.
pub fn not_default() -> u64 {
    // Without /proc all signals may differ.
    status::inherited().map_or(u64::MAX, |it| it.ignored | it.caught) | raw::changed()
}

/// The mask of signals that a thread blocks; `None` if the thread is gone.
pub fn blocked(thread: Pid) -> Option<u64> {
    mask_of(thread, "SigBlk:")
}

/// Whether that signal has its default effect on a process.
pub fn is_default(pid: Pid, signal: Signal) -> bool {
    let status = status::of(pid);
    let mask = |name| status::mask(&status, name).unwrap_or(0);
    !has(mask("SigIgn:") | mask("SigCgt:"), signal as i32)
}

/// Whether that signal would have its default effect on a process with this status now: it is neither handled, nor
/// ignored, nor blocked.
pub(crate) fn has_effect(status: &str, signal: i32) -> bool {
    let masks = ["SigIgn:", "SigCgt:", "SigBlk:"].map(|name| status::mask(status, name));
    masks.iter().all(|mask| mask.is_some_and(|mask| !has(mask, signal)))
}

fn has(mask: u64, signal: i32) -> bool {
    (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

fn mask_of(pid: Pid, name: &str) -> Option<u64> {
    status::mask(&status::of(pid), name)
}

/// Ends this process by the signal that ended its child, without a core file of its own. Returns if the signal does not
/// end a process.
pub fn die_of(signal: i32) {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    // If a program collects cores, the limit has no effect.
    let _ = nix::sys::prctl::set_dumpable(false);
    raw::raise_default(signal);
}

/// The signals that a process catches. The descriptor is readable while some are pending.
#[derive(Debug)]
pub struct Signals(Source);

#[derive(Debug)]
enum Source {
    /// A handler notes them.
    Caught(Caught),
    /// The signals are blocked, and the kernel reports them.
    Kernel(SignalFd),
}

/// How often an attempt to take signals may fail or be interrupted.
const MAX_FAILURES: usize = 16;

/// Most signals that one call of the kernel reports; more follow in the next call.
const REPORTS: usize = 16;

/// The size of the kernel's report of one signal. It begins with the number of the signal.
const REPORT: usize = size_of::<libc::signalfd_siginfo>();

impl Signals {
    /// Catches `signals` from now on. To be called before this process has another thread or a child.
    ///
    /// This thread blocks no signal then. A process inherits blocked signals from its parent, and could not be ended by
    /// them.
    ///
    /// # Errors
    /// One of them cannot be caught, this process takes signals already, or no descriptors are left.
    pub fn catch(signals: &[i32]) -> io::Result<Self> {
        Self::catch_amid(signals, &SigSet::empty())
    }

    /// The same, but this thread blocks the signals `blocked` then.
    ///
    /// # Errors
    /// As for [`Signals::catch`].
    pub fn catch_amid(signals: &[i32], blocked: &SigSet) -> io::Result<Self> {
        if signals.iter().any(|&signal| Caught::is_forbidden(signal)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        use_once()?;
        let caught = Caught::register(signals)?;
        raw::set_signal_mask(blocked)?;
        Ok(Self(Source::Caught(caught)))
    }

    /// The same as [`Signals::catch`], but a signal that this process ignores stays ignored.
    ///
    /// # Errors
    /// As for [`Signals::catch`].
    pub fn catch_unless_ignored(signals: &[i32]) -> io::Result<Self> {
        let is_ignored = |signal: i32| match status::inherited() {
            Some(inherited) => has(inherited.ignored, signal),
            None => raw::is_ignored(signal),
        };
        let wanted = signals.iter().copied().filter(|&signal| !is_ignored(signal));
        Self::catch(&wanted.collect::<Vec<i32>>())
    }

    /// Blocks `signals` from now on, and no others, for a process with one thread. It takes few system calls, and
    /// nothing has to be reset for children, whose start unblocks all signals.
    ///
    /// # Errors
    /// This process takes signals already, or no descriptors are left.
    pub fn block(signals: &[Signal]) -> io::Result<Self> {
        use_once()?;
        let set: SigSet = signals.iter().copied().collect();
        raw::set_signal_mask(&set)?;
        if set.contains(Signal::SIGCHLD) && has(not_default(), libc::SIGCHLD) {
            // The kernel reaps the children of a process that ignores SIGCHLD, and reports none.
            raw::default_signal(libc::SIGCHLD);
        }
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(Source::Kernel(SignalFd::with_flags(&set, flags)?)))
    }

    /// Waits until a signal has arrived, at most `patience`.
    pub fn wait(&self, patience: Duration) {
        let _ = until_ready(self, PollFlags::POLLIN, Some(patience));
    }

    /// Notes that the descriptor is readable, for a loop that gets this news only once (mio).
    pub fn note_readable(&self) {
        if let Source::Caught(caught) = &self.0 {
            caught.note_readable();
        }
    }

    /// The signals that arrived since the last call, each once.
    pub fn pending(&mut self) -> Vec<i32> {
        match &mut self.0 {
            Source::Caught(caught) => caught.take(),
            Source::Kernel(reports) => {
                let mask = reported(reports);
                (1..=raw::LAST_SIGNAL).filter(|&signal| has(mask, signal)).collect()
            }
        }
    }
}

/// Refuses a second use of signals in this process: two would take each other's.
fn use_once() -> io::Result<()> {
    static USED: AtomicBool = AtomicBool::new(false);
    match USED.swap(true, Ordering::Relaxed) {
        true => Err(io::Error::other("this process takes signals already")),
        false => Ok(()),
    }
}

/// The mask of these signals.
fn mask_with(signals: impl Iterator<Item = i32>) -> u64 {
    signals.fold(0, |all, signal| all | bit(signal.cast_unsigned()))
}

/// Takes the blocked signals that have arrived, a bit for each from signal 1 on.
fn reported(reports: &SignalFd) -> u64 {
    let mut buffer = [0; REPORTS * REPORT];
    let (mut mask, mut failures) = (0, 0);
    loop {
        let read = match read(reports, &mut buffer) {
            Err(Errno::EAGAIN) => return mask,
            Err(_) if failures < MAX_FAILURES => {
                failures += 1;
                continue;
            }
            // Some signal has arrived. No report of it will come, so the children are looked at.
            Err(_) => return mask | bit(libc::SIGCHLD.unsigned_abs()),
            Ok(read) => read,
        };
        let numbers = buffer[..read].chunks_exact(REPORT).filter_map(|it| it.first_chunk());
        mask |= numbers.fold(0, |all, number| all | bit(u32::from_ne_bytes(*number)));
        if read < buffer.len() {
            return mask;
        }
    }
}

/// The bit of a signal in a mask.
fn bit(signal: u32) -> u64 {
    signal.checked_sub(1).and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or(0)
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Source::Caught(caught) => caught.as_fd(),
            Source::Kernel(reports) => reports.as_fd(),
        }
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::raise;

    use super::*;
    use crate::process::spawn::{Extra, Fate, Spawn, wait_for};

    #[test]
    fn a_signal_of_any_number_is_caught_and_sent() {
        let wanted: Vec<i32> = for_programs().collect();
        let mut signals = Signals::catch(&wanted).unwrap();
        for signal in [libc::SIGALRM, libc::SIGRTMIN(), libc::SIGRTMAX()] {
            send(Pid::this(), signal).unwrap();
        }
        let mut got = Vec::new();
        while got.len() < 3 {
            got.extend(signals.pending());
        }
        got.sort_unstable();
        assert_eq!(got, [libc::SIGALRM, libc::SIGRTMIN(), libc::SIGRTMAX()]);
        for everybody in [-1, 0, 1] {
            assert!(send_to_group(Pid::from_raw(everybody), libc::SIGURG).is_err());
            assert!(send(Pid::from_raw(everybody), libc::SIGURG).is_err());
        }
    }

    #[test]
    fn blocked_signals_are_reported_once_and_keep_their_default_effect_for_children() {
        let mut signals = Signals::block(&[Signal::SIGUSR1, Signal::SIGUSR2]).unwrap();
        assert!(signals.pending().is_empty());
        for signal in [libc::SIGUSR2, libc::SIGUSR1, libc::SIGUSR2] {
            raise(Signal::try_from(signal).unwrap()).unwrap();
        }
        assert_eq!(signals.pending(), [libc::SIGUSR1, libc::SIGUSR2]);
        assert!(signals.pending().is_empty());
        assert!(!has(not_default(), libc::SIGUSR1));
        assert_eq!([bit(0), bit(1), bit(64), bit(65)], [0, 1, 1 << 63, 0]);
    }

    /// The signals that this thread blocks.
    fn own_mask() -> u64 {
        blocked(Pid::from_raw(nix::unistd::gettid().as_raw())).unwrap()
    }

    #[test]
    fn a_process_that_catches_signals_blocks_none_and_gets_those_that_were_blocked() {
        let inherited: SigSet = [Signal::SIGTERM, Signal::SIGALRM].into_iter().collect();
        inherited.thread_set_mask().unwrap();
        raise(Signal::SIGTERM).unwrap();
        let mut signals = Signals::catch(&[libc::SIGTERM]).unwrap();
        assert_eq!(own_mask(), 0);
        assert_eq!(signals.pending(), [libc::SIGTERM]);
    }

    #[test]
    fn a_process_that_reads_signals_blocks_only_these() {
        let inherited: SigSet = [Signal::SIGTERM, Signal::SIGALRM].into_iter().collect();
        inherited.thread_set_mask().unwrap();
        drop(Signals::block(&[Signal::SIGUSR1]).unwrap());
        assert_eq!(own_mask(), 1 << (libc::SIGUSR1 - 1));
    }

    #[test]
    fn forbidden_signals_are_an_error_and_a_second_use_is_refused() {
        for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGILL, 0, -1, 65] {
            let error = Signals::catch(&[libc::SIGTERM, signal]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{signal}");
        }
        assert!(!has(not_default(), libc::SIGTERM), "nothing is registered");
        let blocked: SigSet = [Signal::SIGALRM].into_iter().collect();
        let _signals = Signals::catch_amid(&[libc::SIGTERM], &blocked).unwrap();
        assert_eq!(own_mask(), 1 << (libc::SIGALRM - 1));
        assert!(has(not_default(), libc::SIGTERM), "it is reset in children");
        for second in [
            Signals::catch(&[libc::SIGUSR1]),
            Signals::catch_unless_ignored(&[libc::SIGUSR1]),
            Signals::block(&[Signal::SIGUSR1]),
        ] {
            assert_eq!(second.unwrap_err().to_string(), "this process takes signals already");
        }
    }

    #[test]
    fn many_signals_leave_errno_as_it_was_and_wake_the_loop() {
        let mut signals = Signals::catch(&[libc::SIGUSR1]).unwrap();
        // More than the socket has room for.
        for _ in 0..2000 {
            Errno::EXDEV.set();
            raise(Signal::SIGUSR1).unwrap();
            assert_eq!(Errno::last(), Errno::EXDEV);
        }
        signals.wait(Duration::from_secs(60));
        assert_eq!(signals.pending(), [libc::SIGUSR1]);
        assert!(signals.pending().is_empty());
        signals.note_readable();
        assert!(signals.pending().is_empty());
    }

    /// The children of a thread of this process.
    fn child_of(thread: Pid) -> Option<Pid> {
        let path = format!("/proc/self/task/{thread}/children");
        let children = std::fs::read_to_string(path).unwrap();
        children.split_whitespace().next().map(|pid| Pid::from_raw(pid.parse().unwrap()))
    }

    #[test]
    fn a_signal_between_the_clone_and_the_program_ends_the_child_and_no_handler_runs() {
        let mut signals = Signals::catch(&[libc::SIGUSR1]).unwrap();
        let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let none: [&str; 0] = [];
        let mut spawn = Spawn::new(b"/bin/sleep", ["sleep", "60"], none).unwrap();
        // The child takes some milliseconds before it executes the program.
        spawn.limits(vec![(4, 0, 0); 20_000]);
        let parent = nix::unistd::gettid();
        let own = std::fs::read_link("/proc/self/exe").unwrap();
        let mut hits = 0;
        while hits < 100 {
            let is_before = std::thread::scope(|scope| {
                let sender = scope.spawn(|| {
                    let child = loop {
                        if let Some(child) = child_of(parent) {
                            break child;
                        }
                    };
                    send(child, libc::SIGUSR1).unwrap();
                    // It has not executed the program yet.
                    let program = std::fs::read_link(format!("/proc/{child}/exe"));
                    program.is_ok_and(|program| program == own)
                });
                let child = spawn.start(&[null.as_fd(); 3], Extra::default(), None).unwrap();
                let is_before = sender.join().unwrap();
                let fate = wait_for(child).unwrap();
                assert_eq!(fate, Fate::Killed { signal: libc::SIGUSR1, core: false });
                is_before
            });
            hits += i32::from(is_before);
            assert!(signals.pending().is_empty(), "the handler has noted nothing");
        }
        raise(Signal::SIGUSR1).unwrap();
        assert_eq!(signals.pending(), [libc::SIGUSR1], "it is still there");
    }

    #[test]
    fn the_ends_of_children_are_reported_although_the_parent_ignored_them() {
        raw::ignore_signal(libc::SIGCHLD);
        let mut signals = Signals::block(&[Signal::SIGCHLD]).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        assert!(child.wait().unwrap().success(), "the kernel has not reaped it");
        // The end of a child is reported to any thread. This one is for the thread that blocks the signal.
        raise(Signal::SIGCHLD).unwrap();
        assert_eq!(signals.pending(), [libc::SIGCHLD]);
    }

    #[test]
    fn an_ignored_signal_stays_ignored_if_it_is_to_be_spared() {
        raw::ignore_signal(libc::SIGHUP);
        let mut signals = Signals::catch_unless_ignored(&[libc::SIGHUP, libc::SIGQUIT]).unwrap();
        send(Pid::this(), libc::SIGHUP).unwrap();
        send(Pid::this(), libc::SIGQUIT).unwrap();
        let mut got = signals.pending();
        while got.is_empty() {
            got = signals.pending();
        }
        assert_eq!(got, [libc::SIGQUIT]);
        assert!(has(ignored(), libc::SIGHUP) && raw::is_ignored(libc::SIGHUP));
        assert!(!raw::is_ignored(libc::SIGQUIT));
    }

    #[test]
    fn a_signal_takes_effect_unless_it_is_handled_ignored_or_blocked() {
        let status =
            "SigBlk:\t0000000000000400\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000020000\n";
        for (signal, expected) in [
            (libc::SIGTERM, true),
            (libc::SIGRTMAX(), true),
            (libc::SIGSEGV, false),
            (libc::SIGPIPE, false),
            (libc::SIGCONT, false),
        ] {
            assert_eq!(has_effect(status, signal), expected, "{signal}");
            assert!(!has_effect("", signal), "it is gone");
        }
        assert!(!has(u64::MAX, 0) && has(1 << 63, 64) && !has(u64::MAX, 65));
    }
}
