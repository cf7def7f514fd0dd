//! Bounded reads of files. A file that is no regular file is not opened, because opening a pipe would wait.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use object::read::{ReadCache, ReadRef};

use super::elf::{self, Elf};
use super::family;

/// Bytes of the first line of a script that are read.
const START: u64 = 256;
/// Largest part of a file that is read at once.
const MAX_READ: u64 = 4 << 20;

fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The first bytes of a file.
pub(super) fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    open(path)?.take(START).read_to_end(&mut start)?;
    Ok(start)
}

/// The parts of an ELF file; `None` also for a file that cannot be read.
pub(super) fn parts(path: &Path) -> Option<Elf> {
    let cache = ReadCache::new(open(path).ok()?);
    elf::read(Bounded(&cache), &family::marks())
}

/// A file of any size, of which only small parts are read.
#[derive(Clone, Copy)]
struct Bounded<'a>(&'a ReadCache<File>);

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > MAX_READ { Err(()) } else { self.0.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn this_test_is_a_program_with_libraries() {
        let Some(Elf::Dynamic(parts)) = parts(&std::env::current_exe().unwrap()) else { panic!() };
        assert!(parts.needed.iter().any(|name| name.starts_with(b"libc.so")), "{parts:?}");
    }

    #[test]
    fn a_pipe_and_a_directory_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(parts(&pipe).is_none() && beginning(&pipe).is_err());
        assert!(parts(dir.path()).is_none() && beginning(dir.path()).is_err());
    }

    #[test]
    fn a_huge_file_with_a_huge_table_is_refused_without_reading_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut header = vec![0_u8; 64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        // 65,535 means that the number of program headers is in the first section header: 2^32 - 1.
        header[32] = 64;
        header[40] = 64;
        header[54] = 56;
        header[56..58].copy_from_slice(&[0xff, 0xff]);
        header[58] = 64;
        let mut section = vec![0_u8; 64];
        section[44..48].copy_from_slice(&[0xff; 4]);
        file.write_all(&[header, section].concat()).unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        assert!(parts(file.path()).is_none());
    }
}
