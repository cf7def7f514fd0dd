//! Files of `/proc`, read with few system calls: the kernel makes their text when it is read, so their size is unknown,
//! and asking for it is useless. Names of processes and files in them may consist of any bytes. What is not UTF-8 is
//! replaced, so that the rest is known.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Most files are shorter.
const USUAL: usize = 8 << 10;

/// The text of a file that the kernel writes as one record, as those about one process. A read that leaves room in the
/// buffer has returned all of it.
///
/// # Errors
/// Those of the system.
pub(crate) fn record(path: impl AsRef<Path>) -> io::Result<String> {
    read(path.as_ref(), true)
}

/// The text of a file with any number of records, as tables. Only a read without bytes is its end.
///
/// # Errors
/// As for [`record`].
pub(crate) fn table(path: impl AsRef<Path>) -> io::Result<String> {
    read(path.as_ref(), false)
}

fn read(path: &Path, is_record: bool) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = vec![0; USUAL];
    let mut length = 0;
    loop {
        let room = &mut text[length..];
        let read = match file.read(room) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let is_end = read == 0 || (is_record && read < room.len());
        length += read;
        if is_end {
            text.truncate(length);
            return Ok(String::from_utf8(text)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()));
        }
        if length == text.len() {
            text.resize(2 * length, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn records_and_tables_are_read_completely() {
        assert!(record("/proc/self/status").unwrap().contains("\nnonvoluntary_ctxt_switches:"));
        assert_eq!(
            table("/proc/sysvipc/shm").unwrap().lines().next().map(str::is_empty),
            Some(false)
        );
        let long = tempfile::NamedTempFile::new().unwrap();
        let text = "line\n".repeat(USUAL);
        fs::write(long.path(), &text).unwrap();
        assert_eq!(record(long.path()).unwrap(), text);
        assert_eq!(table(long.path()).unwrap(), text);
        fs::write(long.path(), b"Name:\t\xff\nState:\tS\n").unwrap();
        assert_eq!(record(long.path()).unwrap(), "Name:\t\u{fffd}\nState:\tS\n");
        assert_eq!(record("/proc/self/none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
