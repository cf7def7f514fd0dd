//! The MPI libraries that a program or its requests show.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of MPI library. Libraries of different kinds cannot send each other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MpiLibrary {
    /// MPICH 4.1 or earlier.
    Mpich,
    /// MPICH 4.2 or later.
    LateMpich,
    /// An MPICH whose processes speak PMIx.
    PmixMpich,
    /// Intel's.
    Intel,
    Mvapich,
    /// Cray's.
    Cray,
    /// One of those whose requests look like those of MPICH 4.1.
    LikeMpich,
    /// Open MPI of any version. It speaks PMIx.
    OpenMpi,
    /// Open MPI 4 or earlier.
    OpenMpi4,
    /// Open MPI 5 or later.
    OpenMpi5,
}

impl MpiLibrary {
    /// Whether ranks of these libraries can be of one world, as far as is known.
    pub fn goes_with(self, other: Self) -> bool {
        self == other || self.may_be(other) || other.may_be(self)
    }

    /// Whether it may turn out to be another kind.
    pub const fn is_vague(self) -> bool {
        matches!(self, Self::LikeMpich | Self::OpenMpi)
    }

    const fn may_be(self, other: Self) -> bool {
        match self {
            Self::LikeMpich => {
                matches!(other, Self::Mpich | Self::Intel | Self::Mvapich | Self::Cray)
            }
            Self::OpenMpi => matches!(other, Self::OpenMpi4 | Self::OpenMpi5),
            _ => false,
        }
    }

    pub const fn is_open_mpi(self) -> bool {
        matches!(self, Self::OpenMpi | Self::OpenMpi4 | Self::OpenMpi5)
    }
}

impl fmt::Display for MpiLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mpich => "MPICH 4.1 or earlier",
            Self::LateMpich => "MPICH 4.2 or later",
            Self::PmixMpich => "MPICH with PMIx",
            Self::Intel => "Intel MPI",
            Self::Mvapich => "MVAPICH",
            Self::Cray => "Cray MPICH",
            Self::LikeMpich => "MPICH 4.1 or earlier, Intel MPI or MVAPICH",
            Self::OpenMpi => "Open MPI",
            Self::OpenMpi4 => "Open MPI 4 or earlier",
            Self::OpenMpi5 => "Open MPI 5 or later",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::MpiLibrary::*;

    #[test]
    fn only_equal_libraries_go_together_or_relatives_of_an_unclear_version() {
        let alike = |one, other| match one {
            LikeMpich => matches!(other, Mpich | Intel | Mvapich | Cray),
            OpenMpi => matches!(other, OpenMpi4 | OpenMpi5),
            _ => false,
        };
        let all = [
            Mpich, LateMpich, PmixMpich, Intel, Mvapich, Cray, LikeMpich, OpenMpi, OpenMpi4,
            OpenMpi5,
        ];
        for one in all {
            for other in all {
                let expected = one == other || alike(one, other) || alike(other, one);
                assert_eq!(one.goes_with(other), expected, "{one} {other}");
            }
        }
    }
}
