//! Commands before the user's own: files of commands, and single ones.

use std::collections::VecDeque;

/// Most commands of all files together.
const MAX_COMMANDS: usize = 65_536;

/// The position of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The index of its file.
    file: usize,
    line: u32,
}

/// The commands to execute first.
#[derive(Clone, Debug, Default)]
pub struct Script {
    files: Vec<String>,
    commands: VecDeque<(Option<Position>, String)>,
    /// The command in progress, if it is one of these, and its position if it has one.
    current: Option<Option<Position>>,
    refused: bool,
    /// One of the commands was refused.
    failed: bool,
}

impl Script {
    pub fn add(&mut self, command: &str) {
        self.commands.push_back((None, command.trim().to_owned()));
    }

    /// Adds the commands of a file: one per line, without empty lines and comments (`#`).
    ///
    /// # Errors
    /// There are more commands than the limit.
    pub fn add_file(&mut self, name: &str, text: &str) -> Result<(), String> {
        let file = self.files.len();
        self.files.push(name.to_owned());
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if !text.is_empty() && !text.starts_with('#') {
                self.commands.push_back((Some(Position { file, line }), text.to_owned()));
            }
        }
        match self.commands.len() > MAX_COMMANDS {
            true => Err(format!("{name}: more than {MAX_COMMANDS} commands")),
            false => Ok(()),
        }
    }

    /// The last command is done. If it was refused, the rest of its file is left out, as gdb does,
    /// and the returned text says so.
    pub(super) fn settle(&mut self) -> Option<String> {
        let current = self.current.take()?;
        if !std::mem::take(&mut self.refused) {
            return None;
        }
        self.failed = true;
        let position = current?;
        self.commands.retain(|(at, _)| at.as_ref().is_none_or(|at| at.file != position.file));
        Some(format!(
            "{}:{}: error; the rest of the file is left out",
            self.files[position.file], position.line
        ))
    }

    /// The next command, which is in progress from now on.
    pub(super) fn next(&mut self) -> Option<String> {
        let (position, command) = self.commands.pop_front()?;
        self.current = Some(position);
        Some(command)
    }

    /// The command in progress was refused.
    pub(super) const fn refuse(&mut self) {
        self.refused = self.current.is_some();
    }

    /// Drops the remaining commands; returns whether there were any.
    pub(super) fn abandon(&mut self) -> bool {
        let (left, current) = (!self.commands.is_empty(), self.current.take().is_some());
        self.commands.clear();
        left || current
    }

    /// Whether a command was refused.
    pub(super) const fn has_failed(&self) -> bool {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_ends_only_its_own_file() {
        let mut script = Script::default();
        script.add_file("a.gdb", "# first\n\n break main\nrun\n").unwrap();
        script.add("next");
        assert_eq!(script.next().as_deref(), Some("break main"));
        script.refuse();
        let reported = script.settle().unwrap();
        assert_eq!(reported, "a.gdb:3: error; the rest of the file is left out");
        assert_eq!(script.next().as_deref(), Some("next"));
        script.refuse();
        assert_eq!(script.settle(), None);
        assert!(script.has_failed() && script.next().is_none());
    }
}
