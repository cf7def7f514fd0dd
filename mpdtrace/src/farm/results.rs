//! The results of tasks: their outputs, and their lines in the job log. All go through one queue. So the line of a task
//! is written after its output.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use mpd_farm::frame::Stream;
use mpd_farm::{End, InOrder, Outcome, Task, TaskId, joblog};
use mpd_io::files::output::Output;
use mpd_io::terminal::progress;
use mpd_sansio::Time;
use serde_json::{Value, json};

use super::joblog::JobLog;
use super::spool::{Piece, Spool, Written};
use crate::tool::OutputError;

/// Items that may wait for standard output. Then no worker is read.
const MAX_QUEUED: usize = 10_000;
/// Most bytes of a stream in a line of JSON. The rest is left out.
const MAX_JSON: usize = 16 << 20;

/// Something to write.
#[derive(Debug)]
enum Item {
    /// These bytes; so many are written.
    Bytes(Stream, Vec<u8>, usize),
    /// Output that is in the spool.
    Piece(Stream, Piece),
    /// A line of the job log.
    Line(Vec<u8>),
}

/// A task that has ended.
#[derive(Debug)]
struct Finished {
    task: Task,
    host: String,
    end: End,
    written: Written,
}

/// The form of the results.
#[derive(Debug)]
pub(crate) enum Form {
    /// Outputs on our standard output and error.
    Printed,
    /// Outputs in files of this directory.
    Files(PathBuf),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Results {
    out: Output,
    err: Output,
    spool: Spool,
    queue: VecDeque<Item>,
    order: Option<InOrder<Finished>>,
    form: Form,
    json: bool,
    log: Option<JobLog>,
    /// The stream that accepts nothing now.
    blocked: Option<Stream>,
    /// A line of progress is on the terminal.
    has_progress: bool,
    /// The latest message about each host.
    said: BTreeMap<String, String>,
}

impl Results {
    /// Results in this form.
    ///
    /// # Errors
    /// A standard stream is closed.
    pub(crate) fn new(form: Form, in_order: bool, json: bool, log: Option<JobLog>) -> Result<Self> {
        let out =
            Output::new(io::stdout().as_fd().try_clone_to_owned()?).context("standard output")?;
        let err =
            Output::new(io::stderr().as_fd().try_clone_to_owned()?).context("standard error")?;
        let order = in_order.then(InOrder::default);
        let (spool, queue) = (Spool::default(), VecDeque::new());
        Ok(Self {
            out,
            err,
            spool,
            queue,
            order,
            form,
            json,
            log,
            blocked: None,
            said: BTreeMap::new(),
            has_progress: false,
        })
    }

    /// Adds output of a running task.
    ///
    /// # Errors
    /// The file for outputs cannot be written.
    pub(crate) fn output(&mut self, id: TaskId, stream: Stream, bytes: &[u8]) -> Result<()> {
        self.spool.add(id, stream, bytes).context("cannot keep the output of a task")
    }

    /// Drops what a task has written.
    ///
    /// # Errors
    /// The file for outputs cannot be cut.
    pub(crate) fn discard(&mut self, id: TaskId) -> Result<()> {
        self.spool.discard(id).context("cannot drop the output of a task")
    }

    /// A task has ended.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn add(&mut self, task: Task, host: String, end: End) -> Result<()> {
        let written = self.spool.take(task.id);
        let finished = Finished { task, host, end, written };
        match &mut self.order {
            None => self.deliver(finished),
            Some(order) => {
                order.add(finished.task.id, finished);
                self.deliver_ready()
            }
        }
    }

    /// This task has no result here: its line was empty, an earlier run has recorded it, or it was lost or cancelled.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn skip(&mut self, id: TaskId) -> Result<()> {
        match &mut self.order {
            None => Ok(()),
            Some(order) => {
                order.skip(id);
                self.deliver_ready()
            }
        }
    }

    /// No further result will come: delivers those that wait for others.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        while let Some(finished) = self.order.as_mut().and_then(InOrder::next_of_rest) {
            self.deliver(finished)?;
        }
        Ok(())
    }

    fn deliver_ready(&mut self) -> Result<()> {
        while let Some(finished) = self.order.as_mut().and_then(InOrder::next_ready) {
            self.deliver(finished)?;
        }
        Ok(())
    }

    fn deliver(&mut self, finished: Finished) -> Result<()> {
        let Finished { task, host, end, mut written } = finished;
        let length = written.len();
        if let Form::Files(directory) = &self.form {
            let directory = directory.clone();
            self.write_file(
                &directory.join(format!("{}.out", task.id)),
                written.take(Stream::Out),
                true,
            )?;
            self.write_file(
                &directory.join(format!("{}.err", task.id)),
                written.take(Stream::Err),
                false,
            )?;
        }
        if self.json {
            let line = self.json_line(&task, &host, &end, &mut written)?;
            self.queue.push_back(Item::Bytes(Stream::Out, line, 0));
        }
        for stream in [Stream::Out, Stream::Err] {
            self.queue
                .extend(written.take(stream).into_iter().map(|piece| Item::Piece(stream, piece)));
        }
        if self.log.is_some() {
            let mut line = Vec::with_capacity(64 + task.command.len());
            joblog::line(task.id, &host, &end, length, &task.command, &mut line);
            self.queue.push_back(Item::Line(line));
        }
        Ok(())
    }

    fn write_file(&mut self, path: &Path, pieces: Vec<Piece>, always: bool) -> Result<()> {
        if pieces.is_empty() && !always {
            return Ok(());
        }
        let failed = || format!("cannot write {}", path.display());
        let mut file = File::create(path).with_context(failed)?;
        for mut piece in pieces {
            loop {
                let bytes = self.spool.read(&mut piece)?;
                if bytes.is_empty() {
                    break;
                }
                file.write_all(&bytes).with_context(failed)?;
            }
        }
        Ok(())
    }

    fn json_line(
        &mut self,
        task: &Task,
        host: &str,
        end: &End,
        written: &mut Written,
    ) -> Result<Vec<u8>> {
        let (code, signal) = match end.outcome {
            Outcome::Exited(code) => (Some(code), None),
            Outcome::Killed(signal) | Outcome::TimedOut(signal) => (None, Some(signal)),
        };
        #[expect(clippy::cast_precision_loss, reason = "microseconds since 1970 fit a double")]
        let mut line = json!({
            "task": task.id.0,
            "host": host,
            "command": String::from_utf8_lossy(&task.command),
            "began": end.began as f64 / 1e6,
            "seconds": end.took as f64 / 1e6,
            "exit": code,
            "signal": signal,
            "timed_out": matches!(end.outcome, Outcome::TimedOut(_)),
        });
        if matches!(self.form, Form::Printed) {
            for (name, stream) in [("stdout", Stream::Out), ("stderr", Stream::Err)] {
                let (bytes, whole) = self.gather(written.take(stream))?;
                line[name] = String::from_utf8_lossy(&bytes).into_owned().into();
                if !whole {
                    line["truncated"] = Value::Bool(true);
                }
            }
        }
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The bytes of pieces up to the bound, and whether these are all.
    fn gather(&mut self, pieces: Vec<Piece>) -> Result<(Vec<u8>, bool)> {
        let (mut all, mut whole) = (Vec::new(), true);
        for mut piece in pieces {
            loop {
                let bytes = self.spool.read(&mut piece)?;
                if bytes.is_empty() {
                    break;
                }
                whole &= all.len() + bytes.len() <= MAX_JSON;
                if whole {
                    all.extend_from_slice(&bytes);
                }
            }
        }
        Ok((all, whole))
    }

    /// Queues a message for the user.
    pub(crate) fn warn(&mut self, text: &str) {
        let line = format!("mpdfarm: {}\n", mpd_io::files::logging::one_line(text));
        self.queue.push_back(Item::Bytes(Stream::Err, line.into_bytes(), 0));
    }

    /// Queues a message about a host. A message that is repeated, as by a worker that cannot start, is queued once.
    pub(crate) fn warn_of_host(&mut self, name: &str, problem: &str) {
        let text = of_host(name, problem);
        if self.said.get(name) != Some(&text) {
            self.warn(&text);
            self.said.insert(name.to_owned(), text);
        }
    }

    /// Whether so much waits that no further results should be made.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= MAX_QUEUED || self.log.as_ref().is_some_and(JobLog::is_full)
    }

    /// Whether all was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.log.as_ref().is_none_or(JobLog::is_written)
    }

    /// What to wait for before the next write.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let stream = self.blocked.map(|stream| match stream {
            Stream::Out => self.out.as_fd(),
            Stream::Err => self.err.as_fd(),
        });
        stream.into_iter().chain(self.log.as_ref().and_then(JobLog::fd))
    }

    /// Writes what can be written now.
    ///
    /// # Errors
    /// [`OutputError`], or the job log cannot be written.
    pub(crate) fn flush(&mut self, now: Time) -> Result<()> {
        self.blocked = None;
        while let Some(item) = self.queue.pop_front() {
            if let Some(rest) = self.write_item(item)? {
                self.queue.push_front(rest);
                if self.blocked.is_some() {
                    break;
                }
            }
        }
        match &mut self.log {
            None => Ok(()),
            Some(log) => {
                log.write(now)?;
                log.sync(now, false)
            }
        }
    }

    /// Writes an item; returns what is left of it.
    fn write_item(&mut self, item: Item) -> Result<Option<Item>> {
        match item {
            Item::Line(line) => {
                if let Some(log) = &mut self.log {
                    log.add(&line);
                }
                Ok(None)
            }
            Item::Piece(stream, mut piece) => {
                let bytes =
                    self.spool.read(&mut piece).context("cannot read the output of a task")?;
                if bytes.is_empty() {
                    return Ok(None);
                }
                self.queue.push_front(Item::Piece(stream, piece));
                Ok(Some(Item::Bytes(stream, bytes, 0)))
            }
            Item::Bytes(stream, bytes, done) => self.write_bytes(stream, bytes, done),
        }
    }

    fn write_bytes(
        &mut self,
        stream: Stream,
        bytes: Vec<u8>,
        mut done: usize,
    ) -> Result<Option<Item>> {
        self.clear_progress();
        while done < bytes.len() {
            let output = if stream == Stream::Out { &self.out } else { &self.err };
            match output.write(&bytes[done..]) {
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = Some(stream);
                    return Ok(Some(Item::Bytes(stream, bytes, done)));
                }
                // Standard error may have no reader.
                Err(_) if stream == Stream::Err => return Ok(None),
                Err(error) => return Err(OutputError::from(error).into()),
            }
        }
        Ok(None)
    }

    /// Whether standard error is a terminal.
    pub(crate) const fn has_terminal(&self) -> bool {
        self.err.is_terminal()
    }

    /// Shows a line of progress, if that is possible without waiting. On a terminal it replaces the last one.
    pub(crate) fn progress(&mut self, line: &str) {
        if self.blocked == Some(Stream::Err) {
            return;
        }
        if self.has_terminal() {
            let _ = self.err.write(progress::replacement(line).as_bytes());
            self.has_progress = true;
        } else {
            let _ = self.err.write(format!("{line}\n").as_bytes());
        }
    }

    /// Removes the line of progress.
    pub(crate) fn clear_progress(&mut self) {
        if std::mem::take(&mut self.has_progress) {
            let _ = self.err.write(progress::CLEAR.as_bytes());
        }
    }

    /// When the job log must be on disk.
    pub(crate) fn due(&self) -> Option<Time> {
        self.log.as_ref().and_then(JobLog::due)
    }

    /// Puts the job log on disk.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn sync(&mut self, now: Time) -> Result<()> {
        match &mut self.log {
            None => Ok(()),
            Some(log) => {
                log.write(now)?;
                log.sync(now, true)
            }
        }
    }
}

/// A message about a host. Some messages name the host already.
fn of_host(name: &str, problem: &str) -> String {
    let named = problem.strip_prefix("host ").and_then(|rest| rest.strip_prefix(name));
    match named.is_some_and(|rest| rest.starts_with([':', ' '])) {
        true => problem.to_owned(),
        false => format!("host {name}: {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_its_host_once() {
        assert_eq!(of_host("h1", "its worker has ended"), "host h1: its worker has ended");
        assert_eq!(of_host("h1", "host h1: no such file"), "host h1: no such file");
        assert_eq!(of_host("h1", "host h1 is lost: x"), "host h1 is lost: x");
        assert_eq!(of_host("h1", "host h12: no"), "host h1: host h12: no");
    }
}
