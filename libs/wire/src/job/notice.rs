//! A line for the user of a job, other than the job's end.

use serde::{Deserialize, Serialize};

/// A line for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The line.
    pub text: String,
    /// `mpirun` prints a minor notice on a terminal or with `-v` only.
    pub minor: bool,
}

impl Notice {
    /// A notice that is always printed.
    pub const fn major(text: String) -> Self {
        Self { text, minor: false }
    }

    /// A notice for terminals and for `-v`.
    pub const fn minor(text: String) -> Self {
        Self { text, minor: true }
    }
}
