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
    read(path.as_ref(), |_, is_full| !is_full)
}

/// The text of a file with any number of records, as tables. Only a read without bytes is its end.
///
/// # Errors
/// As for [`record`].
pub(crate) fn table(path: impl AsRef<Path>) -> io::Result<String> {
    read(path.as_ref(), |_, _| false)
}

/// What `find` makes of a line of a file with any number of records: of the first line of which it makes something. No
/// later part of the file is read. `None` also if the file cannot be read.
pub(crate) fn row<T>(path: impl AsRef<Path>, mut find: impl FnMut(&str) -> Option<T>) -> Option<T> {
    let mut found = None;
    let mut seen = 0;
    let is_found = |text: &[u8], _| {
        let mut lines = text[seen..].split_inclusive(|byte| *byte == b'\n');
        while found.is_none()
            && let Some([line @ .., b'\n']) = lines.next()
        {
            seen += line.len() + 1;
            found = find(&String::from_utf8_lossy(line));
        }
        found.is_some()
    };
    read(path.as_ref(), is_found).ok()?;
    found
}

/// Reads a file until its end, or until `is_enough` says so of the text and of whether the last read has filled the
/// buffer.
fn read(path: &Path, mut is_enough: impl FnMut(&[u8], bool) -> bool) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = vec![0; USUAL];
    let mut length = 0;
    loop {
        let read = match file.read(&mut text[length..]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        length += read;
        if read == 0 || is_enough(&text[..length], length == text.len()) {
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
        let mut lines = 0;
        let count = |line: &str| {
            lines += usize::from(line == "line");
            (lines == USUAL).then_some(lines)
        };
        assert_eq!(row(long.path(), count), Some(USUAL));
        assert_eq!(row(long.path(), |line| (line != "line").then_some(())), None);
        fs::write(long.path(), b"Name:\t\xff\nState:\tS\n").unwrap();
        assert_eq!(record(long.path()).unwrap(), "Name:\t\u{fffd}\nState:\tS\n");
        let name = row(long.path(), |line| line.strip_prefix("Name:\t").map(str::to_owned));
        assert_eq!(name.as_deref(), Some("\u{fffd}"));
        assert_eq!(record("/proc/self/none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
