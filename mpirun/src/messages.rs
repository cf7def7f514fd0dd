//! Lines for the user on standard error, written without waiting for its reader.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use mpd_io::files::output::Output;
use mpd_io::terminal::progress;

/// Most bytes that wait for the reader. Further lines are dropped, and a last line reports that.
const MAX_WAITING: usize = 64 * 1024;

/// Interval between attempts to write to a slow reader.
pub const RETRY: Duration = Duration::from_millis(50);

/// Number of attempts at the end; together 2 s.
const TRIES: u32 = 40;

/// Standard error with its waiting bytes.
#[derive(Debug)]
pub struct Messages {
    name: String,
    /// Opened for the first line.
    output: Option<Option<Output>>,
    queue: Vec<u8>,
    dropped: bool,
    /// Whether the terminal shows the progress, and whether its line is there now.
    progress: (bool, bool),
}

impl Messages {
    /// Lines that begin with `name: `. `shows_progress`: if the terminal can, it also shows the progress.
    pub fn new(name: &str, shows_progress: bool) -> Self {
        let progress = (shows_progress && progress::is_possible(), false);
        let (name, queue) = (name.to_owned(), Vec::new());
        Self { name, output: None, queue, dropped: false, progress }
    }

    /// Shows this text in a line that the next one replaces; `None` removes the line. A slow terminal misses some.
    pub fn progress(&mut self, text: Option<&str>) {
        let (is_possible, is_shown) = self.progress;
        match text {
            Some(text) if is_possible && self.queue.is_empty() => {
                let text = format!("{}: {text}", self.name);
                self.queue.extend_from_slice(progress::replacement(&text).as_bytes());
                self.progress.1 = true;
            }
            None if is_shown => {
                self.queue.extend_from_slice(progress::CLEAR.as_bytes());
                self.progress.1 = false;
            }
            Some(_) | None => return,
        }
        self.flush();
    }

    /// Writes a line, as far as the reader takes it now.
    pub fn print(&mut self, text: &str) {
        self.progress(None);
        let line = format!("{}: {}\n", self.name, mpd_io::files::logging::one_line(text));
        if self.queue.len() + line.len() > MAX_WAITING {
            self.dropped = true;
            return;
        }
        self.queue.extend_from_slice(line.as_bytes());
        self.flush();
    }

    /// Writes the lines of a report without change, as far as the reader takes them now. No line is
    /// dropped; the caller bounds the report.
    pub fn report(&mut self, text: &str) {
        self.queue.extend_from_slice(text.as_bytes());
        self.flush();
    }

    /// Writes waiting bytes.
    pub fn flush(&mut self) {
        if self.queue.is_empty() && !self.dropped {
            return;
        }
        let open = || io::stderr().as_fd().try_clone_to_owned().and_then(Output::new).ok();
        let Some(output) = self.output.get_or_insert_with(open) else {
            return self.queue.clear();
        };
        while !self.queue.is_empty() {
            match output.write(&self.queue) {
                Ok(n) => drop(self.queue.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // Standard error has no reader.
                Err(_) => self.queue.clear(),
            }
        }
        if std::mem::take(&mut self.dropped) {
            self.print("further messages were lost");
        }
    }

    /// Waits a bounded time for the reader.
    pub fn finish(&mut self) {
        for _ in 0..TRIES {
            self.flush();
            if !self.is_waiting() {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Whether bytes are waiting.
    pub const fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }
}
