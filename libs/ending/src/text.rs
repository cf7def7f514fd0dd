//! Processes as a message names them, and lines of the log.

use std::fmt;
use std::path::PathBuf;

use mpd_wire::Pid;

/// Most processes in a message.
const MAX_NAMED: usize = 8;

/// The first eight processes, each as `describe` names it, and the number of further ones.
pub fn names_of(processes: &[Pid], describe: impl Fn(Pid) -> String) -> String {
    let names: Vec<String> =
        processes.iter().take(MAX_NAMED).map(|&process| describe(process)).collect();
    let more = match processes.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", names.join(", "))
}

/// A line of the log. Only the owner formats it, if its level is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The search for the users of the files that are left was given up.
    SearchTooLong,
    /// A file in use stays. Its names.
    Stays(Vec<PathBuf>),
    /// Besides the job, another program uses the file with this inode.
    Shared(u64),
    /// A file is the job's by its name.
    Named(PathBuf),
    /// A file is older than the job.
    Older(PathBuf),
}

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something is left that should not be.
    Warning,
    /// For the administrator of a host.
    Info,
    /// For developers.
    Debug,
}

impl Line {
    /// How important the line is.
    pub const fn level(&self) -> Level {
        match self {
            Self::SearchTooLong => Level::Warning,
            Self::Stays(_) | Self::Shared(_) | Self::Named(_) => Level::Info,
            Self::Older(_) => Level::Debug,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SearchTooLong => f.write_str(
                "shared memory of the job is left: the search for its users took too long",
            ),
            Self::Stays(names) => {
                let names: Vec<_> = names.iter().map(|name| name.display().to_string()).collect();
                write!(f, "{} stays: another program uses it", names.join(", "))
            }
            Self::Shared(inode) => write!(
                f,
                "a file of /dev/shm (inode {inode}) stays: besides the job, another program uses it"
            ),
            Self::Named(path) => write!(f, "{}: the job's by its name", path.display()),
            Self::Older(path) => write!(f, "{}: older than the job", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_eight_processes_and_counts_the_others() {
        let processes: Vec<Pid> = (1..=10).map(Pid).collect();
        let names = |count: usize| names_of(&processes[..count], |Pid(pid)| format!("p{pid}"));
        assert_eq!(names(2), "p1, p2");
        assert_eq!(names(10), "p1, p2, p3, p4, p5, p6, p7, p8 and 2 more");
    }
}
