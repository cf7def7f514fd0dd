//! Calls that fail for a moment because the kernel is short of memory.
//!
//! Such a failure has lost nothing: the same call may succeed a moment later. No event reports that moment, so a caller
//! that waited for one would wait for ever.

use std::io;
use std::thread;

use nix::errno::Errno;

/// How often a call is made before its failure counts.
const ATTEMPTS: usize = 16;

/// The error of a system call.
pub trait SystemError {
    /// The number of the error, if it has one.
    fn errno(&self) -> Option<Errno>;
}

impl SystemError for Errno {
    fn errno(&self) -> Option<Errno> {
        Some(*self)
    }
}

impl SystemError for io::Error {
    fn errno(&self) -> Option<Errno> {
        self.raw_os_error().map(Errno::from_raw)
    }
}

/// Makes a call that does not wait, again while the kernel is short of memory or a signal interrupts it. The number of
/// attempts is bounded.
///
/// # Errors
/// Those of the last attempt.
pub fn persist<T, E: SystemError>(mut call: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..ATTEMPTS {
        let error = match call() {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        match error.errno() {
            Some(Errno::ENOBUFS | Errno::ENOMEM) => thread::yield_now(),
            Some(Errno::EINTR) => {}
            _ => return Err(error),
        }
    }
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a call is made that first fails `failures` times.
    fn calls(failures: usize, errno: Errno) -> (usize, Result<(), Errno>) {
        let mut calls = 0;
        let result = persist(|| {
            calls += 1;
            if calls > failures { Ok(()) } else { Err(errno) }
        });
        (calls, result)
    }

    #[test]
    fn a_call_is_repeated_while_memory_is_short_and_a_bounded_number_of_times() {
        assert_eq!(calls(0, Errno::ENOBUFS), (1, Ok(())));
        assert_eq!(calls(3, Errno::ENOBUFS), (4, Ok(())));
        assert_eq!(calls(3, Errno::ENOMEM), (4, Ok(())));
        assert_eq!(calls(3, Errno::EINTR), (4, Ok(())));
        assert_eq!(calls(usize::MAX, Errno::ENOBUFS), (ATTEMPTS, Err(Errno::ENOBUFS)));
    }

    #[test]
    fn a_full_socket_and_other_errors_are_no_reason_to_try_again() {
        for errno in [Errno::EAGAIN, Errno::EPIPE, Errno::EIO] {
            assert_eq!(calls(3, errno), (1, Err(errno)));
        }
        let error = || Err::<(), _>(io::Error::from_raw_os_error(libc::ENOBUFS));
        let mut calls = 0;
        let result = persist(|| {
            calls += 1;
            if calls > 2 { Ok(()) } else { error() }
        });
        assert!(result.is_ok());
        assert!(persist(|| Err::<(), _>(io::Error::other("no errno"))).is_err());
    }
}
