//! Standard input on its way down the job tree: a byte with the kind, and the content.

use mpd_wire::RankSet;

/// Most bytes of input in one payload.
pub const MAX_PIECE: usize = 64 * 1024 - 1;

/// Most bytes of the text of a set of ranks.
pub const MAX_RANKS: usize = 32 * 1024;

const BYTES: u8 = 0;
const END: u8 = 1;
const SWITCH: u8 = 2;

/// One payload of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin<'a> {
    /// The next bytes.
    Bytes(&'a [u8]),
    /// These ranks receive the bytes after this. Earlier bytes are for the earlier receivers.
    Switch(RankSet),
    /// The end of the input.
    End,
}

impl<'a> Stdin<'a> {
    /// The item as a payload.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => [&[BYTES], *bytes].concat(),
            Self::Switch(ranks) => [&[SWITCH], ranks.to_string().as_bytes()].concat(),
            Self::End => vec![END],
        }
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`InvalidInput`]. The link cannot continue.
    pub fn decode(payload: &'a [u8]) -> Result<Self, InvalidInput> {
        match payload {
            [BYTES, bytes @ ..] if bytes.len() <= MAX_PIECE => Ok(Self::Bytes(bytes)),
            [SWITCH, text @ ..] if text.len() <= MAX_RANKS => {
                let text = str::from_utf8(text).map_err(|_| InvalidInput)?;
                text.parse().map(Self::Switch).map_err(|_| InvalidInput)
            }
            [END] => Ok(Self::End),
            _ => Err(InvalidInput),
        }
    }
}

/// The bytes are not standard input in the managers' encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("standard input that cannot be read")]
pub struct InvalidInput;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn input_reads_back() {
        let ranks: RankSet = "0,2-4".parse().unwrap();
        assert_eq!(Stdin::Switch(ranks.clone()).encode(), b"\x020,2-4");
        for input in [
            Stdin::Bytes(b"a\n"),
            Stdin::Switch(ranks),
            Stdin::Switch(RankSet::none()),
            Stdin::Switch(RankSet::all()),
            Stdin::End,
        ] {
            assert_eq!(Stdin::decode(&input.encode()), Ok(input.clone()));
        }
        for bad in [&b""[..], b"\x01x", b"\x02", b"\x02x", b"\x03"] {
            assert_eq!(Stdin::decode(bad), Err(InvalidInput), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(input) = Stdin::decode(&bytes) {
                let again = input.encode();
                prop_assert_eq!(Stdin::decode(&again), Ok(input.clone()));
            }
        }
    }
}
