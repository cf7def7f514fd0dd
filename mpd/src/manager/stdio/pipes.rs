//! The manager's ends of the pipes of one rank.

use std::fs::File;
use std::io::{PipeReader, PipeWriter};

use mpd_io::network::unread;
use mpd_io::process::usage;
use mpd_stdio::line_splitter::LineSplitter;
use mpd_stdio::silence::Task;
use mpd_wire::Stream;
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::Pid;

use super::marks::Marks;

/// The size of an enlarged pipe.
const PIPE_BYTES: i32 = 256 * 1024;

/// A read of this size shows that the pipe, which has 64 KiB at first, is too small for its writer.
const MUCH: usize = 32 * 1024;

/// One output stream of a rank.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) pipe: Option<PipeReader>,
    pub(super) line_splitter: LineSplitter,
    /// Data may be waiting in the pipe.
    pub(super) ready: bool,
    /// All writers have closed, so the end is to be read.
    pub(super) ending: bool,
    /// Not read until the write admission lets it in.
    pub(super) blocked: bool,
    /// In the queue of sources to be read.
    pub(super) queued: bool,
    /// Bytes read so far.
    pub(super) taken: u64,
    /// Whether the pipe is enlarged when much comes at once.
    may_grow: bool,
}

impl Source {
    /// Whether bytes may wait in the pipe.
    pub(super) const fn is_unread(&self) -> bool {
        self.pipe.is_some() && (self.ready || self.blocked || self.queued)
    }

    /// Notes a read of `count` bytes. A pipe that was nearly full becomes larger, so its writer waits less often.
    pub(super) fn note_read(&mut self, count: usize) {
        self.taken += count as u64;
        if self.may_grow && count >= MUCH {
            self.may_grow = false;
            let _ = self
                .pipe
                .iter()
                .try_for_each(|pipe| fcntl(pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES)).map(drop));
        }
    }
}

/// The pipes of one rank.
#[derive(Debug, Default)]
pub(in crate::manager) struct Pipes {
    pub(super) input: Option<PipeWriter>,
    /// Bytes of input that were written.
    pub(super) fed: u64,
    /// The reading end of a pipe of input that has got its end.
    kept: Option<File>,
    pub(super) sources: [Source; 2],
    /// The process that writes to the sources, while it lives and is our child.
    pub(super) process: Option<Pid>,
    /// Marks of its debugger in its output, if it has one.
    marks: Option<Marks>,
}

impl Pipes {
    /// Those of a process, which may have a debugger. With `may_grow`, they become larger when they are nearly full.
    pub(in crate::manager) fn new(
        input: Option<PipeWriter>,
        outputs: [PipeReader; 2],
        (process, is_debugged): (Option<Pid>, bool),
        may_grow: bool,
    ) -> Self {
        let open = |pipe| Source { pipe: Some(pipe), may_grow, ..Source::default() };
        let mut sources = outputs.map(open);
        if is_debugged {
            // The shim writes it.
            sources[Stream::Out.index()].line_splitter = LineSplitter::of_whole_lines();
        }
        let marks = is_debugged.then(Marks::default);
        Self { input, sources, process, marks, ..Self::default() }
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

    pub(super) const fn source(&mut self, stream: Stream) -> &mut Source {
        &mut self.sources[stream.index()]
    }

    /// The marks in a stream, if it can have some.
    pub(super) fn marks(&mut self, stream: Stream) -> Option<&mut Marks> {
        self.marks.as_mut().filter(|_| stream == Stream::Out)
    }

    /// Whether a debugger writes to the pipes.
    pub(super) const fn is_debugged(&self) -> bool {
        self.marks.is_some()
    }

    /// The threads of the process that writes to the pipes, if they are ready to run.
    pub(super) fn writer(&self) -> Vec<Task> {
        self.process.map(usage::ready).unwrap_or_default()
    }

    /// Whether data or an end is still to be read.
    pub(super) fn is_unread(&self) -> bool {
        self.sources.iter().any(|source| source.pipe.is_some() && source.ready)
    }

    /// Whether both sources have ended.
    pub(super) fn are_silent(&self) -> bool {
        self.sources.iter().all(|source| source.pipe.is_none())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_pipe_grows_when_much_was_read_at_once() {
        let size = |pipes: &mut Pipes| {
            let pipe = pipes.source(Stream::Out).pipe.as_ref().unwrap();
            fcntl(pipe, FcntlArg::F_GETPIPE_SZ).unwrap()
        };
        for (may_grow, read, grows) in
            [(true, MUCH - 1, false), (false, MUCH, false), (true, MUCH, true)]
        {
            let outputs = [io::pipe().unwrap().0, io::pipe().unwrap().0];
            let mut pipes = Pipes::new(None, outputs, (None, false), may_grow);
            let before = size(&mut pipes);
            pipes.source(Stream::Out).note_read(read);
            assert_eq!(size(&mut pipes) > before, grows, "{may_grow} {read}");
            assert_eq!(pipes.source(Stream::Out).taken, read as u64);
        }
    }

    #[test]
    fn a_rank_is_silent_when_both_its_pipes_have_ended_and_unread_while_one_may_hold_bytes() {
        let outputs = [io::pipe().unwrap().0, io::pipe().unwrap().0];
        let mut pipes = Pipes::new(None, outputs, (None, false), false);
        pipes.source(Stream::Err).ready = true;
        assert!(pipes.is_unread() && !pipes.are_silent());
        pipes.source(Stream::Err).pipe = None;
        assert!(!pipes.is_unread() && !pipes.are_silent());
        pipes.source(Stream::Out).pipe = None;
        assert!(pipes.are_silent());
    }
}
