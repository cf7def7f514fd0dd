//! The prompt on a terminal: history, and completion of commands, options, hosts and jobs.

use anyhow::{Context as _, Result};
use mpd_io::ring::rundir::RunDir;
use mpd_io::terminal::line_editor::LineEditor;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::verbs::{self, Lines, Words};
use crate::ask::AskError;
use crate::cli::RingOptions;
use crate::{ask, member, programs};

const PROMPT: &str = "mpdcon> ";
/// The history below the home directory.
const HISTORY: &str = ".mpdcon_history";
/// Most lines of the history.
const MAX_HISTORY: usize = 1000;

/// The line editor.
pub(super) struct Editor(LineEditor<Keys>);

impl Editor {
    /// Takes the terminal and loads the history.
    pub(super) fn open(options: &RingOptions) -> Result<Self> {
        let keys = Keys { rundir: options.rundir()?, aliases: Vec::new() };
        LineEditor::open(keys, HISTORY, MAX_HISTORY).map(Self).context("cannot use the terminal")
    }

    /// The next line of the user; `None` at the end.
    pub(super) fn line(&mut self, lines: &Lines) -> Result<Option<String>> {
        if let Some(keys) = self.0.helper() {
            keys.aliases = lines.aliases().map(str::to_owned).collect();
        }
        loop {
            match self.0.read(PROMPT) {
                Ok(line) => return Ok(Some(line)),
                Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(error).context("cannot read the terminal"),
            }
        }
    }
}

/// Completes words.
struct Keys {
    rundir: RunDir,
    aliases: Vec<String>,
}

impl Keys {
    /// All words that may stand after these.
    fn candidates(&self, before: &[&str], begun: &str) -> Vec<String> {
        let Some(first) = before.first() else {
            let names = verbs::names().map(str::to_owned);
            return names.chain(self.aliases.iter().cloned()).collect();
        };
        if *first == "help" {
            return verbs::VERBS.iter().map(|verb| verb.name.to_owned()).collect();
        }
        let Some(verb) = verbs::find(first) else { return Vec::new() };
        if begun.starts_with('-') {
            return options_of(verb.program[0]);
        }
        match verb.words {
            Words::Members | Words::EachMember => self.members(),
            Words::Jobs => self.jobs(),
            Words::Any | Words::HostList => Vec::new(),
        }
    }

    fn members(&self) -> Vec<String> {
        let view = ask::describe(&self.rundir, ask::PATIENCE);
        view.map(|view| member::live(&view).map(member::id).collect()).unwrap_or_default()
    }

    fn jobs(&self) -> Vec<String> {
        jobs(&self.rundir).unwrap_or_default()
    }
}

/// The jobs of the ring, as the programs name them.
///
/// # Errors
/// The daemon does not answer.
pub(super) fn jobs(rundir: &RunDir) -> Result<Vec<String>, AskError> {
    let listing = ask::jobs(rundir)?.jobs;
    let mut jobs: Vec<String> = listing.iter().map(|part| part.part.job.to_string()).collect();
    jobs.dedup();
    Ok(jobs)
}

/// The long options of a program of this crate.
fn options_of(program: &str) -> Vec<String> {
    let command = programs::commands().into_iter().find(|command| command.get_name() == program);
    let longs = |command: clap::Command| -> Vec<String> {
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        shown.filter_map(|argument| Some(format!("--{}", argument.get_long()?))).collect()
    };
    command.map(longs).unwrap_or_default()
}

impl Completer for Keys {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let text = line.get(..at).unwrap_or(line);
        let start = text.rfind(' ').map_or(0, |space| space + 1);
        let before: Vec<&str> = text[..start].split_ascii_whitespace().collect();
        let begun = &text[start..];
        let mut found = self.candidates(&before, begun);
        found.retain(|word| word.starts_with(begun));
        found.sort_unstable();
        found.iter_mut().for_each(|word| word.push(' '));
        Ok((start, found))
    }
}

impl Hinter for Keys {
    type Hint = String;
}
impl Highlighter for Keys {}
impl Validator for Keys {}
impl Helper for Keys {}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn words_are_completed_by_their_place() {
        let keys =
            Keys { rundir: RunDir::at(PathBuf::from("/nowhere")), aliases: vec!["hi".into()] };
        let found = |before: &[&str], begun| keys.candidates(before, begun);
        assert!(found(&[], "h").contains(&"hosts".to_owned()));
        assert!(found(&[], "h").contains(&"hi".to_owned()));
        assert!(found(&["conf"], "--").contains(&"--json".to_owned()));
        assert!(!found(&["conf"], "--").contains(&"--generate-docs".to_owned()));
        assert!(found(&["help"], "").contains(&"sig".to_owned()));
        assert_eq!(found(&["kill"], ""), [""; 0], "no daemon has jobs");
        assert_eq!(found(&["frob"], "-"), [""; 0]);
    }
}
