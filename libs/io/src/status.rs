//! `/proc/PID/status`, see proc_pid_status(5).

use std::fs;

use nix::unistd::Pid;

/// What the kernel says of a process or thread; nothing if it is gone.
pub(crate) fn of(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// What stands behind a name, which ends in a colon.
pub(crate) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_and_a_process_that_is_gone_has_none() {
        let ours = of(Pid::this());
        assert_eq!(field(&ours, "Pid:"), Some(Pid::this().to_string().as_str()));
        assert_eq!(field(&ours, "Nothing:"), None);
        assert_eq!(field(&of(Pid::from_raw(i32::MAX)), "Pid:"), None);
    }
}
