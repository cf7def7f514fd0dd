//! The bytes that wait in the pipe to a process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::raw;

/// How many bytes wait in a pipe, of which either end is open here.
///
/// # Errors
/// The system's.
pub fn count(pipe: impl AsFd) -> io::Result<usize> {
    raw::readable_bytes(pipe.as_fd().as_raw_fd())
}

/// Opens the reading end of a pipe, of which the writing end is open here. The bytes then stay in the pipe after all
/// others have closed it, so that they can be counted.
///
/// # Errors
/// The system's.
pub fn reading_end(pipe: impl AsFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn bytes_are_counted_after_both_ends_are_closed() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"seven..").unwrap();
        assert_eq!(count(&writer).unwrap(), 7);
        let kept = reading_end(&writer).unwrap();
        reader.read_exact(&mut [0; 2]).unwrap();
        drop((reader, writer));
        assert_eq!(count(&kept).unwrap(), 5);
    }
}
