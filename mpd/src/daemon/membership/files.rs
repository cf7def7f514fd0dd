//! The records of the ring and of the slots in the run directory, for the daemon that is started again here.

use std::fs;
use std::path::{Path, PathBuf};

use mpd_daemon::{RingImage, SlotsImage};
use mpd_io::files::key_file::KeyFile;
use mpd_io::ring::rundir::{self, RunDir};
use serde::de::DeserializeOwned;

/// Largest record of the ring that is read: [`mpd_wire::MAX_MEMBERS`] with 8 numeric addresses each fit.
const MAX_RING: u64 = 16 << 20;

/// Largest record of the slots that is read.
const MAX_SLOTS: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Files {
    ring: PathBuf,
    slots: PathBuf,
    /// The key file, if it is of this ring alone.
    key: Option<KeyFile>,
    /// A problem with the record of the slots was reported already.
    is_reported: bool,
}

impl Files {
    /// The files of this run directory. `key`: the key file, if it is of this ring alone.
    pub(super) fn of(rundir: &RunDir, key: Option<KeyFile>) -> Self {
        let (ring, slots) = (rundir.path().join("ring.json"), rundir.path().join("slots.json"));
        Self { ring, slots, key, is_reported: false }
    }

    /// The record of the ring that an earlier daemon left.
    pub(super) fn read_ring(&self) -> Option<RingImage> {
        read(&self.ring, MAX_RING)
    }

    /// The record of the slots that an earlier daemon left.
    pub(super) fn read_slots(&self) -> Option<SlotsImage> {
        read(&self.slots, MAX_SLOTS)
    }

    /// Replaces the record of the ring.
    pub(super) fn write_ring(&self, text: &[u8]) {
        if let Err(e) = rundir::replace(&self.ring, text) {
            log::warn!("cannot write {}: {e}", self.ring.display());
        }
        // Members that entered together leave much free memory.
        mpd_io::trim_memory();
    }

    /// Removes the record of the ring. With `key`, it also removes this ring's own key file, because other users know the key.
    pub(super) fn remove_ring(&mut self, key: bool) {
        let _ = fs::remove_file(&self.ring);
        if key && let Some(Err(error)) = self.key.take().map(|key| key.remove()) {
            log::warn!("the key of this ring stays: {error}");
        }
    }

    /// Replaces the record of the slots.
    pub(super) fn write_slots(&mut self, text: &[u8]) {
        if let Err(e) = rundir::replace(&self.slots, text)
            && !std::mem::replace(&mut self.is_reported, true)
        {
            let path = self.slots.display();
            log::warn!("cannot write {path}: {e}; the next daemon will not know the slots");
        }
    }

    /// Removes the record of the slots.
    pub(super) fn remove_slots(&self) {
        let _ = fs::remove_file(&self.slots);
    }
}

/// Reads a file of the run directory. An invalid file is reported and not used, nor is one with more than `max` bytes.
fn read<T: DeserializeOwned>(path: &Path, max: u64) -> Option<T> {
    let size = fs::metadata(path).ok()?.len();
    let text = (size <= max).then(|| fs::read(path).ok())??;
    match serde_json::from_slice(&text) {
        Ok(image) => Some(image),
        Err(e) => {
            log::warn!("{}: {e}; not used", path.display());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_record_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::of(&RunDir::at(directory.path().to_owned()), None);
        assert!(files.read_ring().is_none() && files.read_slots().is_none());
        files.write_ring(br#"{"ring":"","name":"h1","port":7,"members":[]}"#);
        assert!(files.read_ring().is_some());
        fs::write(directory.path().join("slots.json"), "{").unwrap();
        assert!(files.read_slots().is_none());
        files.write_ring(b"{");
        assert!(files.read_ring().is_none());
    }
}
