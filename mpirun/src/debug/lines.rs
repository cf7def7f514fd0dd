//! Splits bytes into lines.

/// Most bytes of a line; output of a debugger and long rank sets fit.
const MAX_LINE: usize = 1 << 20;

/// The partial line of a stream.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Adds bytes and calls `each` with each complete line, without its newline.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(&rest[..at]);
            each(&self.partial);
            self.partial.clear();
            rest = &rest[at + 1..];
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > MAX_LINE {
            each(&self.partial);
            self.partial.clear();
        }
    }

    /// Handles the end of the stream: a partial line counts as a line.
    pub(super) fn finish(&mut self, each: impl FnOnce(&[u8])) {
        let partial = std::mem::take(&mut self.partial);
        if !partial.is_empty() {
            each(&partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_the_pieces_of_the_stream() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for part in ["a", "b\n\nc", "d"] {
            lines.push(part.as_bytes(), |line| seen.push(line.to_vec()));
        }
        lines.finish(|line| seen.push(line.to_vec()));
        assert_eq!(seen, [&b"ab"[..], b"", b"cd"]);
    }
}
