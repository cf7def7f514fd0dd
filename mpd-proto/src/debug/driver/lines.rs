//! Bytes to lines, bounded.

/// Cuts a stream at its newlines. Of a line that is too long the rest is dropped.
#[derive(Debug)]
pub(super) struct Lines {
    partial: Vec<u8>,
    max: usize,
}

impl Lines {
    pub(super) const fn new(max: usize) -> Self {
        Self { partial: Vec::new(), max }
    }

    /// The lines that are whole now, without newlines.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let room = self.max.saturating_sub(self.partial.len());
            self.partial.extend(&text[..text.len().min(room)]);
            if is_whole {
                lines.push(std::mem::take(&mut self.partial));
            }
        }
        lines
    }
}
