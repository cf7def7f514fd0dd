//! The words that a part of a file stands for.

use std::ffi::OsString;

/// One line of a command line that a file stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The part of the file, for messages.
    pub(super) origin: String,
    pub(super) options: Vec<OsString>,
    /// The program with its arguments; empty for options of the job.
    pub(super) command: Vec<OsString>,
}

impl Line {
    /// Adds an option.
    pub(super) fn option(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = impl Into<OsString>>,
    ) {
        self.options.push(format!("-{name}").into());
        self.options.extend(values.into_iter().map(Into::into));
    }
}

#[cfg(test)]
pub(super) fn shown(lines: &[Line]) -> Vec<String> {
    let word = |word: &OsString| match word.to_string_lossy() {
        plain if plain.is_empty() || plain.contains(' ') => format!("'{plain}'"),
        plain => plain.into_owned(),
    };
    let line = |line: &Line| line.options.iter().chain(&line.command).map(word).collect::<Vec<_>>();
    lines.iter().map(|l| line(l).join(" ")).collect()
}
