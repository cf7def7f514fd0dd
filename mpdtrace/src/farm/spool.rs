//! The outputs of tasks, until they are printed. Beyond a bound they are in a file without a name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use mpd_farm::TaskId;
use mpd_farm::frame::Stream;

/// Bytes of output in memory.
const MAX_IN_MEMORY: usize = 32 << 20;

/// Bytes of output.
#[derive(Debug)]
pub(crate) enum Piece {
    Memory(Vec<u8>),
    /// In the file: where, and how many.
    File(u64, u64),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, length) => *length,
        }
    }
}

/// What a task has written to standard output and to standard error.
#[derive(Debug, Default)]
pub(crate) struct Written([Vec<Piece>; 2]);

impl Written {
    /// How many bytes it is.
    pub(crate) fn len(&self) -> u64 {
        self.0.iter().flatten().map(Piece::len).sum()
    }

    /// The pieces of one stream.
    pub(crate) fn take(&mut self, stream: Stream) -> Vec<Piece> {
        std::mem::take(&mut self.0[place(stream)])
    }
}

const fn place(stream: Stream) -> usize {
    match stream {
        Stream::Out => 0,
        Stream::Err => 1,
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    tasks: BTreeMap<TaskId, Written>,
    in_memory: usize,
    file: Option<File>,
    /// The end of the file, and how many of its bytes are still needed.
    end: u64,
    needed: u64,
}

impl Spool {
    /// Adds output of a task.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub(crate) fn add(&mut self, id: TaskId, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let pieces = &mut self.tasks.entry(id).or_default().0[place(stream)];
        if self.in_memory + bytes.len() <= MAX_IN_MEMORY {
            self.in_memory += bytes.len();
            match pieces.last_mut() {
                Some(Piece::Memory(last)) => last.extend_from_slice(bytes),
                _ => pieces.push(Piece::Memory(bytes.to_vec())),
            }
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless()?),
        };
        file.write_all_at(bytes, self.end)?;
        let length = bytes.len() as u64;
        match pieces.last_mut() {
            Some(Piece::File(at, before)) if *at + *before == self.end => *before += length,
            _ => pieces.push(Piece::File(self.end, length)),
        }
        self.end += length;
        self.needed += length;
        Ok(())
    }

    /// Takes what a task has written. The pieces are to be given to [`Spool::read`], one after the other.
    pub(crate) fn take(&mut self, id: TaskId) -> Written {
        self.tasks.remove(&id).unwrap_or_default()
    }

    /// The next bytes of a piece. Afterwards the piece is shorter; it is over when there are none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(&mut self, piece: &mut Piece) -> io::Result<Vec<u8>> {
        const MOST: u64 = 256 << 10;
        match piece {
            Piece::Memory(bytes) => {
                self.in_memory -= bytes.len();
                Ok(std::mem::take(bytes))
            }
            Piece::File(at, left) => {
                let length = (*left).min(MOST);
                let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                if let Some(file) = &self.file {
                    file.read_exact_at(&mut bytes, *at)?;
                }
                *at += length;
                *left -= length;
                self.forget(length)?;
                Ok(bytes)
            }
        }
    }

    /// Drops what a task has written.
    ///
    /// # Errors
    /// The file cannot be cut.
    pub(crate) fn discard(&mut self, id: TaskId) -> io::Result<()> {
        for piece in self.take(id).0.into_iter().flatten() {
            match piece {
                Piece::Memory(bytes) => self.in_memory -= bytes.len(),
                Piece::File(_, length) => self.forget(length)?,
            }
        }
        Ok(())
    }

    /// Bytes of the file are not needed any more. When none is, the file is empty again.
    fn forget(&mut self, length: u64) -> io::Result<()> {
        self.needed -= length;
        if self.needed == 0 && self.end > 0 {
            self.end = 0;
            if let Some(file) = &self.file {
                file.set_len(0)?;
            }
        }
        Ok(())
    }
}

/// A file without a name, in the directory for temporary files.
fn nameless() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let directory = std::env::temp_dir();
    let mut options = File::options();
    let file =
        options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(&directory);
    file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(spool: &mut Spool, id: u64) -> (usize, Vec<u8>) {
        let mut written = spool.take(TaskId(id));
        let pieces = written.take(Stream::Out);
        let mut bytes = Vec::new();
        let count = pieces.len();
        for mut piece in pieces {
            while piece.len() > 0 {
                bytes.extend(spool.read(&mut piece).unwrap());
            }
        }
        (count, bytes)
    }

    #[test]
    fn outputs_come_back_from_memory_and_from_the_file() {
        let mut spool = Spool::default();
        let block = vec![b'a'; MAX_IN_MEMORY / 2];
        for id in 1..=3 {
            for byte in [b'a', b'b'] {
                spool.add(TaskId(id), Stream::Out, &block).unwrap();
                spool.add(TaskId(id), Stream::Out, &[byte]).unwrap();
            }
        }
        let expected = [&block[..], b"a", &block[..], b"b"].concat();
        assert!(spool.end > 0 && spool.needed == spool.end);
        spool.discard(TaskId(2)).unwrap();
        for id in [3, 1] {
            assert!(all(&mut spool, id).1 == expected);
        }
        assert_eq!((spool.in_memory, spool.end, spool.needed), (0, 0, 0));
        assert_eq!(all(&mut spool, 9), (0, Vec::new()));
    }
}
