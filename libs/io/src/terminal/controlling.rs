//! The controlling terminal of this process: whether it exists, and whether a shell could continue us after a stop.

use std::fs;
use std::io::{self, IsTerminal as _};

use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid, tcgetpgrp};

use crate::process::status::{self, field};

/// Whether this process has a controlling terminal that still works.
pub fn is_there() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

/// Whether a user can interact with this process: input, output and errors are terminals, and its process group is in
/// the foreground.
pub fn is_ours() -> bool {
    let are_terminals =
        io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    are_terminals && tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground == getpgrp())
}

/// Whether our process group has a parent in another group of the session: a shell with job control. Without one the
/// kernel ignores SIGTSTP, because no process could continue the stopped one.
pub fn has_job_control() -> bool {
    const MAX_ANCESTORS: usize = 64;
    let own = getpgrp();
    let mut ancestor = getppid();
    for _ in 0..MAX_ANCESTORS {
        match getpgid(Some(ancestor)) {
            Ok(group) if group == own => {}
            Ok(_) => return getsid(Some(ancestor)) == getsid(None),
            Err(_) => return false,
        }
        let Some(parent) = parent_of(ancestor) else { return false };
        ancestor = parent;
    }
    false
}

/// The parent of a process, if the process exists.
pub fn parent_of(pid: Pid) -> Option<Pid> {
    field(&status::of(pid), "PPid:")?.parse().ok().map(Pid::from_raw)
}
