//! Bytes that wait for a socket to take them.

use std::io::{self, Write};

/// Sent bytes are dropped from the front when that many have gathered there.
const COMPACT_AT: usize = 1 << 20;

/// What an empty queue keeps.
const RETAINED: usize = 4096;

/// A queue in front of a non-blocking stream. Its owner sets the bound, by [`Outgoing::len`].
#[derive(Debug, Default)]
pub struct Outgoing {
    queue: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Where to append what is to be sent.
    pub const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.queue
    }

    /// What waits.
    pub fn waiting(&self) -> &[u8] {
        &self.queue[self.sent..]
    }

    /// Bytes that wait.
    pub const fn len(&self) -> usize {
        self.queue.len() - self.sent
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts bytes of the front as sent by other means.
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

    /// Writes what `stream` takes now.
    ///
    /// # Errors
    /// Those of the stream: the peer is gone.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        while !self.is_empty() {
            match stream.write(self.waiting()) {
                Ok(n) => self.advance(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
