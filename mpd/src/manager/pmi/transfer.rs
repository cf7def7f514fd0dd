//! Reads and writes on the connections of clients, of PMI and of PMIx. Nothing here blocks.

use std::io::{self, Read, Write};

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadProgress {
    /// No data is left; an event reports new data.
    Drained,
    /// Data was read, and more may be left.
    More,
    /// The end of the stream.
    Closed,
}

/// Reads once. With `is_ending` the end of the stream is still to be read.
pub(super) fn read(
    stream: &mut impl Read,
    buffer: &mut [u8],
    is_ending: bool,
    receive: impl FnOnce(&[u8]),
) -> ReadProgress {
    loop {
        match stream.read(buffer) {
            Ok(0) => return ReadProgress::Closed,
            Ok(n) => {
                receive(&buffer[..n]);
                let more = n == buffer.len() || is_ending;
                return if more { ReadProgress::More } else { ReadProgress::Drained };
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return ReadProgress::Drained,
            Err(_) => return ReadProgress::Closed,
        }
    }
}

/// Writes once. Returns the number of bytes that the client has accepted; `None` if nothing is to be written, or no more
/// can be written now. If the socket is full, an event reports room. If the client is gone, reading reports the end.
pub(super) fn write(stream: &mut impl Write, output: &[u8]) -> Option<usize> {
    while !output.is_empty() {
        match stream.write(output) {
            Ok(n) => return Some(n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    None
}
