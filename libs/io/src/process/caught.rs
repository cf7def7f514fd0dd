//! Signals that a handler notes. The handler is that of the crate `signal-hook`; the suite has no other one. It notes the
//! number, wakes the loop, and restores errno.
//!
//! The handlers are set before this process has another thread or a child. A child that shares the memory of this process
//! loses them: each registered signal is noted for the reset in children, see `raw/child.rs`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::FORBIDDEN;
use signal_hook::flag;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::raw;

/// The registered signals of this process.
#[derive(Debug)]
pub(crate) struct Caught {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    /// Whether a signal may have arrived since the last look. Saves system calls.
    may_be_there: Arc<AtomicBool>,
}

impl Caught {
    /// Whether no handler may be set for a signal.
    pub(crate) fn is_forbidden(signal: i32) -> bool {
        FORBIDDEN.contains(&signal) || !(1..=raw::LAST_SIGNAL).contains(&signal)
    }

    /// Sets the handlers.
    ///
    /// # Errors
    /// One of them cannot be set, or no descriptors are left.
    pub(crate) fn register(signals: &[i32]) -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        signals.iter().for_each(|&signal| raw::note_changed(signal));
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, signals)?;
        // A signal may arrive before the flag is registered.
        let may_be_there = Arc::new(AtomicBool::new(true));
        for &signal in signals {
            // The handler does this last. So the flag is never false while a signal waits for a thread that it has
            // interrupted.
            flag::register(signal, Arc::clone(&may_be_there))?;
        }
        Ok(Self { delivery, may_be_there })
    }

    /// Notes that the descriptor is readable. Another thread may be in the handler, and has not set the flag yet.
    pub(crate) fn note_readable(&self) {
        self.may_be_there.store(true, Ordering::SeqCst);
    }

    /// Takes the signals that have arrived since the last call, each once. Makes no system call if there are none.
    pub(crate) fn take(&mut self) -> Vec<i32> {
        match self.may_be_there.swap(false, Ordering::SeqCst) {
            true => self.delivery.pending().collect(),
            false => Vec::new(),
        }
    }
}

impl AsFd for Caught {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}
