//! Errors of the command line: one line for people that begins with the program's name.

use std::fmt;

use mpd_io::files::logging::one_line;
use mpd_wire::job::exit;

/// Why the command line does not describe a job. [`fmt::Display`] is the whole line without its
/// newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    name: String,
    origin: Option<String>,
    text: String,
    hint: bool,
}

impl Usage {
    /// An error of something that the command line names, such as a file or a variable.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { name: "mpirun".into(), origin: None, text: text.into(), hint: false }
    }

    /// An error of the command line itself; the line then mentions the help.
    pub(crate) fn syntax(text: impl Into<String>) -> Self {
        Self { hint: true, ..Self::new(text) }
    }

    /// Adds the origin of the wrong arguments, if it is not the command line.
    pub(crate) fn at(mut self, origin: Option<&impl fmt::Display>) -> Self {
        if self.origin.is_none() {
            self.origin = origin.map(|o| o.to_string());
        }
        self
    }

    /// Sets the name of the program.
    pub(crate) fn by(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The exit code for this error.
    pub const fn exit_code(&self) -> u8 {
        exit::SUITE
    }
}

impl std::error::Error for Usage {}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        let parts = self.origin.iter().flat_map(|o| [o.as_str(), ": "]).chain([&*self.text]);
        // Names from the user may have any bytes; the message stays one line.
        f.write_str(&one_line(&parts.collect::<String>()))?;
        if self.hint {
            write!(f, " (see {} --help)", self.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_one_line_with_any_names() {
        assert_eq!(Usage::new("a\u{202e}\u{2028}").to_string(), "mpirun: a\\u{202e}\\u{2028}");
        let error = Usage::new("bad\nname\u{1b}[2J").at(Some(&"a\tb line 3")).by("mpiexec");
        assert_eq!(error.to_string(), "mpiexec: a\\tb line 3: bad\\nname\\u{1b}[2J");
        assert_eq!(Usage::syntax("é").to_string(), "mpirun: é (see mpirun --help)");
        assert_eq!(error.exit_code(), 125);
    }
}
