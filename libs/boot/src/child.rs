//! A child process in its own process group, with its three pipes. Its output is bounded. No
//! function waits for the end of a pipe, because another process may hold the pipe open.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use mpd_io::process::spawn::{Fate, fate_of, wait_for};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use zeroize::Zeroizing;

use crate::failure::Ending;
use mpd_io::wait;

/// Bytes read from one pipe per turn, so that the output of one child does not delay the others.
const MAX_PER_TURN: usize = 256 << 10;

/// Most bytes of output kept for the message about a failure.
const MAX_TAIL: usize = 8 << 10;

/// A running child. Dropping it kills its process group and reaps it, unless it was released.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    stdin: Option<File>,
    input: Zeroizing<Vec<u8>>,
    written: usize,
    input_ends: bool,
    stdout: Option<File>,
    lines: Lines,
    stderr: Option<File>,
    stderr_tail: Tail,
    reaped: bool,
    released: bool,
}

impl Child {
    /// Starts `arguments` with `input` on the child's standard input, which then stays open.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub fn start(
        mut command: Command,
        input: Zeroizing<Vec<u8>>,
        max_line: usize,
    ) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The terminal's signals reach only mpdboot, and a signal to the group reaches all
        // descendants.
        let mut process = command.process_group(0).spawn()?;
        let pid = Pid::from_raw(i32::try_from(process.id()).map_err(io::Error::other)?);
        let stdin = process.stdin.take().map(OwnedFd::from);
        let stdout = process.stdout.take().map(OwnedFd::from);
        let stderr = process.stderr.take().map(OwnedFd::from);
        Self::new(pid, [stdin, stdout, stderr], input, max_line)
    }

    /// The child `pid` with our ends of its pipes.
    pub fn new(
        pid: Pid,
        pipes: [Option<OwnedFd>; 3],
        input: Zeroizing<Vec<u8>>,
        max_line: usize,
    ) -> io::Result<Self> {
        for fd in pipes.iter().flatten() {
            // The flag concerns only this end of the pipe, not the child's end.
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        let [stdin, stdout, stderr] = pipes.map(|pipe| pipe.map(File::from));
        Ok(Self {
            pid,
            stdin,
            input,
            written: 0,
            input_ends: false,
            stdout,
            lines: Lines::new(max_line),
            stderr,
            stderr_tail: Tail::default(),
            reaped: false,
            released: false,
        })
    }

    /// Lets the child continue without us. It counts as ended.
    pub fn release(&mut self) {
        (self.stdin, self.stdout, self.stderr) = (None, None, None);
        self.released = true;
    }

    /// The descriptors to wait for.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let writable = self.stdin.as_ref().filter(|_| self.written < self.input.len());
        [
            writable.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLOUT)),
            self.stdout.as_ref().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)),
            self.stderr.as_ref().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)),
        ]
        .into_iter()
        .flatten()
    }

    /// Sends the child more, after what it has not read yet.
    pub fn send(&mut self, more: &[u8]) {
        self.input.drain(..self.written);
        self.written = 0;
        self.input.extend_from_slice(more);
    }

    /// Closes the child's standard input after all is written. Otherwise it stays open.
    pub const fn end_input(&mut self) {
        self.input_ends = true;
    }

    /// Moves pending data of all pipes; returns the whole lines of standard output.
    pub fn pump(&mut self) -> Vec<Vec<u8>> {
        self.write();
        let mut lines = Vec::new();
        read(&mut self.stdout, |bytes| self.lines.push(bytes, &mut lines));
        read(&mut self.stderr, |bytes| self.stderr_tail.push(bytes));
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
                // The exit status of the child reports more.
                Err(_) => self.stdin = None,
            }
        }
        if self.input_ends {
            self.stdin = None;
        }
    }

    /// How the child ended, if it has. Call [`Child::pump`] once more then.
    pub fn ended(&mut self) -> Option<Ending> {
        if self.released {
            return Some(Ending::Exited(0));
        }
        let ending = match fate_of(self.pid) {
            Ok(None | Some(Fate::Stopped)) => return None,
            Ok(Some(Fate::Exited(code))) => Ending::Exited(code.into()),
            Ok(Some(Fate::Killed { signal, .. })) => Ending::Signaled(signal),
            // Other code has reaped it.
            Err(_) => Ending::Signaled(libc::SIGKILL),
        };
        self.reaped = true;
        Some(ending)
    }

    /// Waits for the end of the child and drops its output. At `deadline` the child is killed.
    pub fn wait(mut self, deadline: Instant) {
        while self.stdout.is_some() || self.stderr.is_some() {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds: Vec<PollFd<'_>> = self.poll_fds().collect();
            if left.is_zero() || matches!(wait::wait(&mut fds, Some(left)), Ok(0)) {
                // Dropping the child kills it.
                return;
            }
            self.pump();
        }
        self.reaped = self.released || wait_for(self.pid).is_ok();
    }

    /// Closes the child's standard input and sends SIGTERM to its group.
    pub fn end(&mut self) {
        self.stdin = None;
        self.signal(Signal::SIGTERM);
    }

    /// Sends SIGKILL to the child's group.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
    }

    fn signal(&self, signal: Signal) {
        if !self.reaped && !self.released {
            let _ = killpg(self.pid, signal);
        }
    }

    /// The last part of the child's standard error.
    pub fn stderr_tail(&self) -> String {
        self.stderr_tail.text()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped && !self.released {
            self.kill();
            let _ = wait_for(self.pid);
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

/// Splits bytes into lines. A line longer than `max` bytes is dropped.
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

/// The last [`MAX_TAIL`] bytes of a text.
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
    fn lines_do_not_depend_on_the_pieces_and_overlong_lines_are_dropped() {
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
