//! The headers of messages, and the buffers of both directions.

use crate::limits::{MAX_HANDSHAKE, MAX_MESSAGE};

/// Length of a header in bytes.
pub const HEADER: usize = 16;

/// The tag of a message that answers no request: an event.
pub const TAG_EVENT: u32 = 0;

/// The header of a message: the client, the request, and the length of the payload.
///
/// It has network byte order, except for the connect message, where it has the byte order of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The index of the client. The answer to the connect message has assigned it.
    pub index: u32,
    /// The tag of the request. The answer repeats it.
    pub tag: u32,
    /// The length of the payload in bytes.
    pub length: u32,
}

impl Header {
    /// Reads a header in network order.
    pub fn read(bytes: [u8; HEADER]) -> Self {
        let number = |at| u32::from_be_bytes(four_bytes(bytes, at));
        Self { index: number(0), tag: number(4), length: number(8) }
    }

    /// Reads the header of a connect message, in the byte order of this host.
    pub fn read_connect(bytes: [u8; HEADER]) -> Self {
        let number = |at| u32::from_ne_bytes(four_bytes(bytes, at));
        Self { index: number(0), tag: number(4), length: number(8) }
    }

    /// Writes a header in network order.
    pub fn write(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        for (part, number) in bytes.chunks_mut(4).zip([self.index, self.tag, self.length]) {
            part.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }
}

fn four_bytes(bytes: [u8; HEADER], at: usize) -> [u8; 4] {
    let mut part = [0; 4];
    part.copy_from_slice(&bytes[at..at + 4]);
    part
}

/// The announced length of a message exceeds its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong(pub(crate) u32);

/// Most memory that stays for later messages.
const MAX_IDLE: usize = 256 * 1024;

/// The received bytes of a client that are not decoded yet.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    begin: usize,
}

impl Incoming {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // Decoded bytes are removed only from time to time, so that each byte is moved a few times at most.
        if self.begin > 4096 && self.begin * 2 >= self.bytes.len() {
            self.bytes.drain(..self.begin);
            self.begin = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.begin
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The payload of the connect message, if it is complete.
    pub(crate) fn connect(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let message = self.next(Header::read_connect, MAX_HANDSHAKE)?;
        Ok(message.map(|(_, payload)| payload))
    }

    /// The next message, if it is complete.
    pub(crate) fn message(&mut self) -> Result<Option<(Header, Vec<u8>)>, TooLong> {
        self.next(Header::read, MAX_MESSAGE)
    }

    fn next(
        &mut self,
        read: fn([u8; HEADER]) -> Header,
        most: usize,
    ) -> Result<Option<(Header, Vec<u8>)>, TooLong> {
        let waiting = &self.bytes[self.begin..];
        let Some(header) = waiting.first_chunk::<HEADER>() else { return Ok(None) };
        let header = read(*header);
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        if length > most {
            return Err(TooLong(header.length));
        }
        let Some(payload) = waiting[HEADER..].get(..length) else { return Ok(None) };
        let payload = payload.to_vec();
        self.begin += HEADER + length;
        if self.begin == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(MAX_IDLE);
            self.begin = 0;
        }
        Ok(Some((header, payload)))
    }
}

/// The bytes that wait to be written to a client.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Removes written bytes. The memory is moved only from time to time, not at each write of a long reply.
    pub(crate) fn take(&mut self, number: usize) {
        self.written = self.bytes.len().min(self.written + number);
        if self.written == self.bytes.len() {
            self.clear();
        } else if self.written * 2 >= self.bytes.len() {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_removed_and_the_rest_waits() {
        let mut outgoing = Outgoing::default();
        outgoing.push(b"0123456789");
        outgoing.take(3);
        assert_eq!(outgoing.waiting(), b"3456789");
        outgoing.push(b"ab");
        outgoing.take(4);
        assert_eq!((outgoing.waiting(), outgoing.written), (&b"789ab"[..], 0));
        outgoing.take(5);
        assert!(outgoing.waiting().is_empty() && outgoing.bytes.is_empty());
    }
}
