//! The share of the CPUs that the processes of this session have together.
//!
//! With autogroup scheduling (`sched(7)`, `CONFIG_SCHED_AUTOGROUP`) the kernel gives each session the same share, however
//! many processes it has. The niceness of a session is its weight among the others. A process inherits the group of its
//! session, and the kernel has no other group for a process outside control groups of CPU time.

use std::fs;
use std::io;

/// Sets the niceness of this process's session.
///
/// # Errors
/// `PermissionDenied` if it is negative and this process may not have that niceness. `NotFound` if the kernel has no
/// autogroups. `WouldBlock` if a process without privileges sets it more than ten times a second.
pub fn set_niceness(niceness: i8) -> io::Result<()> {
    fs::write("/proc/self/autogroup", niceness.to_string())
}
