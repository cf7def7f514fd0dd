//! SHA-256 of files, a piece at a time, so that an event loop can handle other events between the pieces.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crypto::digest::{Context, SHA256};
use mpd_wire::job::Digest;

/// A SHA-256 computation in progress.
#[derive(Clone)]
pub struct Hasher {
    context: Context,
    bytes: u64,
}

impl Default for Hasher {
    fn default() -> Self {
        Self { context: Context::new(&SHA256), bytes: 0 }
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hasher").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Hasher {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.context.update(piece);
        self.bytes += piece.len() as u64;
    }

    /// How many bytes were added.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest of all bytes added.
    pub fn finish(self) -> Digest {
        let mut bytes = [0; 32];
        // SHA-256 has 32 bytes.
        bytes.copy_from_slice(self.context.finish().as_ref());
        Digest::from_bytes(bytes)
    }
}

/// A file that is being read for its digest.
#[derive(Debug)]
pub struct Hashing {
    file: File,
    hasher: Hasher,
}

impl Hashing {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn begin(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, hasher: Hasher::default() })
    }

    /// Reads at most one buffer of bytes. At the end of the file: its digest and length.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn step(&mut self, buffer: &mut [u8]) -> io::Result<Option<(Digest, u64)>> {
        match self.file.read(buffer) {
            Ok(0) => Ok(Some((self.hasher.clone().finish(), self.hasher.bytes()))),
            Ok(n) => {
                self.hasher.update(&buffer[..n]);
                Ok(None)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_digest_of_its_content_at_any_size_of_reads() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let mut hashing = Hashing::begin(file.path()).unwrap();
        let mut buffer = [0; 2];
        let (digest, bytes) = loop {
            if let Some(end) = hashing.step(&mut buffer).unwrap() {
                break end;
            }
        };
        assert_eq!(bytes, 3);
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), known);
    }
}
