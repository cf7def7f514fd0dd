//! The streams of one rank here.

use mpd_wire::Stream;

use super::input::Opened;
use super::marks::Marks;
use crate::line_splitter::LineSplitter;

/// One output stream of a rank.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Whether its pipe is open.
    pub(super) is_open: bool,
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
}

impl Source {
    /// Whether bytes may wait in the pipe.
    pub(super) const fn is_unread(&self) -> bool {
        self.is_open && (self.ready || self.blocked || self.queued)
    }
}

/// The streams of one rank.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) has_input: bool,
    pub(super) sources: [Source; 2],
    /// Marks of its debugger in its output, if it has one.
    marks: Option<Marks>,
}

impl Streams {
    pub(super) fn new(opened: Opened) -> Self {
        let open = || Source { is_open: opened.has_outputs, ..Source::default() };
        let mut sources = [open(), open()];
        if opened.is_debugged {
            // The shim writes it.
            sources[Stream::Out.index()].line_splitter = LineSplitter::of_whole_lines();
        }
        let marks = opened.is_debugged.then(Marks::default);
        Self { has_input: opened.has_input, sources, marks }
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

    /// Whether data or an end is still to be read.
    pub(super) fn is_unread(&self) -> bool {
        self.sources.iter().any(|source| source.is_open && source.ready)
    }

    /// Whether both sources have ended.
    pub(super) fn are_silent(&self) -> bool {
        self.sources.iter().all(|source| !source.is_open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_silent_when_both_its_pipes_have_ended_and_unread_while_one_may_hold_bytes() {
        let opened = Opened { has_input: false, has_outputs: true, is_debugged: false };
        let mut streams = Streams::new(opened);
        streams.source(Stream::Err).ready = true;
        assert!(streams.is_unread() && !streams.are_silent());
        streams.source(Stream::Err).is_open = false;
        assert!(!streams.is_unread() && !streams.are_silent());
        streams.source(Stream::Out).is_open = false;
        assert!(streams.are_silent());
    }
}
