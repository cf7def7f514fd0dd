//! What managers must know of a world that a job spawns: on its way up as its spawner asks for it, on its
//! way down to those who start it. It is bytes and may be long, so it travels in pieces.

use crate::Rank;
use crate::job::{Bytes, MAX_SPEC};

/// Most bytes of one piece, so that what is urgent is not held up.
const MAX_PIECE: usize = 32 * 1024;

/// Most bytes of all pieces that are gathered at a time.
pub const MAX_GATHERED: usize = 2 * MAX_SPEC;

/// Cuts `bytes` into the payloads of frames: of a request they bear its spawner, of an order the first
/// rank of the world.
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

/// A piece as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldPiece<'a> {
    /// Of which request or order.
    pub of: Rank,
    /// Whether it is the last one.
    pub last: bool,
    /// What it holds.
    pub bytes: &'a [u8],
}

impl<'a> WorldPiece<'a> {
    /// Reads a payload; `None` if it is none.
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        let (of, rest) = payload.split_first_chunk::<4>()?;
        let (last, bytes) = rest.split_first()?;
        Some(Self { of: Rank(u32::from_be_bytes(*of)), last: *last == 1, bytes })
    }
}

/// Pieces gathered until they are whole.
#[derive(Debug, Default)]
pub struct Gathering(std::collections::BTreeMap<Rank, Bytes>);

impl Gathering {
    /// Takes a piece; all of it, if it was the last one. What is too much, and what belongs to it, is
    /// forgotten: `Err`.
    ///
    /// # Errors
    /// More than [`MAX_GATHERED`] bytes would have to be kept.
    pub fn take(&mut self, piece: &WorldPiece<'_>) -> Result<Option<Bytes>, TooMuch> {
        let held: usize = self.0.values().map(Vec::len).sum();
        if held + piece.bytes.len() > MAX_GATHERED {
            self.0.remove(&piece.of);
            return Err(TooMuch);
        }
        self.0.entry(piece.of).or_default().extend_from_slice(piece.bytes);
        Ok(if piece.last { self.0.remove(&piece.of) } else { None })
    }
}

/// Too much that is not whole yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more of worlds to come than can be kept")]
pub struct TooMuch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_is_whole_again_also_with_others_in_between() {
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
    fn too_much_is_refused_and_forgotten() {
        let mut gathering = Gathering::default();
        let bytes = vec![0; MAX_PIECE];
        let piece = WorldPiece { of: Rank(0), last: false, bytes: &bytes };
        let taken = (0..).take_while(|_| gathering.take(&piece).is_ok()).count();
        assert_eq!(taken, MAX_GATHERED / MAX_PIECE);
        assert!(gathering.0.is_empty());
    }

    #[test]
    fn nothing_is_a_piece_of_nothing() {
        let empty: Vec<_> = pieces(Rank(9), b"").collect();
        let piece = WorldPiece::read(&empty[0]).unwrap();
        assert_eq!(piece, WorldPiece { of: Rank(9), last: true, bytes: b"" });
        assert_eq!(WorldPiece::read(b"abcd"), None);
    }
}
