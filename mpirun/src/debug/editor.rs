//! The line editor: editing, history, and completion by the debugger. It reads the terminal in a
//! thread of its own, because it blocks while it waits for keys.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use mio::Waker;
use mpd_io::terminal::line_editor::LineEditor;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

pub(super) const PROMPT: &str = "(mpigdb) ";

/// Most lines of the history that are kept for later sessions.
const MAX_HISTORY: usize = 2000;

/// Name of the history file in the home directory.
const HISTORY: &str = ".mpigdb_history";

/// Deadline for completions of the debugger, which has a shorter deadline of its own.
const PATIENCE: Duration = Duration::from_secs(5);

/// An action of the user.
#[derive(Debug)]
pub(super) enum Event {
    Line(String),
    Interrupt,
    End,
    /// The user requested completions of this text.
    Complete(String),
}

/// The line that is being edited, and the position of the cursor. The editor's own function for
/// printing above the line leaves some keys unread until the next key, so it is not used.
#[derive(Clone, Debug, Default)]
pub(super) struct Edited(Arc<Mutex<(String, usize)>>);

impl Edited {
    fn note(&self, line: &str, at: usize) {
        let mut edited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        edited.0.replace_range(.., line);
        edited.1 = at;
    }

    /// The bytes that show `text` above the line and draw the line again. The text ends with a
    /// newline.
    pub(super) fn above(&self, text: &[u8]) -> Vec<u8> {
        let edited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (line, at) = &*edited;
        let mut out = [b"\r\x1b[J", text, PROMPT.as_bytes(), line.as_bytes()].concat();
        let behind = line.get(*at..).map_or(0, |rest| rest.chars().count());
        if behind > 0 {
            out.extend(format!("\x1b[{behind}D").bytes());
        }
        out
    }
}

/// The handle of the editor's thread.
#[derive(Debug)]
pub(super) struct Editor {
    wanted: Sender<()>,
    events: Receiver<Event>,
    completions: Sender<Vec<String>>,
    editing: Arc<AtomicBool>,
}

impl Editor {
    /// Starts the thread. The thread wakes the loop when there are events, and sets `editing` while
    /// it reads the terminal. The second result is the line that is being edited.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn start(waker: &Arc<Waker>, editing: &Arc<AtomicBool>) -> Result<(Self, Edited)> {
        let (wanted, wants) = channel();
        let (sender, events) = channel();
        let (completions, completed) = channel();
        let (ready, is_ready) = channel();
        let edited = Edited::default();
        let keys = Keys {
            sender: sender.clone(),
            completed,
            waker: Arc::clone(waker),
            edited: edited.clone(),
        };
        let (waker, flag) = (Arc::clone(waker), Arc::clone(editing));
        let work = move || match LineEditor::open(keys, HISTORY, MAX_HISTORY) {
            Err(problem) => drop(ready.send(Err(problem))),
            Ok(mut editor) => {
                let _ = ready.send(Ok(()));
                while wants.recv().is_ok() {
                    let event = read(&mut editor);
                    flag.store(false, Ordering::SeqCst);
                    if sender.send(event).is_err() {
                        return;
                    }
                    let _ = waker.wake();
                }
            }
        };
        thread::Builder::new()
            .name("editor".into())
            .spawn(work)
            .context("cannot start a thread")?;
        let opened = is_ready.recv().map_err(|_| anyhow!("the line editor does not start"))?;
        opened.context("cannot use the terminal")?;
        Ok((Self { wanted, events, completions, editing: Arc::clone(editing) }, edited))
    }

    /// Shows the prompt and reads a line.
    pub(super) fn read(&self) {
        self.editing.store(true, Ordering::SeqCst);
        let _ = self.wanted.send(());
    }

    /// The next action of the user.
    pub(super) fn next(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Answers [`Event::Complete`].
    pub(super) fn complete(&self, found: Vec<String>) {
        let _ = self.completions.send(found);
    }
}

fn read(editor: &mut LineEditor<Keys>) -> Event {
    if let Some(keys) = editor.helper() {
        keys.edited.note("", 0);
    }
    match editor.read(PROMPT) {
        Ok(line) => Event::Line(line),
        Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => Event::Interrupt,
        Err(_) => Event::End,
    }
}

/// Requests completions while a line is edited.
struct Keys {
    sender: Sender<Event>,
    completed: Receiver<Vec<String>>,
    waker: Arc<Waker>,
    edited: Edited,
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
        // A late answer belongs to an earlier request.
        while self.completed.try_recv().is_ok() {}
        let _ = self.sender.send(Event::Complete(text.to_owned()));
        let _ = self.waker.wake();
        let found = self.completed.recv_timeout(PATIENCE).unwrap_or_default();
        // The completions are whole lines; only the last argument is shown and replaced.
        let start = text.rfind([' ', '*', '&', '(', ',']).map_or(0, |at| at + 1);
        let tail = |line: &String| line.strip_prefix(&text[..start]).map(str::to_owned);
        let tails: Vec<String> = found.iter().filter_map(tail).collect();
        match tails.len() == found.len() {
            true => Ok((start, tails)),
            false => Ok((0, found)),
        }
    }
}

impl Hinter for Keys {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, _: &Context<'_>) -> Option<String> {
        self.edited.note(line, at);
        None
    }
}

impl Highlighter for Keys {
    fn highlight<'l>(&self, line: &'l str, at: usize) -> Cow<'l, str> {
        self.edited.note(line, at);
        Cow::Borrowed(line)
    }

    fn highlight_char(&self, line: &str, at: usize, _: CmdKind) -> bool {
        self.edited.note(line, at);
        false
    }
}

impl Validator for Keys {}
impl Helper for Keys {}
