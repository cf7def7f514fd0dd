//! `/proc/PID/status`, see proc_pid_status(5).

use std::sync::OnceLock;

use nix::unistd::Pid;

use crate::process::procfile;

/// The text for a process or thread; empty if it is gone.
pub(crate) fn of(pid: Pid) -> String {
    procfile::record(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// The value of a field, given by its name with the colon.
pub(crate) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A mask of signals; bit 0 is signal 1.
pub(crate) fn mask(status: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(field(status, name)?, 16).ok()
}

/// What this process has inherited, if it asks before it changes anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    /// The signals that it ignores.
    pub(crate) ignored: u64,
    /// The signals that it catches. None survives the execution of a program.
    pub(crate) caught: u64,
    /// The file mode creation mask; `None` before Linux 4.7.
    umask: Option<u32>,
}

/// What this process has inherited, by a single look at the first call; `None` without `/proc`.
pub(crate) fn inherited() -> Option<Inherited> {
    static FIRST: OnceLock<Option<Inherited>> = OnceLock::new();
    *FIRST.get_or_init(|| {
        let status = procfile::record("/proc/self/status").ok()?;
        Some(Inherited {
            ignored: mask(&status, "SigIgn:")?,
            caught: mask(&status, "SigCgt:")?,
            umask: field(&status, "Umask:").and_then(|mask| u32::from_str_radix(mask, 8).ok()),
        })
    })
}

/// The inherited file mode creation mask of this process; `None` if the system does not tell it.
pub fn inherited_umask() -> Option<u32> {
    inherited()?.umask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_signals_is_found() {
        let status = "Name:\tx\nSigPnd:\t0000000000000002\nSigBlk:\t0000000000000202\n";
        assert_eq!(mask(status, "SigBlk:"), Some(0x202));
        assert_eq!(mask("Name:\tx\n", "SigBlk:"), None);
    }

    #[test]
    fn the_inherited_umask_is_that_of_the_start() {
        use nix::sys::stat::{Mode, umask};
        let own = umask(Mode::from_bits_truncate(0o027));
        umask(own);
        assert_eq!(inherited_umask(), Some(own.bits()));
        umask(Mode::from_bits_truncate(0o027));
        assert_eq!(inherited_umask(), Some(own.bits()));
        umask(own);
    }

    #[test]
    fn a_field_is_found_by_its_name_and_a_dead_process_has_no_fields() {
        let ours = of(Pid::this());
        assert_eq!(field(&ours, "Pid:"), Some(Pid::this().to_string().as_str()));
        assert_eq!(field(&ours, "Nothing:"), None);
        assert_eq!(field(&of(Pid::from_raw(i32::MAX)), "Pid:"), None);
    }
}
