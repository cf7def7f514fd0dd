//! `/proc/PID/status`, see proc_pid_status(5).

use nix::unistd::Pid;

use crate::procfile;

/// The text for a process or thread; empty if it is gone.
pub(crate) fn of(pid: Pid) -> String {
    procfile::record(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// The value of a field, given by its name with the colon.
pub(crate) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_and_a_dead_process_has_no_fields() {
        let ours = of(Pid::this());
        assert_eq!(field(&ours, "Pid:"), Some(Pid::this().to_string().as_str()));
        assert_eq!(field(&ours, "Nothing:"), None);
        assert_eq!(field(&of(Pid::from_raw(i32::MAX)), "Pid:"), None);
    }
}
