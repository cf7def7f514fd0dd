//! The session on a terminal. One thread shows all output; it may wait for the terminal, and it
//! keeps the edited line whole.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::Waker;
use mpd_sansio::Time;
use nix::sys::signal::{Signal, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};

use super::editor::{Edited, Editor, Event, PROMPT};
use crate::patience::wait_until;

/// Most pieces of text that wait in the channel to the thread.
const MAX_WAITING: usize = 64;

/// The prompt waits this long for output that precedes it.
pub(super) const PROMPT_AFTER: Duration = Duration::from_millis(200);

/// Time for the terminal to take the remaining output at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Switches off bracketed paste, which the editor leaves on when it is interrupted in a line.
const PASTE_OFF: &str = "\x1b[?2004l";

/// The terminal of a session.
#[derive(Debug)]
pub(super) struct Terminal {
    /// `None` on a terminal that cannot move its cursor.
    editor: Option<Editor>,
    editing: Arc<AtomicBool>,
    printer: SyncSender<Vec<u8>>,
    /// Pieces of text given to the thread, and shown by it.
    handed: usize,
    shown: Arc<AtomicUsize>,
    queue: VecDeque<Vec<u8>>,
    /// Since when the prompt waits to be shown.
    wanted: Option<Time>,
    before: Termios,
}

impl Terminal {
    /// Prepares the terminal; `waker` is called for events of the terminal.
    ///
    /// # Errors
    /// The terminal cannot be used, or the thread cannot be started.
    pub(super) fn open(waker: Waker) -> Result<Self> {
        let before = tcgetattr(io::stdin()).context("cannot use the terminal")?;
        let (waker, editing) = (Arc::new(waker), Arc::new(AtomicBool::new(false)));
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let (editor, edited) = match is_dumb {
            true => (None, Edited::default()),
            false => {
                Editor::start(&waker, &editing).map(|(editor, edited)| (Some(editor), edited))?
            }
        };
        let (printer, texts) = sync_channel(MAX_WAITING);
        let shown = Arc::new(AtomicUsize::new(0));
        let (flag, count) = (Arc::clone(&editing), Arc::clone(&shown));
        thread::Builder::new()
            .name("printer".into())
            .spawn(move || show(&texts, &edited, &flag, &count, &waker))
            .context("cannot start a thread")?;
        let (queue, wanted) = (VecDeque::new(), None);
        Ok(Self { editor, editing, printer, handed: 0, shown, queue, wanted, before })
    }

    pub(super) fn print(&mut self, bytes: &[u8]) {
        self.queue.push_back(bytes.to_vec());
        self.flush();
    }

    /// Shows the prompt after the printed text.
    pub(super) fn prompt(&mut self, now: Time) {
        match self.editor {
            Some(_) => self.wanted = Some(now),
            None => self.print(PROMPT.as_bytes()),
        }
    }

    /// Whether the editor reads keys now or soon.
    pub(super) fn is_editing(&self) -> bool {
        self.wanted.is_some() || self.editing.load(Ordering::SeqCst)
    }

    pub(super) fn flush(&mut self) {
        while let Some(bytes) = self.queue.pop_front() {
            match self.printer.try_send(bytes) {
                Ok(()) => self.handed += 1,
                Err(TrySendError::Full(bytes)) => return self.queue.push_front(bytes),
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
    }

    /// Shows the prompt if its time has come.
    pub(super) fn turn(&mut self, now: Time) {
        self.flush();
        let Some(since) = self.wanted else { return };
        if self.is_drained() || since + PROMPT_AFTER <= now {
            self.wanted = None;
            if let Some(editor) = self.editor.as_ref().filter(|_| !self.is_editing()) {
                editor.read();
            }
        }
    }

    /// The time for [`Terminal::turn`].
    pub(super) fn due(&self) -> Option<Time> {
        self.wanted.map(|since| since + PROMPT_AFTER)
    }

    fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.shown.load(Ordering::SeqCst) == self.handed
    }

    pub(super) fn next_event(&self) -> Option<Event> {
        self.editor.as_ref()?.next()
    }

    pub(super) fn complete(&self, found: Vec<String>) {
        if let Some(editor) = &self.editor {
            editor.complete(found);
        }
    }

    /// Number of waiting bytes.
    pub(super) fn waiting(&self) -> usize {
        self.queue.iter().map(Vec::len).sum()
    }

    /// Stops this process with the terminal in its original state. After the stop, the edited line
    /// is shown again.
    pub(super) fn stop(&mut self) {
        let edited = tcgetattr(io::stdin());
        self.restore();
        let _ = raise(Signal::SIGSTOP);
        if let (true, Ok(edited)) = (self.editing.load(Ordering::SeqCst), edited) {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &edited);
            self.print(b"");
        }
    }

    /// Restores the original state of the terminal, if this process has the terminal.
    fn restore(&self) {
        // Another process group has set the terminal as it needs it, and setting it from here would
        // stop this process.
        if tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp()) {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
        }
    }

    /// Shows the remaining text and restores the terminal.
    pub(super) fn close(&mut self) {
        wait_until(PATIENCE, || {
            self.flush();
            self.is_drained()
        });
        if self.editing.swap(false, Ordering::SeqCst) && self.is_drained() {
            // The terminal has taken all text before, so it takes this too.
            let _ = io::stdout().write_all(format!("{PASTE_OFF}\r\n").as_bytes());
            let _ = io::stdout().flush();
        }
    }
}

impl Drop for Terminal {
    /// Also restores the terminal when the session ends with an error.
    fn drop(&mut self) {
        self.restore();
    }
}

/// The thread that shows the text it receives.
fn show(
    texts: &Receiver<Vec<u8>>,
    edited: &Edited,
    editing: &AtomicBool,
    shown: &AtomicUsize,
    waker: &Waker,
) {
    while let Ok(bytes) = texts.recv() {
        let is_edited = editing.load(Ordering::SeqCst);
        let bytes = if is_edited { edited.above(&bytes) } else { bytes };
        let mut out = io::stdout().lock();
        let _ = out.write_all(&bytes).and_then(|()| out.flush());
        shown.fetch_add(1, Ordering::SeqCst);
        let _ = waker.wake();
    }
}
