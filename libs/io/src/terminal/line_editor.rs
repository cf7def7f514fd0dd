//! Reads lines of a user from the terminal: with editing, completion, and a history that later sessions have too.

use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Helper};

/// The line editor. `H` completes words.
#[derive(Debug)]
pub struct LineEditor<H: Helper> {
    editor: rustyline::Editor<H, FileHistory>,
    history: Option<PathBuf>,
}

impl<H: Helper> LineEditor<H> {
    /// Takes the terminal and loads the last `most` lines of the history, from a file of that name in the home directory.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub fn open(helper: H, file: &str, most: usize) -> rustyline::Result<Self> {
        let config = Config::builder().max_history_size(most)?;
        let config = config.completion_type(CompletionType::List).build();
        let mut editor = rustyline::Editor::with_config(config)?;
        editor.set_helper(Some(helper));
        let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(file));
        if let Some(file) = &history {
            // The first session has no history.
            let _ = editor.load_history(file);
        }
        Ok(Self { editor, history })
    }

    /// The helper for completion.
    pub fn helper(&mut self) -> Option<&mut H> {
        self.editor.helper_mut()
    }

    /// Shows the prompt and reads a line.
    ///
    /// # Errors
    /// The user has interrupted the line or ended the input, or the terminal cannot be read.
    pub fn read(&mut self, prompt: &str) -> Result<String, ReadlineError> {
        let line = self.editor.readline(prompt)?;
        let is_new = self.editor.add_history_entry(&line).unwrap_or(false);
        if let (true, Some(file)) = (is_new, &self.history) {
            // An unwritable home directory does not prevent a session.
            let _ = self.editor.append_history(file);
        }
        Ok(line)
    }
}
