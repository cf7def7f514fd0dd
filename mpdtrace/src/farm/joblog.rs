//! The job log on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_farm::{Task, TaskId, joblog};
use mpd_machine::Time;

/// How long a line may be missing on disk.
const SYNC: Duration = Duration::from_secs(1);

/// A job log, to which lines are appended.
#[derive(Debug)]
pub(crate) struct JobLog {
    path: PathBuf,
    file: File,
    /// Lines of this turn.
    lines: Vec<u8>,
    /// When the file was changed first after it was last on disk.
    changed: Option<Time>,
}

/// The tasks that a job log has, with a digest of their commands.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    tasks: BTreeMap<TaskId, u64>,
}

impl Recorded {
    /// Whether the job log has this task. Each task is asked for once.
    ///
    /// # Errors
    /// The job log has another command for it.
    pub(crate) fn has(&mut self, task: &Task) -> Result<bool> {
        match self.tasks.remove(&task.id) {
            None => Ok(false),
            Some(recorded) if recorded == digest(&task.command) => Ok(true),
            Some(_) => bail!(
                "task {} is another command in the job log; --resume needs the same input as the first run",
                task.id
            ),
        }
    }

    /// How many tasks it has.
    pub(crate) fn count(&self) -> u64 {
        self.tasks.len() as u64
    }
}

fn digest(command: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    command.hash(&mut hasher);
    hasher.finish()
}

impl JobLog {
    /// Opens the job log. With `resume`, returns the tasks that it has; otherwise it must be new or empty.
    ///
    /// # Errors
    /// The file cannot be used, or is no job log.
    pub(crate) fn open(path: &Path, resume: bool) -> Result<(Self, Recorded)> {
        let shown = path.display();
        let mut options = File::options();
        options.read(true).append(true).create(true);
        let mut file =
            options.open(path).with_context(|| format!("cannot open the job log {shown}"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(|| format!("cannot read the job log {shown}"))?;
        let (recorded, length) =
            joblog::parse(&bytes).with_context(|| format!("the job log {shown}"))?;
        if !resume && length > joblog::HEADER.len() {
            bail!(
                "the job log {shown} has tasks already: continue with --resume, or remove the file"
            );
        }
        let tasks = recorded.iter().map(|it| (it.id, digest(it.command))).collect();
        // What follows the last complete line was cut by the end of the last run.
        if length < bytes.len() {
            file.set_len(length as u64)
                .with_context(|| format!("cannot cut the job log {shown}"))?;
        }
        let lines = if length == 0 { joblog::HEADER.as_bytes().to_vec() } else { Vec::new() };
        let mut log = Self { path: path.to_owned(), file, lines, changed: None };
        log.write(Time::ZERO)?;
        Ok((log, Recorded { tasks }))
    }

    /// Adds a line, which [`JobLog::write`] writes.
    pub(crate) fn add(&mut self, line: &[u8]) {
        self.lines.extend_from_slice(line);
    }

    /// Writes the lines of this turn.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn write(&mut self, now: Time) -> Result<()> {
        if !self.lines.is_empty() {
            let written = self.file.write_all(&self.lines);
            written.with_context(|| self.failure())?;
            self.lines.clear();
            self.changed.get_or_insert(now);
        }
        Ok(())
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
