//! The manager's ends of the pipes of one rank.

use std::io::{self, PipeReader, PipeWriter, Write as _};

use mpd_io::usage;
use mpd_stdio::leaf::{Leaf, Writer};
use mpd_wire::Stream;
use mpd_wire::message::MAX_DEBUG_LINE;
use nix::unistd::Pid;

/// Bytes that may wait for a driver that does not read.
const MAX_WAITING: usize = 8 * MAX_DEBUG_LINE;

/// One output stream of a rank.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) pipe: Option<PipeReader>,
    pub(super) leaf: Leaf,
    /// Bytes may be waiting in the pipe.
    pub(super) ready: bool,
    /// All writers have closed: there is an end to be read.
    pub(super) ending: bool,
    /// Put aside until the gate opens.
    pub(super) blocked: bool,
    /// In the queue of sources to be read.
    pub(super) queued: bool,
    /// Bytes read so far.
    pub(super) taken: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::manager) struct Pipes {
    pub(super) input: Option<PipeWriter>,
    pub(super) sources: [Source; 2],
    /// The process that writes to the sources, while it lives and is our child.
    pub(super) process: Option<Pid>,
    /// Commands that wait for the process, if it is the driver of a debugger.
    commands: Option<Vec<u8>>,
}

impl Pipes {
    /// Those of a process, which may be the driver of a debugger.
    pub(in crate::manager) fn new(
        input: Option<PipeWriter>,
        outputs: [PipeReader; 2],
        (process, is_driver): (Option<Pid>, bool),
    ) -> Self {
        let sources = outputs.map(|pipe| Source { pipe: Some(pipe), ..Source::default() });
        Self { input, sources, process, commands: is_driver.then(Vec::new) }
    }

    pub(super) const fn source(&mut self, stream: Stream) -> &mut Source {
        &mut self.sources[stream.index()]
    }

    /// Whether the process is the driver of a debugger.
    pub(super) const fn is_driver(&self) -> bool {
        self.commands.is_some()
    }

    /// What the process that writes to the pipes is doing.
    pub(super) fn writer(&self) -> Writer {
        self.process.and_then(usage::ready).map_or(Writer::Waits, Writer::Ready)
    }

    /// Whether something is still to be read.
    pub(super) fn is_unread(&self) -> bool {
        self.sources.iter().any(|source| source.pipe.is_some() && source.ready)
    }

    /// Whether both sources have ended.
    pub(super) fn are_silent(&self) -> bool {
        self.sources.iter().all(|source| source.pipe.is_none())
    }

    /// Queues a line for a driver. Says whether there was room.
    pub(super) fn command(&mut self, line: &str) -> bool {
        let Some(commands) = &mut self.commands else { return true };
        if commands.len() + line.len() > MAX_WAITING {
            return false;
        }
        commands.extend_from_slice(line.as_bytes());
        commands.push(b'\n');
        self.flush_commands();
        true
    }

    /// Writes what the driver takes.
    pub(super) fn flush_commands(&mut self) {
        let (Some(commands), Some(pipe)) = (&mut self.commands, &mut self.input) else { return };
        while !commands.is_empty() {
            match pipe.write(commands) {
                Ok(n) => drop(commands.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return commands.clear(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_for_a_driver_that_does_not_read_are_bounded_and_no_other_process_gets_any() {
        let mut driver = Pipes { commands: Some(Vec::new()), ..Pipes::default() };
        let line = "x".repeat(MAX_DEBUG_LINE);
        let taken = (0..100).take_while(|_| driver.command(&line)).count();
        assert!((1..8).contains(&taken), "{taken}");
        assert!(driver.is_driver() && driver.are_silent() && !driver.is_unread());
        let mut program = Pipes::default();
        assert!((0..100).all(|_| program.command(&line)) && !program.is_driver());
    }

    #[test]
    fn a_rank_is_silent_when_both_its_pipes_have_ended_and_unread_while_one_may_hold_bytes() {
        let outputs = [io::pipe().unwrap().0, io::pipe().unwrap().0];
        let mut pipes = Pipes::new(None, outputs, (None, false));
        pipes.source(Stream::Err).ready = true;
        assert!(pipes.is_unread() && !pipes.are_silent());
        pipes.source(Stream::Err).pipe = None;
        assert!(!pipes.is_unread() && !pipes.are_silent());
        pipes.source(Stream::Out).pipe = None;
        assert!(pipes.are_silent());
    }
}
