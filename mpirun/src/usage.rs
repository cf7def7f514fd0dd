//! The error of the command line: one line for a person, with the program's name in front.

use std::fmt;

use mpd_proto::job::exit;

/// Why the command line is no job. [`fmt::Display`] is the whole line without line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    name: String,
    origin: Option<String>,
    text: String,
    hint: bool,
}

impl Usage {
    /// What is wrong with something that the command line names: a file, a variable.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { name: "mpirun".into(), origin: None, text: text.into(), hint: false }
    }

    /// What is wrong with the command line itself; the line then mentions the help.
    pub(crate) fn syntax(text: impl Into<String>) -> Self {
        Self { hint: true, ..Self::new(text) }
    }

    /// Where the offending words come from, when not from the command line.
    pub(crate) fn at(mut self, origin: Option<&impl fmt::Display>) -> Self {
        if self.origin.is_none() {
            self.origin = origin.map(|o| o.to_string());
        }
        self
    }

    /// Under which name the program was started.
    pub(crate) fn by(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The exit code that goes with it.
    pub const fn exit_code(&self) -> u8 {
        exit::SUITE
    }
}

impl std::error::Error for Usage {}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        f.write_str(&self.text)?;
        if self.hint {
            write!(f, " (see {} --help)", self.name)?;
        }
        Ok(())
    }
}
