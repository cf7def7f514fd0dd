//! Reads and writes on the connections of clients, of PMI and of PMIx. Nothing here blocks.

use std::io::{self, Read, Write};

use mpd_io::scarce::persist;

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

/// The result of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteProgress {
    /// The client has accepted this number of bytes.
    Wrote(usize),
    /// Nothing is to be written, or no more can be written now. If the socket is full, an event reports room. If the
    /// client is gone, reading reports the end.
    Done,
    /// The system fails, and no event will report anything. The connection must be shut down, so that the client does
    /// not wait for an answer for ever.
    Broken,
}

/// Writes once.
pub(super) fn write(stream: &mut impl Write, output: &[u8]) -> WriteProgress {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, WouldBlock};
    if output.is_empty() {
        return WriteProgress::Done;
    }
    match persist(|| stream.write(output)) {
        Ok(n) => WriteProgress::Wrote(n),
        Err(e) if matches!(e.kind(), BrokenPipe | ConnectionReset | WouldBlock) => {
            WriteProgress::Done
        }
        Err(e) => {
            log::warn!("cannot answer a rank: {e}");
            WriteProgress::Broken
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that first fails this number of times with this error.
    struct Failing(usize, i32);

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Ok(bytes.len());
            }
            self.0 -= 1;
            Err(io::Error::from_raw_os_error(self.1))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_is_written_after_a_short_lack_of_memory_and_another_failure_breaks_the_connection()
    {
        let written = |failures, errno| write(&mut Failing(failures, errno), b"answer");
        assert_eq!(written(0, 0), WriteProgress::Wrote(6));
        assert_eq!(written(3, libc::ENOBUFS), WriteProgress::Wrote(6));
        assert_eq!(written(1, libc::EAGAIN), WriteProgress::Done);
        assert_eq!(written(1, libc::EPIPE), WriteProgress::Done);
        assert_eq!(written(1, libc::EIO), WriteProgress::Broken);
        assert_eq!(written(usize::MAX, libc::ENOBUFS), WriteProgress::Broken);
        assert_eq!(write(&mut Failing(1, libc::EIO), b""), WriteProgress::Done);
    }
}
