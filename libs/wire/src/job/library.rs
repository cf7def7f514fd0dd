//! The MPI libraries that a manager tells apart by their requests.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of MPI library. Libraries of different kinds cannot send each other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MpiLibrary {
    /// MPICH, and libraries that were made from it, such as those of Intel and of MVAPICH. They speak PMI.
    Mpich,
    /// Open MPI, which speaks PMIx.
    OpenMpi,
}

impl fmt::Display for MpiLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mpich => "MPICH, Intel MPI or MVAPICH",
            Self::OpenMpi => "Open MPI",
        })
    }
}
