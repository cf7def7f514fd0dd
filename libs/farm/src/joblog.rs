//! The job log, in the format of GNU parallel: one line for each end.

use std::fmt::Write as _;

use crate::{End, Outcome, TaskId};

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
    out.extend_from_slice(command);
    out.push(b'\n');
}

/// A line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// The task.
    pub id: TaskId,
    /// Whether it has failed.
    pub failed: bool,
    /// Its command.
    pub command: &'a [u8],
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

/// The lines of a job log, and the length of its complete lines. A torn last line is ignored.
///
/// # Errors
/// [`InvalidLog`].
pub fn parse(bytes: &[u8]) -> Result<(Vec<Recorded<'_>>, usize), InvalidLog> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate();
    match lines.next() {
        None if HEADER.as_bytes().starts_with(bytes) => return Ok((Vec::new(), 0)),
        Some((_, first)) if first == HEADER.as_bytes() => {}
        _ => return Err(InvalidLog::Header),
    }
    let recorded = lines.map(|(at, line)| recorded(line).ok_or(InvalidLog::Line(at + 1)));
    Ok((recorded.collect::<Result<_, _>>()?, whole))
}

fn recorded(line: &[u8]) -> Option<Recorded<'_>> {
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
    Some(Recorded { id, failed: code != 0 || signal != 0, command: fields.next()? })
}
