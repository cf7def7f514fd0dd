//! The progress of a long operation: one line on the terminal at standard error, rewritten in place and removed at the
//! end. Pipes, files and dumb terminals get nothing.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsRawFd as _;

use crate::raw;

/// Moves to the beginning of the line and removes it.
pub const CLEAR: &str = "\r\x1b[K";

/// Columns of a terminal that does not report them.
const USUAL_COLUMNS: u16 = 80;

/// Whether standard error is a terminal whose lines can be rewritten.
pub fn is_possible() -> bool {
    let term = std::env::var_os("TERM").unwrap_or_default();
    !term.is_empty() && term != "dumb" && io::stderr().is_terminal()
}

/// The bytes that replace the line of the terminal at standard error by this text.
pub fn replacement(text: &str) -> String {
    let columns = raw::window_size(io::stderr().as_raw_fd()).map(|(columns, _)| columns);
    let columns = columns.filter(|&columns| columns > 0).unwrap_or(USUAL_COLUMNS);
    fitted(text, columns.into())
}

/// The last column stays free, since a terminal may begin a new line after it.
fn fitted(text: &str, columns: usize) -> String {
    let shown: String =
        text.chars().filter(|sign| !sign.is_control()).take(columns.saturating_sub(1)).collect();
    format!("\r{shown}\x1b[K")
}

/// The line of a program that writes to its terminal itself. Dropping it removes the line.
#[derive(Debug)]
pub struct ProgressLine {
    is_wanted: bool,
    is_shown: bool,
}

impl ProgressLine {
    /// The line, if the caller wants it and the terminal can show it.
    pub fn new(is_wanted: bool) -> Self {
        Self { is_wanted: is_wanted && is_possible(), is_shown: false }
    }

    /// Shows this text instead of the last one.
    pub fn show(&mut self, text: &str) {
        if self.is_wanted {
            write(&replacement(text));
            self.is_shown = true;
        }
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            write(CLEAR);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

fn write(text: &str) {
    // The terminal may be gone.
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_the_width_and_has_no_control_characters() {
        assert_eq!(fitted("abc\n\x1b[d", 80), "\rabc[d\x1b[K");
        assert_eq!(fitted("abcdef", 4), "\rabc\x1b[K");
        assert_eq!(fitted("abc", 0), "\r\x1b[K");
    }
}
