//! The tasks, from lines of standard input or of a file. They are read only as fast as hosts run them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;

use anyhow::{Context as _, Result};
use mpd_farm::command::Template;
use mpd_farm::frame::MAX_COMMAND;
use mpd_farm::{Task, TaskId};
use mpd_io::files::input::Input;

use super::cli::FarmCli;

/// Bytes read at a time.
const READ: usize = 64 << 10;

/// What a line is.
#[derive(Debug)]
pub(crate) enum Line {
    Task(Task),
    /// An empty line.
    Empty(TaskId),
    /// A line that can be no command, and why.
    Unfit(TaskId, String),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Source {
    /// `None` after the end.
    input: Option<Input>,
    /// The name of the input, for messages.
    name: String,
    template: Option<Template>,
    /// Bytes that were read, from the beginning of a line.
    bytes: Vec<u8>,
    /// They belong to a line that is too long already.
    is_skipping: bool,
    /// Lines so far.
    number: u64,
}

impl Source {
    /// Opens the input.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(cli: &FarmCli) -> Result<Self> {
        let (fd, name): (OwnedFd, _) = match &cli.arg_file {
            Some(path) if path.as_os_str() != "-" => {
                let shown = path.display().to_string();
                (File::open(path).with_context(|| format!("cannot open {shown}"))?.into(), shown)
            }
            _ => (
                io::stdin().as_fd().try_clone_to_owned().context("standard input")?,
                "standard input".to_owned(),
            ),
        };
        let words: Vec<Vec<u8>> = cli.command.iter().map(|word| word.clone().into_vec()).collect();
        let template = match &words[..] {
            [] => None,
            words => Some(Template::new(words)?),
        };
        let input = Some(Input::new(fd).with_context(|| name.clone())?);
        Ok(Self { input, name, template, bytes: Vec::new(), is_skipping: false, number: 0 })
    }

    /// Whether all lines were read.
    pub(crate) const fn has_ended(&self) -> bool {
        self.input.is_none()
    }

    /// Whether a read never waits.
    pub(crate) fn is_always_ready(&self) -> bool {
        self.input.as_ref().is_some_and(Input::is_always_ready)
    }

    /// What to wait for, if a read may have to wait.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        let input = self.input.as_ref().filter(|input| !input.is_always_ready());
        input.map(std::os::fd::AsFd::as_fd)
    }

    /// Reads some lines. At the end of the input the source has ended.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(crate) fn read(&mut self) -> Result<Vec<Line>> {
        let Some(input) = &self.input else { return Ok(Vec::new()) };
        let mut buffer = vec![0; READ];
        match input.read(&mut buffer) {
            Ok(0) => {
                self.input = None;
                if !self.bytes.is_empty() {
                    self.bytes.push(b'\n');
                }
            }
            Ok(read) => self.bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.name)),
        }
        Ok(self.take_lines())
    }

    fn take_lines(&mut self) -> Vec<Line> {
        let whole = self.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.bytes.split_off(whole);
        let text = std::mem::replace(&mut self.bytes, rest);
        let mut lines = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if !std::mem::take(&mut self.is_skipping) {
                lines.push(self.line(line));
            }
        }
        if self.bytes.len() > MAX_COMMAND {
            self.bytes.clear();
            if !std::mem::replace(&mut self.is_skipping, true) {
                self.number += 1;
                lines.push(self.unfit(format!("is longer than {MAX_COMMAND} bytes")));
            }
        }
        lines
    }

    fn unfit(&self, why: String) -> Line {
        Line::Unfit(TaskId(self.number), format!("{}: line {} {why}", self.name, self.number))
    }

    fn line(&mut self, line: &[u8]) -> Line {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        self.number += 1;
        let id = TaskId(self.number);
        if line.iter().all(u8::is_ascii_whitespace) {
            return Line::Empty(id);
        }
        let command = match &self.template {
            Some(template) => template.line(self.number, line),
            None => line.to_vec(),
        };
        if command.len() > MAX_COMMAND {
            return self.unfit(format!("makes a command of more than {MAX_COMMAND} bytes"));
        }
        if command.contains(&0) {
            return self.unfit("has a NUL byte, which no command can have".to_owned());
        }
        Line::Task(Task::new(id, command))
    }
}
