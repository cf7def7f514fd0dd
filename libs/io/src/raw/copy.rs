//! Copies of this process.

use std::ffi::{c_int, c_long};
use std::io;

use nix::unistd::Pid;

/// Which of the two a process is after [`copy_beside`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The process that made the copy, with the copy's number.
    Original(Pid),
    Copy,
}

/// Makes a copy of this process, as fork does, but as a child of this process's parent. The parent gets SIGCHLD at the
/// end of the copy, and reaps it.
///
/// Only for a process with one thread. In a copy, locks that another thread holds are never released.
///
/// # Errors
/// The system's: too many processes, too little memory.
pub fn copy_beside() -> io::Result<Copied> {
    let flags = c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    let none: c_long = 0;
    // SAFETY: without CLONE_VM the copy has its own memory, and with a zero stack it continues on its copy of this one.
    // The C library's own fork cannot name another parent. What that does besides concerns other threads, and the
    // number of the thread, which the library reads only with threads.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    match c_int::try_from(result) {
        Ok(0) => Ok(Copied::Copy),
        Ok(pid @ 1..) => Ok(Copied::Original(Pid::from_raw(pid))),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::wait;

    #[test]
    fn a_copy_is_a_child_of_the_parent_of_the_copied_process() {
        // SAFETY: the child makes only system calls, and exits.
        let middle = unsafe { libc::fork() };
        if middle == 0 {
            let code = match copy_beside() {
                Ok(Copied::Copy) => 7,
                Ok(Copied::Original(_)) => 8,
                Err(_) => 9,
            };
            // SAFETY: _exit runs no handlers.
            unsafe { libc::_exit(code) };
        }
        let mut ended: Vec<_> = (0..2).map(|_| wait(-1, 0).unwrap().unwrap()).collect();
        ended.sort_by_key(|(pid, _)| *pid != middle);
        let codes: Vec<_> = ended.iter().map(|(_, status)| libc::WEXITSTATUS(*status)).collect();
        assert_eq!(codes, [8, 7]);
    }
}
