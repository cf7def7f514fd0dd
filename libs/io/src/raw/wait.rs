//! The system calls that tell about children. `nix` has no value for the signals beyond 31: it fails for a child that
//! one of them has ended, and then the child is unknown or lost.

use std::ffi::c_int;
use std::io;

/// waitid(2) for a child, or any of them, that stays as it is: a dead one is not reaped. Returns its number. With
/// `WNOHANG` among the options: `None` if children live, and none has changed its state.
///
/// # Errors
/// `ECHILD`: there is no such child.
pub(crate) fn peek(child: Option<libc::pid_t>, options: c_int) -> io::Result<Option<libc::pid_t>> {
    let options = options | libc::WNOWAIT;
    let (kind, id) = match child {
        Some(pid) => (libc::P_PID, pid.cast_unsigned()),
        None => (libc::P_ALL, 0),
    };
    // SAFETY: siginfo_t is plain data, for which zeros are valid.
    let mut report: libc::siginfo_t = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the call writes no more than one siginfo_t.
        if unsafe { libc::waitid(kind, id, &raw mut report, options) } == 0 {
            // SAFETY: for waitid(2), the kernel fills the fields of SIGCHLD; without a change all is zero.
            let pid = unsafe { report.si_pid() };
            return Ok((pid != 0).then_some(pid));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// waitpid(2) for a child or tracee, or any of them with -1: its pid and the kernel's status. With `WNOHANG` among the
/// options: `None` if there is nothing now.
pub(crate) fn wait(pid: libc::pid_t, options: c_int) -> io::Result<Option<(libc::pid_t, c_int)>> {
    let mut status = 0;
    loop {
        // SAFETY: the call writes to the one number given.
        match unsafe { libc::waitpid(pid, &raw mut status, options) } {
            0 => return Ok(None),
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            pid => return Ok(Some((pid, status))),
        }
    }
}
