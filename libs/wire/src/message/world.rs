//! The description of a spawned world. It travels up with the spawner's request, and down to the
//! managers that start the world. It is bytes and may be long, so it travels in pieces.

use std::fmt;

use crate::Rank;
use crate::job::{Bytes, MAX_SPEC};

/// Most bytes of one piece, so that urgent frames are not delayed.
const MAX_PIECE: usize = 32 * 1024;

/// Most bytes of all pieces that are collected at a time.
pub const MAX_GATHERED: usize = 2 * MAX_SPEC;

/// Cuts `bytes` into the payloads of frames. `of` is the spawner for a request, and the first rank
/// of the world for an order.
pub fn pieces(of: Rank, bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let count = bytes.len().div_ceil(MAX_PIECE).max(1);
    (0..count).map(move |at| {
        let piece = &bytes[at * MAX_PIECE..bytes.len().min((at + 1) * MAX_PIECE)];
        let mut payload = of.0.to_be_bytes().to_vec();
        payload.push(u8::from(at + 1 == count));
        payload.extend_from_slice(piece);
        payload
    })
}

/// A received piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldPiece<'a> {
    /// The rank that identifies the request or order: see [`pieces`].
    pub of: Rank,
    /// Whether it is the last one.
    pub last: bool,
    pub bytes: &'a [u8],
}

impl<'a> WorldPiece<'a> {
    /// Reads a payload; `None` if it is not a piece.
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        let (of, rest) = payload.split_first_chunk::<4>()?;
        let (last, bytes) = rest.split_first()?;
        Some(Self { of: Rank(u32::from_be_bytes(*of)), last: *last == 1, bytes })
    }
}

/// Collects pieces until they are complete. `S` is the sender: pieces of two senders never mix. Its text for people has
/// only the number of bytes: they may be environments.
pub struct Gathering<S = ()>(std::collections::BTreeMap<(S, Rank), Bytes>);

impl<S: fmt::Debug> fmt::Debug for Gathering<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(key, bytes)| (key, bytes.len()))).finish()
    }
}

impl<S> Default for Gathering<S> {
    fn default() -> Self {
        Self(std::collections::BTreeMap::new())
    }
}

impl Gathering {
    /// Adds a piece of the only sender.
    ///
    /// # Errors
    /// Those of [`Gathering::take_from`].
    pub fn take(&mut self, piece: &WorldPiece<'_>) -> Result<Option<Bytes>, TooMuch> {
        self.take_from((), piece)
    }

    /// The bytes that the only sender has sent so far.
    pub fn of(&self, rank: Rank) -> &[u8] {
        self.0.get(&((), rank)).map_or(&[], Vec::as_slice)
    }
}

impl<S: Copy + Ord> Gathering<S> {
    /// Adds a piece of a sender; returns all bytes after the last piece. If the bound is exceeded, all pieces
    /// of that request or order are discarded.
    ///
    /// # Errors
    /// More than [`MAX_GATHERED`] bytes would have to be kept.
    pub fn take_from(
        &mut self,
        sender: S,
        piece: &WorldPiece<'_>,
    ) -> Result<Option<Bytes>, TooMuch> {
        let key = (sender, piece.of);
        let held: usize = self.0.values().map(Vec::len).sum();
        if held + piece.bytes.len() > MAX_GATHERED {
            self.0.remove(&key);
            return Err(TooMuch);
        }
        self.0.entry(key).or_default().extend_from_slice(piece.bytes);
        Ok(if piece.last { self.0.remove(&key) } else { None })
    }
}

/// The incomplete descriptions exceed the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many messages of worlds that have not begun")]
pub struct TooMuch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_even_when_interleaved_with_others() {
        let (long, short) = (vec![7; MAX_PIECE * 2 + 1], b"short".to_vec());
        let mut gathering = Gathering::default();
        let mut done = Vec::new();
        let one = pieces(Rank(1), &long).collect::<Vec<_>>();
        let other = pieces(Rank(2), &short).collect::<Vec<_>>();
        assert_eq!((one.len(), other.len()), (3, 1));
        for payload in one[..1].iter().chain(&other).chain(&one[1..]) {
            let piece = WorldPiece::read(payload).unwrap();
            done.extend(gathering.take(&piece).unwrap());
        }
        assert_eq!(done, [short, long]);
        assert!(gathering.0.is_empty());
    }

    #[test]
    fn pieces_of_two_senders_about_one_rank_do_not_mix() {
        let (long, short) = (vec![7; MAX_PIECE + 1], b"short".to_vec());
        let mut gathering = Gathering::default();
        let mut take = |sender: u32, payload: &[u8]| {
            gathering.take_from(sender, &WorldPiece::read(payload).unwrap()).unwrap()
        };
        let one = pieces(Rank(1), &long).collect::<Vec<_>>();
        let other = pieces(Rank(1), &short).collect::<Vec<_>>();
        assert_eq!(take(1, &one[0]), None);
        assert_eq!(take(2, &other[0]), Some(short));
        assert_eq!(take(1, &one[1]), Some(long));
    }

    #[test]
    fn pieces_beyond_the_bound_are_refused_and_discarded() {
        let mut gathering = Gathering::default();
        let bytes = vec![0; MAX_PIECE];
        let piece = WorldPiece { of: Rank(0), last: false, bytes: &bytes };
        let taken = (0..).take_while(|_| gathering.take(&piece).is_ok()).count();
        assert_eq!(taken, MAX_GATHERED / MAX_PIECE);
        assert!(gathering.0.is_empty());
    }

    #[test]
    fn an_empty_description_is_one_empty_piece() {
        let empty: Vec<_> = pieces(Rank(9), b"").collect();
        let piece = WorldPiece::read(&empty[0]).unwrap();
        assert_eq!(piece, WorldPiece { of: Rank(9), last: true, bytes: b"" });
        assert_eq!(WorldPiece::read(b"abcd"), None);
    }
}
