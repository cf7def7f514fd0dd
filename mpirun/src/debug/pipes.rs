//! The pipes on which a debugged job's lines come, instead of our own output and errors.

use std::io;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use mio::{Registry, Token};
use mpd_io::input::Input as Stream;

use super::beside::register;
use super::lines::Lines;

const TOKENS: [Token; 2] = [Token(8), Token(9)];

/// How much of a pipe is read in one turn.
const READS: usize = 16;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// What the debuggers say.
    Debuggers,
    /// What they complain of beside.
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

    /// Everything that is still to come is here.
    pub(super) fn end(&mut self) {
        self.0.iter_mut().for_each(|pipe| pipe.ready = true);
    }

    /// Whether there may be more.
    pub(super) fn are_ready(&self) -> bool {
        self.0.iter().any(|pipe| pipe.ready && pipe.stream.is_some())
    }

    /// Some of the lines that have come.
    pub(super) fn read(&mut self) -> Vec<(From, Vec<u8>)> {
        let mut said = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        self.0.iter_mut().for_each(|pipe| pipe.read(&mut buffer, &mut said));
        said
    }
}

impl Pipe {
    fn new(from: From, fd: OwnedFd, registry: &Registry, token: Token) -> Result<Self> {
        let stream = Stream::new(fd).context("the job's output")?;
        register(registry, &stream, token).context("the job's output")?;
        Ok(Self { from, stream: Some(stream), ready: true, lines: Lines::default() })
    }

    fn read(&mut self, buffer: &mut [u8], said: &mut Vec<(From, Vec<u8>)>) {
        let mut each = |line: &[u8]| said.push((self.from, line.to_vec()));
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
