//! The state of a machine as text, in pieces for a console.

use std::fmt::{self, Debug, Write as _};

/// Most bytes of a state. A slow console keeps its connection with this many unread bytes.
const MAX_STATE: usize = 512 * 1024;

/// Most bytes of one piece: a frame holds it even if every byte is escaped.
const MAX_PIECE: usize = 32 * 1024;

/// The state of a machine in pieces, each with the flag whether another one follows. A secret appears only as the
/// name of its type.
pub fn pieces(machine: &impl Debug) -> Vec<(String, bool)> {
    let mut text = Bounded(String::new());
    if write!(text, "{machine:#?}").is_err() {
        text.0.push_str("\n(the rest is left out)");
    }
    let mut pieces = Vec::new();
    let mut rest = text.0.as_str();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(MAX_PIECE));
        pieces.push((piece.to_owned(), !behind.is_empty()));
        rest = behind;
    }
    pieces
}

/// Text that does not grow beyond [`MAX_STATE`].
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_STATE - self.0.len();
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        if text.len() <= room { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_in_pieces_and_a_large_one_is_cut() {
        assert_eq!(pieces(&7), [("7".to_owned(), false)]);
        let ends = |list: &[(String, bool)]| {
            assert!(list.iter().all(|(piece, _)| !piece.is_empty() && piece.len() <= MAX_PIECE));
            let flags: Vec<bool> = list.iter().map(|(_, more)| *more).collect();
            assert!(flags.iter().rev().skip(1).all(|more| *more) && !flags[flags.len() - 1]);
        };
        let some = pieces(&vec!["é"; 10_000]);
        ends(&some);
        let text: String = some.iter().map(|(piece, _)| piece.as_str()).collect();
        assert_eq!(text, format!("{:#?}", vec!["é"; 10_000]));
        let many = pieces(&vec!["é"; 1_000_000]);
        ends(&many);
        let text: String = many.into_iter().map(|(piece, _)| piece).collect();
        assert!(text.ends_with("\n(the rest is left out)") && text.len() < MAX_STATE + 100);
    }
}
