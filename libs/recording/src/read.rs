//! Reads a recording. The file may have any content.

use std::io::{BufRead, Read as _};

use serde::de::DeserializeOwned;

use crate::format::{FORMAT, Header, MAX_LINE};

/// The reason why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum InvalidRecording {
    /// The file cannot be read.
    #[error("cannot read the recording: {0}")]
    Unreadable(std::io::Error),
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The first line is no header.
    #[error("the file is no recording: {0}")]
    NoHeader(String),
    /// The recording has another format.
    #[error("the recording has format {0} and this program reads format {FORMAT}")]
    Format(u32),
    /// No machine can have this configuration.
    #[error("line 1: no machine has this configuration: {0}")]
    Start(String),
    /// A line is no step.
    #[error("line {line}: {problem}")]
    Line {
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
}

impl From<std::io::Error> for InvalidRecording {
    fn from(error: std::io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// The lines of a recording.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    /// The number of the last line.
    number: u64,
    line: Vec<u8>,
}

/// The next item of the file.
pub(crate) enum Next<T> {
    Line(T),
    /// The file ends in the middle of a line.
    Torn,
    Nothing,
}

impl<R: BufRead> Lines<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`InvalidRecording`].
    pub fn begin(input: R) -> Result<(Header, Self), InvalidRecording> {
        let mut lines = Self { input, number: 0, line: Vec::new() };
        if !lines.read()? && lines.line.is_empty() {
            return Err(InvalidRecording::Empty);
        }
        let header: Header = serde_json::from_slice(&lines.line)
            .map_err(|e| InvalidRecording::NoHeader(e.to_string()))?;
        if header.recording != FORMAT {
            return Err(InvalidRecording::Format(header.recording));
        }
        Ok((header, lines))
    }

    /// The next line.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Next<T>, InvalidRecording> {
        match (self.read()?, self.line.is_empty()) {
            (true, _) => match serde_json::from_slice(&self.line) {
                Ok(line) => Ok(Next::Line(line)),
                Err(e) => Err(self.invalid(e.to_string())),
            },
            (false, true) => Ok(Next::Nothing),
            (false, false) => Ok(Next::Torn),
        }
    }

    pub(crate) const fn invalid(&self, problem: String) -> InvalidRecording {
        InvalidRecording::Line { line: self.number, problem }
    }

    /// Reads a line. `false`: the file ends before a newline.
    fn read(&mut self) -> Result<bool, InvalidRecording> {
        self.line.clear();
        self.number += 1;
        let read = self.input.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut self.line)?;
        if self.line.pop_if(|last| *last == b'\n').is_some() {
            return Ok(true);
        }
        if read == MAX_LINE {
            return Err(self.invalid(format!("it has more than {MAX_LINE} bytes")));
        }
        Ok(false)
    }
}
