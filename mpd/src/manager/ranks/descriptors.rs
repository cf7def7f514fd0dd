//! The descriptors of a rank: their numbers in the rank, and their tokens in the manager.

use mio::Token;
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

    /// The token of the PMI connection of a rank with tokens from `first_token` on.
    pub(super) const fn pmi_token(first_token: usize) -> Token {
        Token(first_token + Self::Pmi.offset())
    }

    pub(super) const fn offset(self) -> usize {
        match self {
            Self::Stdin => 0,
            Self::Output(Stream::Out) => 1,
            Self::Output(Stream::Err) => 2,
            Self::Pmi => 3,
            Self::Shim => 4,
        }
    }
}
