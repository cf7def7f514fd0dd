//! Lines for the user on standard error, written without waiting for its reader.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use mpd_io::output::Output;

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
}

impl Messages {
    /// Lines that begin with `name: `.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), output: None, queue: Vec::new(), dropped: false }
    }

    /// Writes a line, as far as the reader takes it now.
    pub fn print(&mut self, text: &str) {
        let line = format!("{}: {}\n", self.name, mpd_io::logging::one_line(text));
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
