//! The manager's ends of the pipes of one rank.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};

use mpd_io::files::logging::plain;
use mpd_io::network::unread;
use mpd_io::process::usage;
use mpd_stdio::machine::{Found, Opened, Written};
use mpd_stdio::silence::Task;
use mpd_wire::Stream;
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::Pid;

/// The size of an enlarged pipe.
const PIPE_BYTES: i32 = 256 * 1024;

/// A read of this size shows that the pipe, which has 64 KiB at first, is too small for its writer.
const MUCH: usize = 32 * 1024;

/// The pipes of one rank.
#[derive(Debug, Default)]
pub(in crate::manager) struct Pipes {
    input: Option<PipeWriter>,
    /// Bytes of input that were written.
    fed: u64,
    /// The reading end of a pipe of input that has got its end.
    kept: Option<File>,
    outputs: [Option<PipeReader>; 2],
    /// Whether each of them is enlarged when much comes at once.
    may_grow: [bool; 2],
    /// The process that writes to the outputs, while it lives and is our child.
    pub(super) process: Option<Pid>,
    is_debugged: bool,
}

impl Pipes {
    /// Those of a process, which may have a debugger. With `may_grow`, they become larger when they are nearly full.
    pub(in crate::manager) fn new(
        input: Option<PipeWriter>,
        outputs: [PipeReader; 2],
        (process, is_debugged): (Option<Pid>, bool),
        may_grow: bool,
    ) -> Self {
        let (outputs, may_grow) = (outputs.map(Some), [may_grow; 2]);
        Self { input, outputs, may_grow, process, is_debugged, ..Self::default() }
    }

    pub(super) fn opened(&self) -> Opened {
        Opened {
            has_input: self.input.is_some(),
            has_outputs: self.outputs.iter().any(Option::is_some),
            is_debugged: self.is_debugged,
        }
    }

    /// Reads a stream. A pipe that was nearly full becomes larger, so its writer waits less often.
    pub(super) fn read(&mut self, stream: Stream, room: &mut [u8]) -> Found {
        let Some(pipe) = &mut self.outputs[stream.index()] else { return Found::Nothing };
        match pipe.read(room) {
            Ok(count) => {
                if count >= MUCH && std::mem::take(&mut self.may_grow[stream.index()]) {
                    let _ = fcntl(&*pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
                }
                Found::Bytes(count)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Found::Nothing,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Found::Interrupted,
            Err(e) => Found::Failed(plain(&e)),
        }
    }

    /// Closes an output stream.
    pub(super) fn close(&mut self, stream: Stream) {
        self.outputs[stream.index()] = None;
    }

    /// Writes input, as much as the pipe accepts.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Written {
        let Some(pipe) = &mut self.input else { return Written::Closed };
        loop {
            match pipe.write(bytes) {
                Ok(count) => {
                    self.fed += count as u64;
                    return Written::Bytes(count);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Written::Full,
                Err(_) => return Written::Closed,
            }
        }
    }

    /// Closes the input after its last byte. Unread bytes can still be counted.
    pub(super) fn end_input(&mut self) {
        if let Some(pipe) = self.input.take().filter(|_| self.fed > 0) {
            self.kept = unread::reading_end(pipe).ok();
        }
    }

    /// Gives up the input. The result is the number of bytes, if there were some and none was read.
    pub(super) fn give_up_input(&mut self) -> Option<u64> {
        let left = match (self.input.take(), self.kept.take()) {
            (Some(pipe), _) => unread::count(pipe),
            (None, Some(pipe)) => unread::count(pipe),
            (None, None) => return None,
        };
        let fed = std::mem::take(&mut self.fed);
        left.ok().filter(|&left| left > 0 && left as u64 == fed).map(|_| fed)
    }

    /// The threads of the process that writes to the pipes, if they are ready to run.
    pub(super) fn writer(&self) -> Vec<Task> {
        self.process.map(usage::ready).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_grows_when_much_was_read_at_once() {
        for (may_grow, bytes, grows) in
            [(true, MUCH - 1, false), (false, MUCH, false), (true, MUCH, true)]
        {
            let ((reader, mut writer), (other, _)) = (io::pipe().unwrap(), io::pipe().unwrap());
            let mut pipes = Pipes::new(None, [reader, other], (None, false), may_grow);
            let size = |pipes: &Pipes| {
                let pipe = pipes.outputs[Stream::Out.index()].as_ref().unwrap();
                fcntl(pipe, FcntlArg::F_GETPIPE_SZ).unwrap()
            };
            let before = size(&pipes);
            writer.write_all(&vec![b'x'; bytes]).unwrap();
            let mut room = vec![0; 2 * MUCH];
            assert_eq!(pipes.read(Stream::Out, &mut room), Found::Bytes(bytes));
            assert_eq!(size(&pipes) > before, grows, "{may_grow} {bytes}");
        }
    }
}
