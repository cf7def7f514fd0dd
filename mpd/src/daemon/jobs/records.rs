//! Records of jobs on disk. A later daemon finds the managers of the jobs by them, or removes the leftovers.
//!
//! A record is locked as long as its manager or the daemon that started it lives: the manager inherits the lock,
//! and the kernel releases it when both are gone. Without a run directory, or with a full disk, a record is only in
//! memory.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mpd_io::files::unnamed;
use mpd_io::ring::rundir::RunDir;
use mpd_leftovers::record::{JobRecord, read_record};
use mpd_wire::JobId;

use crate::notes;

/// The records of one run directory; without a run directory there are none on disk.
#[derive(Debug)]
pub(super) struct Records(Option<RunDir>);

impl Records {
    pub(super) const fn new(rundir: Option<RunDir>) -> Self {
        Self(rundir)
    }

    pub(super) fn path(&self, job: &JobId) -> Option<PathBuf> {
        self.0.as_ref().map(|rundir| rundir.record(job))
    }

    /// Writes the record of a job and locks it. Fails if a living manager holds that record. If the disk is full,
    /// the record is only in memory: the job runs, but a later daemon does not know it.
    pub(super) fn write(&self, record: &JobRecord) -> Result<File> {
        let bytes = serde_json::to_vec(record)?;
        if let Some(path) = self.path(&record.job) {
            let failed = || format!("cannot write {}", path.display());
            match write(&path, &bytes) {
                Err(e) if is_full(&e) => {
                    log::warn!("{}: {e}; the next daemon will not know the job", failed());
                    let _ = fs::remove_file(&path);
                }
                written => return written.with_context(failed),
            }
        }
        in_memory(&bytes).context("cannot write the job record")
    }

    pub(super) fn remove(&self, job: &JobId) {
        if let Some(path) = self.path(job) {
            let _ = fs::remove_file(path);
        }
    }

    /// Whether that job has a record on disk.
    pub(super) fn has(&self, job: &JobId) -> bool {
        self.path(job).is_some_and(|path| path.exists())
    }

    /// Whether no process holds the record.
    pub(super) fn is_free(&self, job: &JobId) -> bool {
        let file = self.path(job).and_then(|path| File::open(path).ok());
        file.is_none_or(|file| file.try_lock().is_ok())
    }

    /// Reads the records of an earlier daemon and leaves them open. A file that is not a record is removed. A
    /// record under another name than its job's belongs to another release and stays.
    pub(super) fn read(&self) -> Vec<(JobRecord, File)> {
        let Some(rundir) = &self.0 else { return Vec::new() };
        let mut found = Vec::new();
        for entry in fs::read_dir(rundir.jobs()).into_iter().flatten().flatten() {
            let opened = File::options()
                .read(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(entry.path());
            let Ok(file) = opened else { continue };
            let bytes = notes::read(&file).unwrap_or_default();
            match read_record(&bytes) {
                Ok((record, _)) if rundir.record(&record.job) == entry.path() => {
                    found.push((record, file));
                }
                Ok(_) => log::warn!(
                    "{}: a record of another release, left alone",
                    entry.path().display()
                ),
                Err(_) => {
                    log::warn!("{}: not a job record, removed", entry.path().display());
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        found
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Locks the file before it is changed. Later writes append to it.
fn write(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).append(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = match options.clone().create_new(true).open(path) {
        Ok(file) => {
            file.try_lock()?;
            file
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let file = options.create(true).open(path)?;
            file.try_lock()?;
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.set_len(0)?;
            file
        }
        Err(e) => return Err(e),
    };
    file.write_all(bytes)?;
    Ok(file)
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = unnamed::file(c"mpd-job")?;
    file.write_all(bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use mpd_leftovers::record::Note;
    use mpd_wire::job::Cookie;
    use mpd_wire::job::GroupKey;

    use super::*;
    use crate::notes::Notes;

    fn record(job: &str) -> JobRecord {
        JobRecord {
            job: job.parse().unwrap(),
            cookie: Cookie::from_bytes([1; 16]),
            tree_index: 0,
            cgroup: None,
        }
    }

    #[test]
    fn jobs_of_two_daemons_with_one_number_have_two_records() {
        let dir = tempfile::tempdir().unwrap();
        let rundir = RunDir::at(dir.path().to_owned());
        fs::create_dir(rundir.jobs()).unwrap();
        let records = Records::new(Some(rundir.clone()));
        let (first, second) = (record("1@h1"), record("1@h2"));
        let lock = records.write(&first).unwrap();
        drop(records.write(&second).unwrap());
        assert!(!records.is_free(&first.job) && records.is_free(&second.job));
        let again = JobRecord { cookie: Cookie::from_bytes([2; 16]), ..first.clone() };
        records.write(&again).expect_err("the first one's manager lives");
        drop(lock);
        assert!(records.is_free(&first.job));

        fs::write(rundir.jobs().join("7"), serde_json::to_vec(&record("7@h1")).unwrap()).unwrap();
        fs::write(rundir.jobs().join("8@h1"), "{").unwrap();
        let mut found: Vec<JobRecord> =
            records.read().into_iter().map(|(record, _)| record).collect();
        found.sort_by(|a, b| a.job.cmp(&b.job));
        assert_eq!(found, [first.clone(), second]);
        assert!(rundir.jobs().join("7").exists() && !rundir.jobs().join("8@h1").exists());
        records.remove(&first.job);
        assert!(!records.has(&first.job));
        assert_eq!(records.read().len(), 1);
    }

    #[test]
    fn notes_follow_the_record_on_disk_and_in_memory_and_other_users_cannot_read_them() {
        let dir = tempfile::tempdir().unwrap();
        let rundir = RunDir::at(dir.path().to_owned());
        fs::create_dir(rundir.jobs()).unwrap();
        for records in [Records::new(Some(rundir.clone())), Records::new(None)] {
            let record = record("1@h1");
            let file = records.write(&record).unwrap();
            let note = Note::Groups(vec![GroupKey::new(5, 6)]);
            // A manager has another descriptor of the same open file.
            let mut notes = Notes::new(file.try_clone().unwrap());
            notes.add(&note);
            notes.add(&note);
            let read = read_record(&notes::read(&file).unwrap()).unwrap();
            assert_eq!(read, (record, vec![note.clone(), note]));
            if let Some(path) = records.path(&read.0.job) {
                assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
            }
        }
    }
}
