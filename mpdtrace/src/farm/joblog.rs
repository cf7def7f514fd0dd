//! The job log on disk.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_farm::{Task, TaskId, joblog};
use mpd_io::network::outgoing::Outgoing;
use mpd_sansio::Time;

/// How long a line may be missing on disk.
const SYNC: Duration = Duration::from_secs(1);
/// Bytes that may wait for the reader of a pipe. Then no further results are made.
const MAX_WAITING: usize = 1 << 20;
/// Bytes read at a time.
const READ: usize = 256 << 10;
/// Most tasks of a job log that is resumed: what the farm can hold.
const MAX_RECORDED: usize = 20_000_000;

/// A job log, to which lines are appended.
#[derive(Debug)]
pub(crate) struct JobLog {
    path: PathBuf,
    file: File,
    /// Lines that are not written yet. A file takes them at once, a pipe when its reader has made room.
    lines: Outgoing,
    /// When the file was changed first after it was last on disk.
    changed: Option<Time>,
}

/// What a job log says about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing.
    Unknown,
    /// It has succeeded.
    Succeeded,
    /// It has failed.
    Failed,
}

/// The tasks that a job log has, with a digest of their commands. The lowest bit of the digest says that the task has failed.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    tasks: BTreeMap<TaskId, u64>,
}

impl Recorded {
    /// What the job log says about this task. Each task is asked for once.
    ///
    /// # Errors
    /// The job log has another command for it.
    pub(crate) fn take(&mut self, task: &Task) -> Result<Found> {
        match self.tasks.remove(&task.id) {
            None => Ok(Found::Unknown),
            Some(recorded) if recorded | 1 != digest(&task.command) | 1 => bail!(
                "task {} is another command in the job log; --resume needs the same input as the first run",
                task.id
            ),
            Some(recorded) if recorded & 1 == 1 => Ok(Found::Failed),
            Some(_) => Ok(Found::Succeeded),
        }
    }

    /// How many tasks it has.
    pub(crate) fn count(&self) -> usize {
        self.tasks.len()
    }

    /// How many of them have failed.
    pub(crate) fn failed(&self) -> usize {
        self.tasks.values().filter(|recorded| **recorded & 1 == 1).count()
    }
}

fn digest(command: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    command.hash(&mut hasher);
    hasher.finish()
}

impl JobLog {
    /// Opens the job log. With `resume`, returns the tasks that it has; otherwise it must be new or empty. What is no regular
    /// file is written, and never read.
    ///
    /// # Errors
    /// The file cannot be used, or is no job log.
    pub(crate) fn open(path: &Path, resume: bool) -> Result<(Self, Recorded)> {
        let shown = path.display();
        let is_stream = std::fs::metadata(path).is_ok_and(|it| !it.is_file());
        if is_stream && resume {
            bail!("the job log {shown} is no regular file, so --resume cannot read it");
        }
        let mut options = File::options();
        options.append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        options.read(!is_stream).create(!is_stream);
        let opened = options.open(path);
        let file = match opened {
            Err(error) if is_stream && error.raw_os_error() == Some(libc::ENXIO) => {
                bail!("cannot open the job log {shown}: no process reads it")
            }
            opened => opened.with_context(|| format!("cannot open the job log {shown}"))?,
        };
        let (recorded, length) =
            if is_stream { (Recorded::default(), 0) } else { read(&file, &shown, resume)? };
        let mut log =
            Self { path: path.to_owned(), file, lines: Outgoing::default(), changed: None };
        if length == 0 {
            log.add(joblog::HEADER.as_bytes());
        }
        log.write(Time::ZERO)?;
        Ok((log, recorded))
    }

    /// Adds a line, which [`JobLog::write`] writes.
    pub(crate) fn add(&mut self, line: &[u8]) {
        self.lines.buffer().extend_from_slice(line);
    }

    /// Writes what can be written now.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn write(&mut self, now: Time) -> Result<()> {
        let before = self.lines.len();
        let written = self.lines.flush(&mut self.file);
        if self.lines.len() < before {
            self.changed.get_or_insert(now);
        }
        written.with_context(|| self.failure())
    }

    /// What to wait for before the next write.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_written()).then(|| self.file.as_fd())
    }

    /// Whether all lines were written.
    pub(crate) fn is_written(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether so much waits that no further results should be made.
    pub(crate) fn is_full(&self) -> bool {
        self.lines.len() >= MAX_WAITING
    }

    /// When the file must be on disk.
    pub(crate) fn due(&self) -> Option<Time> {
        self.changed.map(|changed| changed + SYNC)
    }

    /// Puts the file on disk if that is due, or in any case.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn sync(&mut self, now: Time, in_any_case: bool) -> Result<()> {
        if self.changed.is_some() && (in_any_case || self.due().is_some_and(|due| due <= now)) {
            self.changed = None;
            match self.file.sync_data() {
                // A pipe or a device is no file on a disk.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                result => result.with_context(|| self.failure())?,
            }
        }
        Ok(())
    }

    fn failure(&self) -> String {
        format!("cannot write the job log {}", self.path.display())
    }
}

/// Reads a job log. Without `resume` it may only have its first line. What follows the last complete line was cut by the end of the
/// last run, and is removed. Returns the tasks, and the length of the complete lines.
fn read(mut file: &File, shown: &dyn Display, resume: bool) -> Result<(Recorded, u64)> {
    let (mut reader, mut tasks) = (joblog::Reader::default(), BTreeMap::new());
    let (mut buffer, mut total) = (vec![0; READ], 0);
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the job log {shown}"));
            }
        };
        total += read as u64;
        let pushed = reader.push(&buffer[..read], |line| {
            let digest = digest(&line.command) & !1 | u64::from(line.failed);
            tasks.insert(line.id, digest);
        });
        pushed.with_context(|| format!("the job log {shown}"))?;
        if !resume && !tasks.is_empty() {
            bail!(
                "the job log {shown} has tasks already: continue with --resume, or remove the file"
            );
        }
        if tasks.len() > MAX_RECORDED {
            bail!(
                "the job log {shown} has more than {MAX_RECORDED} tasks, which --resume cannot hold"
            );
        }
    }
    let length = reader.finish().with_context(|| format!("the job log {shown}"))?;
    if length < total {
        file.set_len(length).with_context(|| format!("cannot cut the job log {shown}"))?;
    }
    Ok((Recorded { tasks }, length))
}
