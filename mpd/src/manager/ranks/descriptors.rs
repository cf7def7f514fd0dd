//! The descriptors of a rank: their numbers in the rank, and their tokens in the manager.

use mpd_wire::Stream;

/// Number of the PMI descriptor in every rank; of the control socket in a shim.
pub(super) const PMI_FD: usize = 3;

/// Tokens per rank: stdin, stdout, stderr, PMI, shim.
pub(super) const TOKENS: usize = 5;

/// The descriptor of a rank that an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankDescriptor {
    Stdin,
    Output(Stream),
    Pmi,
    Shim,
}

impl RankDescriptor {
    pub(super) const fn of(token: usize) -> Self {
        match token % TOKENS {
            0 => Self::Stdin,
            1 => Self::Output(Stream::Out),
            2 => Self::Output(Stream::Err),
            3 => Self::Pmi,
            _ => Self::Shim,
        }
    }

    pub(in crate::manager) const fn offset(self) -> usize {
        match self {
            Self::Stdin => 0,
            Self::Output(Stream::Out) => 1,
            Self::Output(Stream::Err) => 2,
            Self::Pmi => 3,
            Self::Shim => 4,
        }
    }
}
