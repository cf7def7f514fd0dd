//! The record of the allocations in the run directory: the held slots of this host, and the allocations of consoles here.

use std::fs;
use std::path::PathBuf;

use mpd_alloc::Saved;
use mpd_io::rundir::{self, RunDir};
use mpd_wire::DaemonName;
use serde::{Deserialize, Serialize};

use crate::daemon::membership::saved::read;

/// Largest file that is read.
const MAX_SIZE: u64 = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    /// The daemon's name: another one has other slots.
    name: DaemonName,
    saved: Saved,
}

/// The file.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    name: DaemonName,
    /// A problem was reported already.
    is_reported: bool,
    is_removed: bool,
}

impl Record {
    /// Opens the record of this run directory. It is used only if it is valid and has this daemon's name.
    pub(super) fn open(rundir: &RunDir, name: &DaemonName) -> (Self, Saved) {
        let path = rundir.path().join("slots.json");
        let image = read::<Image>(&path, MAX_SIZE).filter(|image| image.name == *name);
        let saved = image.map(|image| image.saved).unwrap_or_default();
        (Self { path, name: name.clone(), is_reported: false, is_removed: false }, saved)
    }

    /// Removes the record. It is not written again.
    pub(super) fn remove(&mut self) {
        self.is_removed = true;
        let _ = fs::remove_file(&self.path);
    }

    /// Replaces the record.
    pub(super) fn write(&mut self, saved: &Saved) {
        if self.is_removed {
            return;
        }
        let image = Image { name: self.name.clone(), saved: saved.clone() };
        let text = serde_json::to_vec(&image).expect("a record serialises");
        if let Err(e) = rundir::replace(&self.path, &text)
            && !std::mem::replace(&mut self.is_reported, true)
        {
            log::warn!(
                "cannot write {}: {e}; the next daemon will not know the slots",
                self.path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use mpd_alloc::data::{AllocId, Stamp};

    use super::*;

    #[test]
    fn a_record_is_read_by_the_next_daemon_of_the_same_name_only() {
        let dir = tempfile::tempdir().unwrap();
        let rundir = RunDir::at(dir.path().to_owned());
        let name = |text| DaemonName::new(text).unwrap();
        let (mut record, saved) = Record::open(&rundir, &name("h1"));
        assert_eq!(saved, Saved::default());
        let hold = mpd_alloc::SavedHold {
            id: AllocId::new(3, name("h2")),
            slots: 2,
            stamp: Stamp { life: 1, at: 2 },
            ends_us: None,
        };
        let saved = Saved { next: 9, holds: vec![hold], ..Saved::default() };
        record.write(&saved);
        assert_eq!(Record::open(&rundir, &name("h1")).1, saved);
        assert_eq!(Record::open(&rundir, &name("h2")).1, Saved::default());
        fs::write(dir.path().join("slots.json"), "{").unwrap();
        assert_eq!(Record::open(&rundir, &name("h1")).1, Saved::default());
    }
}
