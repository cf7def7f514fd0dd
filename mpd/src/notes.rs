//! The open record of a job. The daemon writes its first line and keeps it open. The manager inherits it and adds
//! notes. The process that sweeps after the manager's death reads all of it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use mpd_leftovers::record::{MAX_RECORD, Note};

/// The notes of a manager about what its job makes.
#[derive(Debug)]
pub(crate) struct Notes {
    record: File,
    /// No more notes are written: the disk is full, or the record has its greatest size.
    full: bool,
    bytes: usize,
    /// Lines that are written with the next one.
    later: Vec<u8>,
}

impl Notes {
    pub(crate) const fn new(record: File) -> Self {
        Self { record, full: false, bytes: 0, later: Vec::new() }
    }

    /// Adds a line, which is written together with the next one. For facts that matter only if another line follows.
    pub(crate) fn add_later(&mut self, note: &Note) {
        if let Ok(line) = serde_json::to_vec(note) {
            self.later.push(b'\n');
            self.later.extend_from_slice(&line);
        }
    }

    /// Adds a line. If that fails, the job continues; then less is removed after the death of its manager.
    pub(crate) fn add(&mut self, note: &Note) {
        let Ok(line) = serde_json::to_vec(note) else { return };
        let line = [&*std::mem::take(&mut self.later), b"\n", &*line].concat();
        self.bytes = self.bytes.saturating_add(line.len());
        if self.full {
            return;
        }
        let written = match self.bytes {
            ..=MAX_RECORD => self.record.write_all(&line),
            _ => Err(io::ErrorKind::FileTooLarge.into()),
        };
        if let Err(e) = written {
            self.full = true;
            log::warn!("not everything that the job makes is noted: {e}");
        }
    }
}

/// Reads the whole record. The file offset of its writers stays as it is.
pub(crate) fn read(record: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    // The first line is the daemon's.
    while bytes.len() <= 2 * MAX_RECORD {
        match record.read_at(&mut buffer, bytes.len() as u64) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}
