//! Lines for the user on standard error, written without ever waiting for its reader.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use mpd_io::output::Output;

/// Bytes that may wait for the reader; further lines are dropped, and that is said.
const MAX_WAITING: usize = 64 * 1024;

/// How often a reader that does not read is tried again.
pub const RETRY: Duration = Duration::from_millis(50);

/// How often it is tried at the end: 2 s.
const TRIES: u32 = 40;

/// Standard error, and what waits for it.
#[derive(Debug)]
pub struct Messages {
    name: String,
    output: Option<Output>,
    queue: Vec<u8>,
    dropped: bool,
}

impl Messages {
    /// Lines with `name: ` in front.
    pub fn new(name: &str) -> Self {
        let output = io::stderr().as_fd().try_clone_to_owned().and_then(Output::new).ok();
        Self { name: name.to_owned(), output, queue: Vec::new(), dropped: false }
    }

    /// Writes a line, or as much as the reader takes now.
    pub fn print(&mut self, text: &str) {
        let line = format!("{}: {}\n", self.name, mpd_io::logging::one_line(text));
        if self.queue.len() + line.len() > MAX_WAITING {
            self.dropped = true;
            return;
        }
        self.queue.extend_from_slice(line.as_bytes());
        self.flush();
    }

    /// Writes the lines of a report as they are, or as much as the reader takes now. None of them is dropped: what asks
    /// for them bounds them.
    pub fn report(&mut self, text: &str) {
        self.queue.extend_from_slice(text.as_bytes());
        self.flush();
    }

    /// Writes what waits.
    pub fn flush(&mut self) {
        let Some(output) = &self.output else { return self.queue.clear() };
        while !self.queue.is_empty() {
            match output.write(&self.queue) {
                Ok(n) => drop(self.queue.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // Nobody is there to read it.
                Err(_) => self.queue.clear(),
            }
        }
        if std::mem::take(&mut self.dropped) {
            self.print("further messages were lost");
        }
    }

    /// Gives the reader of what waits a bounded time.
    pub fn finish(&mut self) {
        for _ in 0..TRIES {
            self.flush();
            if !self.is_waiting() {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Whether something waits.
    pub const fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }
}
