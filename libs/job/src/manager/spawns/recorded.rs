//! Inputs about spawns in a recording. They have the names of programs and variables, and the numbers of arguments, but no
//! values. The machine decides by them as by the others, except that pieces which exceed the bound of all pieces are not
//! refused in a replay.

use mpd_wire::job::Bytes;
use mpd_wire::message::WorldPiece;

use super::order::SpawnOrder;
use super::{SpawnInput, SpawnOutput, Spawns};
use crate::manager::LinkEnd;

impl Spawns {
    /// An input without values. A piece has the whole order if it is the last one, and is empty otherwise, as the text of
    /// a value may be divided between pieces.
    pub(in crate::manager) fn blanked(&self, input: &SpawnInput) -> SpawnInput {
        match input {
            SpawnInput::Asked { caller, order, errors } => {
                SpawnInput::Asked { caller: *caller, order: blanked(order), errors: errors.clone() }
            }
            SpawnInput::Grow(order) => SpawnInput::Grow(blanked(order)),
            SpawnInput::Piece(from, payload) => {
                SpawnInput::Piece(*from, self.piece(*from, payload))
            }
            SpawnInput::Placed(number, placing) => SpawnInput::Placed(*number, placing.clone()),
        }
    }

    fn piece(&self, from: LinkEnd, payload: &[u8]) -> Bytes {
        let Some(piece) = WorldPiece::read(payload) else { return Vec::new() };
        let gathering = match from {
            LinkEnd::Child(_) => &self.from_children,
            LinkEnd::Parent => &self.from_parent,
        };
        let known = gathering.of(piece.of);
        let whole = if piece.last { blanked(&[known, piece.bytes].concat()) } else { Vec::new() };
        [&payload[..payload.len() - piece.bytes.len()], &whole].concat()
    }
}

/// An order whose variables, arguments, directories and initial values have other texts of the same lengths. An order that
/// cannot be read is as many zeros, which cannot be read either.
fn blanked(order: &[u8]) -> Bytes {
    let Ok(mut order) = SpawnOrder::decode(order) else { return vec![0; order.len()] };
    for variable in order.spec.environments.iter_mut().flatten() {
        let value = variable.iter().position(|&byte| byte == b'=').map_or(0, |at| at + 1);
        variable[value..].fill(b'x');
    }
    for argset in &mut order.spec.argsets {
        argset.args.iter_mut().for_each(|argument| argument.fill(b'x'));
        argset.directory.fill(b'x');
        argset.search.fill(b'x');
    }
    order.encode()
}

/// The text of an output, which is the same for the recorded inputs.
pub(in crate::manager) fn text_of(output: &SpawnOutput) -> String {
    match output {
        SpawnOutput::Piece(to, payload) => match WorldPiece::read(payload) {
            Some(piece) => format!("Piece({to:?}, {:?}, last: {})", piece.of, piece.last),
            None => format!("Piece({to:?})"),
        },
        output => format!("{output:?}"),
    }
}
