//! A child process in a group of its own, and its three pipes. Its output is kept within bounds, and
//! nothing waits for the end of a pipe: somebody may hold it open for ever.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child as Process, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use zeroize::Zeroizing;

use crate::failure::Ending;

/// Bytes read from one pipe per turn, so that a child that floods us does not hold up the others.
const MAX_PER_TURN: usize = 256 << 10;

/// Bytes of output kept for the message about a failure.
const MAX_TAIL: usize = 8 << 10;

/// A running child. Dropping it kills its group and reaps it.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    stdin: Option<ChildStdin>,
    input: Zeroizing<Vec<u8>>,
    written: usize,
    input_ends: bool,
    stdout: Option<ChildStdout>,
    lines: Lines,
    stderr: Option<ChildStderr>,
    words: Tail,
    reaped: bool,
}

impl Child {
    /// Starts `words` with `input` on its standard input, which then stays open.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub(crate) fn start(
        mut command: Command,
        input: Zeroizing<Vec<u8>>,
        max_line: usize,
    ) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Signals of the terminal are ours alone, and ours reach all that the child starts.
        let mut process = command.process_group(0).spawn()?;
        let (stdin, stdout, stderr) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take());
        for fd in [stdin.as_ref().map(AsFd::as_fd), stdout.as_ref().map(AsFd::as_fd)]
            .into_iter()
            .chain([stderr.as_ref().map(AsFd::as_fd)])
            .flatten()
        {
            // Our ends of the pipes only: the flag is not shared with the child's.
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self {
            process,
            stdin,
            input,
            written: 0,
            input_ends: false,
            stdout,
            lines: Lines::new(max_line),
            stderr,
            words: Tail::default(),
            reaped: false,
        })
    }

    /// What to wait for.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let writable = self.stdin.as_ref().filter(|_| self.written < self.input.len());
        [
            writable.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLOUT)),
            self.stdout.as_ref().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)),
            self.stderr.as_ref().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)),
        ]
        .into_iter()
        .flatten()
    }

    /// Its standard input ends when all is written, instead of with us.
    pub(crate) const fn end_input(&mut self) {
        self.input_ends = true;
    }

    /// Moves what can be moved now, and returns the whole lines of standard output.
    pub(crate) fn pump(&mut self) -> Vec<Vec<u8>> {
        self.write();
        let mut lines = Vec::new();
        read(&mut self.stdout, |bytes| self.lines.push(bytes, &mut lines));
        read(&mut self.stderr, |bytes| self.words.push(bytes));
        lines
    }

    fn write(&mut self) {
        while let Some(stdin) = &mut self.stdin
            && self.written < self.input.len()
        {
            match stdin.write(&self.input[self.written..]) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // Its end will tell more.
                Err(_) => self.stdin = None,
            }
        }
        if self.input_ends {
            self.stdin = None;
        }
    }

    /// How it ended, if it did. Call [`Child::pump`] once more then.
    pub(crate) fn ended(&mut self) -> Option<Ending> {
        let status = self.process.try_wait().ok().flatten()?;
        self.reaped = true;
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Exited(code),
            (None, signal) => Ending::Signaled(signal.unwrap_or_default()),
        })
    }

    /// Waits for its end, whatever it says. It is killed at `deadline`.
    pub(crate) fn wait(mut self, deadline: Instant) {
        while self.stdout.is_some() || self.stderr.is_some() {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            let mut fds: Vec<PollFd<'_>> = self.poll_fds().collect();
            let patience = PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX));
            if left == 0 || poll(&mut fds, patience) == Ok(0) {
                // Dropping kills.
                return;
            }
            self.pump();
        }
        self.reaped = self.process.wait().is_ok();
    }

    /// Closes its standard input and asks its group to end.
    pub(crate) fn end(&mut self) {
        self.stdin = None;
        self.signal(Signal::SIGTERM);
    }

    /// Kills its group.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
    }

    fn signal(&self, signal: Signal) {
        if !self.reaped
            && let Ok(pid) = i32::try_from(self.process.id())
        {
            let _ = killpg(Pid::from_raw(pid), signal);
        }
    }

    /// The last it said on standard error.
    pub(crate) fn words(&self) -> String {
        self.words.text()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            let _ = self.process.wait();
        }
    }
}

fn read<R: Read>(pipe: &mut Option<R>, mut take: impl FnMut(&[u8])) {
    let mut buffer = [0_u8; 16 << 10];
    let mut total = 0;
    while let Some(reader) = pipe
        && total < MAX_PER_TURN
    {
        match reader.read(&mut buffer) {
            Ok(0) => *pipe = None,
            Ok(n) => {
                take(&buffer[..n]);
                total += n;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => *pipe = None,
        }
    }
}

/// Bytes to lines; what is longer than a bound is dropped up to its end.
#[derive(Debug)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    overlong: bool,
    max: usize,
}

impl Lines {
    pub(crate) const fn new(max: usize) -> Self {
        Self { partial: Vec::new(), overlong: false, max }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], lines: &mut Vec<Vec<u8>>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (content, whole) =
                piece.strip_suffix(b"\n").map_or((piece, false), |content| (content, true));
            self.overlong |= self.partial.len() + content.len() > self.max;
            if self.overlong {
                self.partial.clear();
            } else {
                self.partial.extend_from_slice(content);
            }
            if whole {
                let line = std::mem::take(&mut self.partial);
                if !std::mem::take(&mut self.overlong) {
                    lines.push(line);
                }
            }
        }
    }
}

/// The last of a text.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let excess = self.0.len().saturating_sub(MAX_TAIL);
        self.0.drain(..excess);
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_bytes_are_cut_and_overlong_ones_are_dropped() {
        let text = b"one\ntwo is too long\n\nthree\nfour";
        for size in 1..text.len() {
            let (mut lines, mut all) = (Lines::new(6), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece, &mut all);
            }
            assert_eq!(all, [b"one".to_vec(), vec![], b"three".to_vec()], "pieces of {size}");
        }
    }

    #[test]
    fn a_tail_keeps_the_end() {
        let mut tail = Tail::default();
        tail.push(&vec![b'x'; MAX_TAIL]);
        tail.push(b"end");
        assert_eq!(tail.text().len(), MAX_TAIL);
        assert!(tail.text().ends_with("xend"));
    }
}
