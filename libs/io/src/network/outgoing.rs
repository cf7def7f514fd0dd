//! Bytes that wait until a socket accepts them.

use std::io::{self, Write};

use crate::host::scarce::persist;

/// Sent bytes are dropped from the front when this many have gathered there.
const COMPACT_AT: usize = 1 << 20;

/// The capacity that an empty queue keeps.
const RETAINED: usize = 4096;

/// A queue in front of a non-blocking stream. Its owner bounds it with the help of [`Outgoing::len`].
#[derive(Debug, Default)]
pub struct Outgoing {
    queue: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// The buffer to which bytes to be sent are appended.
    pub const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.queue
    }

    pub fn waiting(&self) -> &[u8] {
        &self.queue[self.sent..]
    }

    /// How many bytes wait.
    pub const fn len(&self) -> usize {
        self.queue.len() - self.sent
    }

    /// Whether no byte waits.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts bytes of the front as sent by another function.
    pub fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.is_empty() || self.sent >= COMPACT_AT {
            self.queue.drain(..self.sent);
            self.sent = 0;
        }
        if self.queue.is_empty() {
            self.queue.shrink_to(RETAINED);
        }
    }

    /// Writes as many bytes as `stream` accepts now.
    ///
    /// # Errors
    /// Those of the stream: the peer has closed it, or the system fails for longer than a moment. The bytes still wait.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        while !self.is_empty() {
            match persist(|| stream.write(self.waiting())) {
                Ok(n) => self.advance(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
