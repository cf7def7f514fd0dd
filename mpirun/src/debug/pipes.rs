//! The pipes with the output and errors of a debugged job.

use std::io;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use mio::{Registry, Token};
use mpd_io::files::input::Input as Stream;

use super::beside::register;
use super::lines::Lines;

const TOKENS: [Token; 2] = [Token(8), Token(9)];

/// Most reads of a pipe in one turn.
const READS: usize = 16;

/// The pipe that a line is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// Standard output of the debuggers.
    Debuggers,
    /// Standard error of the debuggers.
    Complaints,
}

#[derive(Debug)]
struct Pipe {
    from: From,
    stream: Option<Stream>,
    ready: bool,
    lines: Lines,
}

/// Both pipes.
#[derive(Debug)]
pub(super) struct Pipes([Pipe; 2]);

impl Pipes {
    pub(super) fn new(fds: [OwnedFd; 2], registry: &Registry) -> Result<Self> {
        let [out, err] = fds;
        let debuggers = Pipe::new(From::Debuggers, out, registry, TOKENS[0])?;
        Ok(Self([debuggers, Pipe::new(From::Complaints, err, registry, TOKENS[1])?]))
    }

    pub(super) fn wake(&mut self, token: Token) {
        for (pipe, own) in self.0.iter_mut().zip(TOKENS) {
            pipe.ready |= token == own;
        }
    }

    /// Handles the end of the job: all remaining output is in the pipes.
    pub(super) fn end(&mut self) {
        self.0.iter_mut().for_each(|pipe| pipe.ready = true);
    }

    /// Whether there may be more to read.
    pub(super) fn are_ready(&self) -> bool {
        self.0.iter().any(|pipe| pipe.ready && pipe.stream.is_some())
    }

    /// Reads some of the available lines.
    pub(super) fn read(&mut self) -> Vec<(From, Vec<u8>)> {
        let mut lines = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        self.0.iter_mut().for_each(|pipe| pipe.read(&mut buffer, &mut lines));
        lines
    }
}

impl Pipe {
    fn new(from: From, fd: OwnedFd, registry: &Registry, token: Token) -> Result<Self> {
        let stream = Stream::new(fd).context("the job's output")?;
        register(registry, &stream, token).context("the job's output")?;
        Ok(Self { from, stream: Some(stream), ready: true, lines: Lines::default() })
    }

    fn read(&mut self, buffer: &mut [u8], lines: &mut Vec<(From, Vec<u8>)>) {
        let mut each = |line: &[u8]| lines.push((self.from, line.to_vec()));
        for _ in 0..READS {
            let Some(stream) = self.stream.as_ref().filter(|_| self.ready) else { return };
            match stream.read(buffer) {
                Ok(n @ 1..) => self.lines.push(&buffer[..n], &mut each),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.ready = false,
                Ok(0) | Err(_) => {
                    self.lines.finish(&mut each);
                    self.stream = None;
                }
            }
        }
    }
}
