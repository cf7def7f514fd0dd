//! The context of an owner's turn, lent by the loop: the job, the clock, the registry, and a list for the owner's
//! events.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mio::{Poll, Registry};
pub(super) use mpd_clients::Job;
use mpd_io::clock::Clock;
use mpd_job::manager::Input;
use mpd_manager::{Lending, Node, Output};
use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::message::Phase;

use super::event::{Descriptors, Event, Mark};

/// The shared resources of all owners, kept by the loop.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) poll: Poll,
    pub(super) clock: Clock,
    /// `/dev/null`, for reading.
    pub(super) null: OwnedFd,
    pub(super) node: Node,
    /// What owners have handed over, one for each [`Output::PassOn`].
    pub(super) handed_over: VecDeque<Descriptors>,
}

impl Common {
    /// The context for the turn of one owner.
    pub(super) fn turn(&mut self) -> Turn<'_> {
        let lending = self.node.lend();
        Turn {
            registry: self.poll.registry(),
            null: self.null.as_fd(),
            job: lending.job,
            clock: &self.clock,
            lending,
            handed_over: &mut self.handed_over,
        }
    }
}

/// The context of one turn of an owner.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) registry: &'a Registry,
    /// `/dev/null`, for reading.
    pub(super) null: BorrowedFd<'a>,
    pub(super) job: &'a Job,
    pub(super) clock: &'a Clock,
    pub(super) lending: Lending<'a>,
    handed_over: &'a mut VecDeque<Descriptors>,
}

impl Turn<'_> {
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Reports an event. The node routes it after the owner's turn, in the order of reports.
    pub(super) fn report(&mut self, event: impl Into<Event>) {
        self.lending.report(event);
    }

    /// Hands descriptors over to their owner, in the order of reports.
    pub(super) fn hand_over(&mut self, descriptors: Descriptors) {
        self.handed_over.push_back(descriptors);
        self.report(Output::PassOn);
    }

    /// Reports an input of the job's machine.
    pub(super) fn post(&mut self, input: Input) {
        self.report(Event::Input(input));
    }

    /// Begins a span of the launch's timeline.
    pub(super) fn begin(&mut self, phase: Phase, rank: Option<Rank>) {
        let now = self.now();
        self.report(Event::Span(Mark::Begin, now, phase, rank));
    }

    /// Ends a span of the launch's timeline.
    pub(super) fn end(&mut self, phase: Phase, rank: Option<Rank>) {
        let now = self.now();
        self.report(Event::Span(Mark::End, now, phase, rank));
    }
}
