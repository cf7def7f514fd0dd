//! The job log, in the format of GNU parallel: one line for each end. A newline in a command is a NUL byte there.

use std::fmt::Write as _;

use crate::frame::MAX_COMMAND;
use crate::{End, Outcome, TaskId};

/// Longest line: a command, and the other fields.
const MAX_LINE: usize = MAX_COMMAND + 4096;

/// The first line.
pub const HEADER: &str =
    "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";

/// A line: the end of a task on a host, with the number of bytes that it has written.
pub fn line(id: TaskId, host: &str, end: &End, written: u64, command: &[u8], out: &mut Vec<u8>) {
    let (code, signal) = match end.outcome {
        Outcome::Exited(code) => (i16::from(code), 0),
        Outcome::Killed(signal) => (0, signal),
        Outcome::TimedOut(signal) => (-1, signal),
    };
    let mut text = String::with_capacity(96);
    let (began, took) = (end.began / 1000, end.took / 1000);
    let _ = write!(
        text,
        "{id}\t{host}\t{}.{:03}\t{:>6}.{:03}\t0\t{written}\t{code}\t{signal}\t",
        began / 1000,
        began % 1000,
        took / 1000,
        took % 1000,
    );
    out.extend_from_slice(text.as_bytes());
    out.extend(command.iter().map(|byte| if *byte == b'\n' { 0 } else { *byte }));
    out.push(b'\n');
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub id: TaskId,
    /// Whether it has failed.
    pub failed: bool,
    pub command: Vec<u8>,
}

/// Why a file is no job log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLog {
    /// The first line is another one.
    #[error("its first line is not that of a job log")]
    Header,
    /// A line is not complete. Only the last line may be.
    #[error("line {0} is not the line of a task")]
    Line(usize),
}

/// Reads a job log in pieces.
#[derive(Debug, Default)]
pub struct Reader {
    /// The beginning of a line.
    rest: Vec<u8>,
    /// Complete lines so far, and their length.
    lines: usize,
    length: u64,
}

impl Reader {
    /// Reads a piece, and hands on the lines that are complete with it.
    ///
    /// # Errors
    /// [`InvalidLog`].
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Recorded)) -> Result<(), InvalidLog> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if self.rest.last() == Some(&b'\n') {
                self.length += self.rest.len() as u64;
                self.lines += 1;
                if self.lines > 1 {
                    each(recorded(&self.rest).ok_or(InvalidLog::Line(self.lines))?);
                } else if self.rest != HEADER.as_bytes() {
                    return Err(InvalidLog::Header);
                }
                self.rest.clear();
            } else if self.lines == 0 && self.rest.len() > HEADER.len() {
                return Err(InvalidLog::Header);
            } else if self.rest.len() > MAX_LINE {
                return Err(InvalidLog::Line(self.lines + 1));
            }
        }
        Ok(())
    }

    /// The length of the complete lines. A torn last line is ignored.
    ///
    /// # Errors
    /// [`InvalidLog`].
    pub fn finish(self) -> Result<u64, InvalidLog> {
        if self.lines > 0 || HEADER.as_bytes().starts_with(&self.rest) {
            Ok(self.length)
        } else {
            Err(InvalidLog::Header)
        }
    }
}

fn recorded(line: &[u8]) -> Option<Recorded> {
    let mut fields = line.strip_suffix(b"\n")?.splitn(9, |byte| *byte == b'\t');
    let mut text = || std::str::from_utf8(fields.next()?).ok();
    let id = TaskId(text()?.parse().ok().filter(|id| *id > 0)?);
    let _host = text()?;
    for _ in 0..2 {
        text()?.trim_start().parse::<f64>().ok()?;
    }
    for _ in 0..2 {
        text()?.parse::<u64>().ok()?;
    }
    let code: i32 = text()?.parse().ok()?;
    let signal: i32 = text()?.parse().ok()?;
    let command = fields.next()?.iter().map(|byte| if *byte == 0 { b'\n' } else { *byte });
    Some(Recorded { id, failed: code != 0 || signal != 0, command: command.collect() })
}
