//! The session without a terminal. A command is read from standard input when it can be carried
//! out. Output goes to standard output and error, without prompts.

use std::io;
use std::os::fd::AsFd as _;

use mpd_io::files::output::Output;

/// An output with its waiting bytes.
#[derive(Debug)]
pub(super) struct Queue {
    output: Option<Output>,
    bytes: Vec<u8>,
}

impl Queue {
    fn new(fd: io::Result<std::os::fd::OwnedFd>) -> Self {
        Self { output: fd.and_then(Output::new).ok(), bytes: Vec::new() }
    }

    /// Writes as much as the reader takes without waiting.
    fn flush(&mut self) {
        let Some(output) = &self.output else { return self.bytes.clear() };
        while !self.bytes.is_empty() {
            match output.write(&self.bytes) {
                Ok(n) => drop(self.bytes.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // The output has no reader.
                Err(_) => self.bytes.clear(),
            }
        }
    }
}

/// Standard output and error.
#[derive(Debug)]
pub(super) struct Plain {
    out: Queue,
    err: Queue,
}

impl Plain {
    pub(super) fn new() -> Self {
        Self {
            out: Queue::new(io::stdout().as_fd().try_clone_to_owned()),
            err: Queue::new(io::stderr().as_fd().try_clone_to_owned()),
        }
    }

    pub(super) fn print(&mut self, bytes: &[u8]) {
        self.out.bytes.extend_from_slice(bytes);
        self.flush();
    }

    pub(super) fn complain(&mut self, bytes: &[u8]) {
        self.err.bytes.extend_from_slice(bytes);
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        self.out.flush();
        self.err.flush();
    }

    /// Number of waiting bytes.
    pub(super) fn waiting(&self) -> usize {
        self.out.bytes.len() + self.err.bytes.len()
    }
}
