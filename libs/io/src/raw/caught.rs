//! The only handler of signals: it notes the number and wakes the loop. Also the signals without their default effect.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::child::LAST_SIGNAL;

/// Signals that this process has ignored or caught since it began, a bit for each from signal 1 on.
static CHANGED: AtomicU64 = AtomicU64::new(0);

/// Notes that this process ignores or catches a signal.
pub(super) fn note_changed(signal: c_int) {
    if (1..=LAST_SIGNAL).contains(&signal) {
        CHANGED.fetch_or(1 << (signal - 1), Ordering::Relaxed);
    }
}

/// The signals that this process has ignored or caught since it began.
pub(crate) fn changed() -> u64 {
    CHANGED.load(Ordering::Relaxed)
}

/// Caught signals that the loop has not taken yet, a bit for each from signal 1 on.
static PENDING: AtomicU64 = AtomicU64::new(0);

/// The number of [`wake`], for the handler.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// The eventfd that the handler writes to. It stays open, since a handler may run at any time.
fn wake() -> io::Result<&'static OwnedFd> {
    static OPEN: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(wake) = OPEN.get() {
        return Ok(wake);
    }
    // SAFETY: a system call on numbers; the returned descriptor has no other owner.
    let wake = unsafe {
        match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
            ..0 => return Err(io::Error::last_os_error()),
            fd => OwnedFd::from_raw_fd(fd),
        }
    };
    Ok(OPEN.get_or_init(|| wake))
}

extern "C" fn note(signal: c_int) {
    PENDING.fetch_or(1 << (signal - 1), Ordering::SeqCst);
    let one = 1_u64;
    // SAFETY: an async-signal-safe call that reads eight bytes. The interrupted code finds its errno again.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(WAKE.load(Ordering::SeqCst), (&raw const one).cast(), size_of::<u64>());
        *libc::__errno_location() = errno;
    }
}

/// Catches the signals from now on, except ignored ones if they are to be `spared`. Returns the descriptor that becomes
/// readable when one arrives.
///
/// # Errors
/// One of them cannot be caught, or no descriptors are left.
pub(crate) fn catch(signals: &[c_int], spared: bool) -> io::Result<&'static OwnedFd> {
    let wake = wake()?;
    WAKE.store(wake.as_raw_fd(), Ordering::SeqCst);
    for &signal in signals {
        if !(1..=LAST_SIGNAL).contains(&signal) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: sigaction is plain data, and zeros are an empty mask. The handler makes only async-signal-safe calls.
        let (result, before) = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            let mut result = libc::sigaction(signal, &raw const action, &raw mut before);
            if result == 0 && spared && before.sa_sigaction == libc::SIG_IGN {
                result = libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            }
            (result, before.sa_sigaction)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        if spared && before == libc::SIG_IGN {
            // It may have arrived between the two calls.
            PENDING.fetch_and(!(1 << (signal - 1)), Ordering::SeqCst);
        } else {
            note_changed(signal);
        }
    }
    Ok(wake)
}

/// Takes the signals that have arrived since the last call; a bit for each from signal 1 on.
pub(crate) fn take(wake: RawFd) -> u64 {
    let mut taken = 0;
    loop {
        match PENDING.swap(0, Ordering::SeqCst) {
            0 => return taken,
            some => taken |= some,
        }
        // A signal that arrives between the two steps is found in the next round.
        let mut count = 0_u64;
        // SAFETY: the call writes eight bytes to a number of this size.
        unsafe { libc::read(wake, (&raw mut count).cast(), size_of::<u64>()) };
    }
}
