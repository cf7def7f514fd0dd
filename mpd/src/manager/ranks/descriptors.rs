//! The descriptors of a rank: their numbers in the rank, and their tokens in the manager.

use mio::Token;
use mpd_ranks::Slot;
use mpd_wire::Stream;

use crate::manager::tokens::FIRST_RANK;

/// Number of the PMI descriptor in every rank; of the control socket in a shim.
pub(super) const PMI_FD: usize = 3;

/// Tokens per rank: stdin, stdout, stderr, PMI, shim.
const TOKENS: usize = 5;

/// The descriptor of a rank that an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankDescriptor {
    Stdin,
    Output(Stream),
    Pmi,
    Shim,
}

impl RankDescriptor {
    /// The slot and the descriptor of a token, if a rank has the token.
    pub(in crate::manager) fn of(token: usize) -> Option<(Slot, Self)> {
        let at = token.checked_sub(FIRST_RANK)?;
        let descriptor = match at % TOKENS {
            0 => Self::Stdin,
            1 => Self::Output(Stream::Out),
            2 => Self::Output(Stream::Err),
            3 => Self::Pmi,
            _ => Self::Shim,
        };
        Some((Slot(at / TOKENS), descriptor))
    }

    /// The token of this descriptor of the rank at a slot.
    pub(super) const fn token(self, Slot(slot): Slot) -> Token {
        let offset = match self {
            Self::Stdin => 0,
            Self::Output(Stream::Out) => 1,
            Self::Output(Stream::Err) => 2,
            Self::Pmi => 3,
            Self::Shim => 4,
        };
        Token(FIRST_RANK + slot * TOKENS + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_slot_and_descriptor() {
        for descriptor in [RankDescriptor::Stdin, RankDescriptor::Pmi, RankDescriptor::Shim] {
            let Token(token) = descriptor.token(Slot(7));
            assert_eq!(RankDescriptor::of(token), Some((Slot(7), descriptor)));
        }
        assert_eq!(RankDescriptor::of(FIRST_RANK - 1), None);
    }
}
