//! The manager's process: its owners, and the routes of events between them and the machine.

use mio::event::Event as Ready;
use mpd_io::process::signals::Signals;
use mpd_job::manager::Manager;
use mpd_machine::Pump;
use mpd_wire::Rank;

use super::context::Common;
use super::ending::Ending;
use super::event::Event;
use super::links::Links;
use super::pmi::Pmi;
use super::ranks::{RankDescriptor, Ranks};
use super::stdio::Stdio;
use super::tokens::{ADOPTED, CONSOLE, DAEMON, SIGNALS};
use super::upstream::Upstream;

/// The process's state between two turns of its loop.
pub(super) struct Process {
    pub(super) common: Common,
    pub(super) signals: Signals,
    pub(super) signalled: bool,
    pub(super) pump: Pump<Manager>,
    pub(super) upstream: Upstream,
    pub(super) links: Links,
    pub(super) ranks: Ranks,
    pub(super) stdio: Stdio,
    pub(super) pmi: Pmi,
    pub(super) ending: Ending,
    /// The exit code, once everything is over.
    pub(super) over: Option<u8>,
}

impl Process {
    /// Marks the ready descriptor of an event. Work begins after all events are marked.
    pub(super) fn mark(&mut self, event: &Ready) {
        let (token, has_ended) = (event.token().0, event.is_read_closed());
        match token {
            DAEMON => self.upstream.mark_daemon(),
            CONSOLE => self.upstream.mark_console(),
            SIGNALS => self.signalled = true,
            ADOPTED => self.ranks.mark_adopted(),
            _ if self.pmi.mark_pmix(token, event.is_readable(), has_ended) => {}
            _ if self.links.mark_ready(token, has_ended || event.is_error()) => {}
            _ => {
                if let Some((rank, descriptor)) = self.ranks.of_token(token) {
                    self.mark_rank(event, rank, descriptor);
                }
            }
        }
    }

    fn mark_rank(&mut self, event: &Ready, rank: Rank, descriptor: RankDescriptor) {
        let has_ended = event.is_read_closed();
        if has_ended {
            self.ranks.note_descriptor_end(rank);
        }
        match descriptor {
            RankDescriptor::Shim => self.ranks.mark_shim(rank),
            RankDescriptor::Stdin => self.stdio.mark_writable(rank),
            RankDescriptor::Output(stream) => self.stdio.mark_source(rank, stream, has_ended),
            RankDescriptor::Pmi => self.pmi.mark(rank, event.is_readable(), has_ended),
        }
    }

    /// Delivers the reported events. Gives each input to the machine and performs each output before the next one.
    pub(super) fn settle(&mut self) {
        loop {
            match self.common.events.pop_front() {
                Some(Event::Input(input)) => self.pump.post(input),
                Some(event) => self.deliver(event),
                None => match self.pump.next(self.common.clock.now()) {
                    Some(output) => self.route(output),
                    None => return,
                },
            }
        }
    }
}
