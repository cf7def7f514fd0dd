//! Keys and values on their way to the other hosts of a job: the data that managers exchange at a fence.
//!
//! Format: `key length u16 | key | value length u32 | value`, repeated, numbers big-endian. A reader never reads beyond
//! the given bytes.

/// Size in bytes after which a new piece begins.
pub const PIECE: usize = 64 * 1024;

/// Pairs collected for the next fence, in pieces of whole pairs.
#[derive(Debug, Default)]
pub struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    /// Adds a pair. Keys and values of a key-value space are far below the limits of the format.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        let (Ok(key_length), Ok(value_length)) =
            (u16::try_from(key.len()), u32::try_from(value.len()))
        else {
            return;
        };
        let need = key.len() + value.len() + 6;
        if self.0.last().is_none_or(|last| last.len() + need > PIECE) {
            self.0.push(Vec::new());
        }
        let Some(piece) = self.0.last_mut() else { return };
        piece.extend_from_slice(&key_length.to_be_bytes());
        piece.extend_from_slice(key);
        piece.extend_from_slice(&value_length.to_be_bytes());
        piece.extend_from_slice(value);
    }

    /// Takes the collected pieces.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0)
    }
}

/// The bytes are not whole pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed keys and values")]
pub struct InvalidPairs;

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// The pairs of a piece, in order.
///
/// # Errors
/// [`InvalidPairs`].
pub fn read(piece: &[u8]) -> Result<Vec<Pair<'_>>, InvalidPairs> {
    let mut pairs = Vec::new();
    let mut rest = piece;
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<2>().ok_or(InvalidPairs)?;
        let key_length = usize::from(u16::from_be_bytes(*length));
        let (key, after) = after.split_at_checked(key_length).ok_or(InvalidPairs)?;
        let (length, after) = after.split_first_chunk::<4>().ok_or(InvalidPairs)?;
        let value_length =
            usize::try_from(u32::from_be_bytes(*length)).map_err(|_| InvalidPairs)?;
        let (value, after) = after.split_at_checked(value_length).ok_or(InvalidPairs)?;
        pairs.push((key, value));
        rest = after;
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_piece_is_refused() {
        let mut pieces = Pieces::default();
        pieces.put(b"key", b"value");
        let piece = pieces.take().remove(0);
        for length in 1..piece.len() {
            assert_eq!(read(&piece[..length]), Err(InvalidPairs), "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn pairs_read_back_in_order_from_any_pieces(
            pairs in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..40), proptest::collection::vec(any::<u8>(), 0..9_000)), 0..12),
        ) {
            let mut pieces = Pieces::default();
            for (key, value) in &pairs {
                pieces.put(key, value);
            }
            let pieces = pieces.take();
            prop_assert!(pieces.iter().all(|piece| piece.len() <= PIECE));
            let read: Vec<_> = pieces.iter().flat_map(|piece| read(piece).unwrap()).collect();
            let wanted: Vec<_> = pairs.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
            prop_assert_eq!(read, wanted);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
