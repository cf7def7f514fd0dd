//! Labels before lines, and the position of the cursor.

use mpd_wire::RankSet;

/// Composes the text that is shown.
#[derive(Debug, Default)]
pub(super) struct Display {
    /// The ranks that wrote the unfinished line in which the cursor is.
    unfinished: Option<RankSet>,
}

impl Display {
    /// A line of these ranks.
    pub(super) fn line(&mut self, ranks: &RankSet, text: &[u8]) -> Vec<u8> {
        let mut out = self.fresh();
        label(ranks, &mut out);
        out.extend_from_slice(text);
        out.push(b'\n');
        out
    }

    /// A line of the program of these ranks. It continues their unfinished line.
    pub(super) fn program(&mut self, ranks: &RankSet, text: &[u8]) -> Vec<u8> {
        let mut out = self.begin(ranks);
        out.extend_from_slice(text);
        out.push(b'\n');
        self.unfinished = None;
        out
    }

    /// A piece of a line. It is not left unfinished if `alone`: a prompt follows.
    pub(super) fn piece(&mut self, ranks: &RankSet, text: &[u8], alone: bool) -> Vec<u8> {
        let mut out = self.begin(ranks);
        out.extend_from_slice(text);
        match alone {
            true => out.push(b'\n'),
            false => self.unfinished = Some(ranks.clone()),
        }
        out
    }

    /// A line that does not come from debugged ranks.
    pub(super) fn plain(&mut self, text: &[u8]) -> Vec<u8> {
        let mut out = self.fresh();
        out.extend_from_slice(text);
        out.push(b'\n');
        out
    }

    /// The text that brings the cursor to the start of a line.
    pub(super) fn fresh(&mut self) -> Vec<u8> {
        self.unfinished.take().map(|_| b'\n').into_iter().collect()
    }

    /// The user has typed a line, and the terminal has shown it.
    pub(super) fn typed(&mut self) {
        self.unfinished = None;
    }

    fn begin(&mut self, ranks: &RankSet) -> Vec<u8> {
        if self.unfinished.as_ref() == Some(ranks) {
            return Vec::new();
        }
        let mut out = self.fresh();
        label(ranks, &mut out);
        out
    }
}

fn label(ranks: &RankSet, out: &mut Vec<u8>) {
    out.extend_from_slice(ranks.to_string().as_bytes());
    out.extend_from_slice(b": ");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_ranks_continue_a_piece() {
        let ranks = |text: &str| -> RankSet { text.parse().unwrap() };
        let (mut display, mut out) = (Display::default(), Vec::new());
        out.extend(display.piece(&ranks("0-2"), b"name? ", false));
        out.extend(display.program(&ranks("0-2"), b"Ann"));
        out.extend(display.piece(&ranks("0-2"), b"age? ", false));
        out.extend(display.line(&ranks("1"), b"stop"));
        out.extend(display.program(&ranks("0-2"), b"7"));
        let expected = "0-2: name? Ann\n0-2: age? \n1: stop\n0-2: 7\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
