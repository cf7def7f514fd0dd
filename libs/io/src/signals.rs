//! Signals as events of the loop: from a handler that only notes the number and wakes the loop, or, in a process of one
//! thread, from the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, read};

use crate::raw;
use crate::status::{self, field};

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
    mask_of(Pid::this(), "SigIgn:").unwrap_or(0)
}

/// The signals that may not have their default effect in this process: those with which it began, and those that it has
/// changed itself.
///
/// The first call reads `/proc`, so a process that will start children for others may call it early.
pub fn not_default() -> u64 {
    static FIRST: OnceLock<u64> = OnceLock::new();
    let first = FIRST.get_or_init(|| {
        let status = status::of(Pid::this());
        let masks = ["SigIgn:", "SigCgt:"].map(|name| mask_in(&status, name));
        // Without /proc all signals may differ.
        masks.into_iter().try_fold(0, |all, mask| Some(all | mask?)).unwrap_or(u64::MAX)
    });
    first | raw::caught::changed()
}

/// The mask of signals that a thread blocks; `None` if the thread is gone.
pub fn blocked(thread: Pid) -> Option<u64> {
    mask_of(thread, "SigBlk:")
}

/// Whether that signal has its default effect on a process.
pub fn is_default(pid: Pid, signal: Signal) -> bool {
    let status = status::of(pid);
    let mask = |name| mask_in(&status, name).unwrap_or(0);
    !has(mask("SigIgn:") | mask("SigCgt:"), signal as i32)
}

/// Whether that signal would have its default effect on a process with this status now: it is neither handled, nor
/// ignored, nor blocked.
pub(crate) fn has_effect(status: &str, signal: i32) -> bool {
    let masks = ["SigIgn:", "SigCgt:", "SigBlk:"].map(|name| mask_in(status, name));
    masks.iter().all(|mask| mask.is_some_and(|mask| !has(mask, signal)))
}

fn has(mask: u64, signal: i32) -> bool {
    (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

fn mask_of(pid: Pid, name: &str) -> Option<u64> {
    mask_in(&status::of(pid), name)
}

fn mask_in(status: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(field(status, name)?, 16).ok()
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
    /// The descriptor that the handler writes to.
    Handler(&'static OwnedFd),
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
    /// Catches `signals` from now on. All values of this type in a process share the caught signals.
    ///
    /// This thread blocks no signal then. A process inherits blocked signals from its parent, and could not be ended by
    /// them.
    ///
    /// # Errors
    /// One of them cannot be caught, or no descriptors are left.
    pub fn catch(signals: &[i32]) -> io::Result<Self> {
        Self::catch_amid(signals, &SigSet::empty())
    }

    /// The same, but this thread blocks the signals `blocked` then.
    ///
    /// # Errors
    /// As for [`Signals::catch`].
    pub fn catch_amid(signals: &[i32], blocked: &SigSet) -> io::Result<Self> {
        let wake = raw::caught::catch(signals, false)?;
        blocked.thread_set_mask()?;
        Ok(Self(Source::Handler(wake)))
    }

    /// The same as [`Signals::catch`], but a signal that this process ignores stays ignored.
    ///
    /// # Errors
    /// As for [`Signals::catch`].
    pub fn catch_unless_ignored(signals: &[i32]) -> io::Result<Self> {
        let wake = raw::caught::catch(signals, true)?;
        SigSet::empty().thread_set_mask()?;
        Ok(Self(Source::Handler(wake)))
    }

    /// Blocks `signals` from now on, and no others, for a process with one thread. It takes few system calls, and
    /// nothing has to be reset for children, whose start unblocks all signals.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn block(signals: &[Signal]) -> io::Result<Self> {
        let set: SigSet = signals.iter().copied().collect();
        set.thread_set_mask()?;
        if set.contains(Signal::SIGCHLD) && has(not_default(), libc::SIGCHLD) {
            // The kernel reaps the children of a process that ignores SIGCHLD, and reports none.
            raw::default_signal(libc::SIGCHLD);
        }
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(Source::Kernel(SignalFd::with_flags(&set, flags)?)))
    }

    /// Waits until a signal has arrived, at most `patience`.
    pub fn wait(&self, patience: Duration) {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        // One millisecond more, so that a deadline is past.
        let timeout = u16::try_from(patience.as_millis() + 1).unwrap_or(u16::MAX);
        let _ = poll(&mut fds, PollTimeout::from(timeout));
    }

    /// The signals that arrived since the last call, each once.
    pub fn pending(&mut self) -> Vec<i32> {
        let mask = match &self.0 {
            // Makes no system call if there are none.
            Source::Handler(wake) => raw::caught::take(wake.as_raw_fd()),
            Source::Kernel(reports) => reported(reports),
        };
        (1..=64).filter(|&signal| has(mask, signal)).collect()
    }
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
            Source::Handler(wake) => wake.as_fd(),
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

    #[test]
    fn a_process_blocks_no_signal_once_it_catches_some_and_only_those_that_it_reads() {
        let own = || blocked(Pid::from_raw(nix::unistd::gettid().as_raw())).unwrap();
        let inherited: SigSet = [Signal::SIGTERM, Signal::SIGALRM].into_iter().collect();
        inherited.thread_set_mask().unwrap();
        raise(Signal::SIGTERM).unwrap();
        let mut signals = Signals::catch(&[libc::SIGTERM]).unwrap();
        assert_eq!(own(), 0);
        assert_eq!(signals.pending(), [libc::SIGTERM], "it was sent while it was blocked");
        inherited.thread_set_mask().unwrap();
        drop(Signals::catch_unless_ignored(&[libc::SIGTERM]).unwrap());
        assert_eq!(own(), 0);
        drop(Signals::catch_amid(&[libc::SIGTERM], &inherited).unwrap());
        assert_eq!(own(), 1 << (libc::SIGTERM - 1) | 1 << (libc::SIGALRM - 1));
        drop(Signals::block(&[Signal::SIGUSR1]).unwrap());
        assert_eq!(own(), 1 << (libc::SIGUSR1 - 1));
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
        assert!(has(ignored(), libc::SIGHUP));
    }

    #[test]
    fn the_mask_of_blocked_signals_is_found() {
        let status = "Name:\tx\nSigPnd:\t0000000000000002\nSigBlk:\t0000000000000202\n";
        assert_eq!(mask_in(status, "SigBlk:"), Some(0x202));
        assert_eq!(mask_in("Name:\tx\n", "SigBlk:"), None);
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
