//! The manager's process: its owners, and the node that decides.

use mio::event::Event as Ready;
use mpd_io::process::signals::Signals;
use mpd_wire::Rank;

use super::context::Common;
use super::ending::Ending;
use super::lent::Lent;
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
    pub(super) upstream: Upstream,
    pub(super) links: Links,
    pub(super) ranks: Ranks,
    pub(super) stdio: Stdio,
    pub(super) pmi: Pmi,
    pub(super) ending: Ending,
}

impl Process {
    /// Marks the ready descriptor of an event. Work begins after all events are marked.
    pub(super) fn mark(&mut self, event: &Ready) {
        let (token, has_ended) = (event.token().0, event.is_read_closed());
        match token {
            DAEMON => self.upstream.daemon.ready = true,
            CONSOLE => self.upstream.console.ready = true,
            SIGNALS => self.signalled = true,
            ADOPTED => self.ranks.mark_adopted(),
            _ if self.pmi.mark_pmix(&mut self.common.turn(), token, event) => {}
            _ if self.links.mark_ready(token, has_ended || event.is_error()) => {}
            _ => {
                let slot = RankDescriptor::of(token);
                let ranks = self.common.node.ranks();
                if let Some((rank, descriptor)) = slot.and_then(|(s, d)| Some((ranks.at(s)?, d))) {
                    self.mark_rank(event, rank, descriptor);
                }
            }
        }
    }

    fn mark_rank(&mut self, event: &Ready, rank: Rank, descriptor: RankDescriptor) {
        let has_ended = event.is_read_closed();
        if has_ended {
            self.common.node.ranks_mut().note_descriptor_end(rank);
        }
        match descriptor {
            RankDescriptor::Shim => self.ranks.mark_shim(rank),
            RankDescriptor::Stdin => self.common.node.lend().stdio.mark_writable(rank),
            RankDescriptor::Output(stream) => {
                self.common.node.lend().stdio.mark_source(rank, stream, has_ended);
            }
            RankDescriptor::Pmi => self.pmi.mark(&mut self.common.turn(), rank, event),
        }
    }

    /// Performs the outputs of the node until nothing is left.
    pub(super) fn settle(&mut self) {
        loop {
            let lent = Lent { upstream: &self.upstream, links: &self.links, ending: &self.ending };
            let now = self.common.clock.now();
            let Some(output) = self.common.node.next(now, &lent) else { return };
            self.perform(output);
        }
    }
}
