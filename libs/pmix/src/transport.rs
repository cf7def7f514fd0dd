//! The headers of messages, and a buffer that cuts a stream into messages.

use crate::limits::{MAX_HANDSHAKE, MAX_MESSAGE};

/// Length of a header in bytes.
pub const HEADER: usize = 16;

/// The tag of a message that answers no request: an event.
pub const TAG_EVENT: u32 = 0;

/// The header of a message: the client, the request, and the length of the message.
///
/// It stands in network order, except in front of the connect message: there in the order of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The index of the client, which the answer to its connect message gave.
    pub index: u32,
    /// Which request; an answer has the same.
    pub tag: u32,
    /// Length of the payload.
    pub length: u32,
}

impl Header {
    /// Reads a header in network order.
    pub fn read(bytes: [u8; HEADER]) -> Self {
        let word = |at| u32::from_be_bytes(word(bytes, at));
        Self { index: word(0), tag: word(4), length: word(8) }
    }

    /// Reads a header of a connect message, in the order of this machine.
    pub fn read_connect(bytes: [u8; HEADER]) -> Self {
        let word = |at| u32::from_ne_bytes(word(bytes, at));
        Self { index: word(0), tag: word(4), length: word(8) }
    }

    /// Writes a header in network order.
    pub fn write(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        for (word, number) in bytes.chunks_mut(4).zip([self.index, self.tag, self.length]) {
            word.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }
}

fn word(bytes: [u8; HEADER], at: usize) -> [u8; 4] {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    word
}

/// A message whose length is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong(pub(crate) u32);

/// What has come from a client and is not decoded yet.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    begin: usize,
}

impl Incoming {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // What is taken makes room from time to time, so that each byte is moved a few times at most.
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

    /// The payload of the connect message, once it is here.
    pub(crate) fn connect(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let message = self.next(Header::read_connect, MAX_HANDSHAKE)?;
        Ok(message.map(|(_, payload)| payload))
    }

    /// The next message, once it is here.
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
            self.begin = 0;
        }
        Ok(Some((header, payload)))
    }
}

/// What is to be written to a client.
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

    /// The first bytes are written. They make room from time to time, so that long replies are not moved at each write.
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
    fn what_is_written_goes_and_the_rest_waits() {
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
