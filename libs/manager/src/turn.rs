//! The context of a call: the time, the job, the facts, and the queues of the node.

use std::collections::VecDeque;

use mpd_clients::{FromJob, Job};
use mpd_sansio::Time;
use mpd_wire::job::Notice;
use mpd_wire::message::{JobNews, ManagerReport};

use crate::event::Event;
use crate::facts::Facts;
use crate::output::{Output, Work};

/// The moment of a call.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) now: Time,
    pub(crate) facts: &'a dyn Facts,
}

/// What is still to be routed or performed.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Events that are not routed yet.
    pub(crate) events: VecDeque<Event>,
    /// What the event or the machine's output leads to that was routed last.
    pub(crate) work: VecDeque<Work>,
}

impl Queue {
    /// Adds an event behind all that owners have reported.
    pub(crate) fn report(&mut self, event: impl Into<Event>) {
        self.events.push_back(event.into());
    }

    /// Adds work behind the earlier one.
    pub(crate) fn perform(&mut self, work: impl Into<Work>) {
        self.work.push_back(work.into());
    }

    pub(crate) fn console(&mut self, news: JobNews) {
        self.perform(Output::Console(news));
    }

    /// A line for the user.
    pub(crate) fn notice(&mut self, text: String) {
        self.console(JobNews::Notice(Notice::major(text)));
    }

    pub(crate) fn daemon(&mut self, report: ManagerReport) {
        self.perform(Output::Daemon(report));
    }

    /// Adds an event of the job for the machine of the clients.
    pub(crate) fn clients(&mut self, event: FromJob) {
        self.perform(mpd_clients::Input::Job(event));
    }
}

/// The context of one call of a part.
pub(crate) struct Turn<'a> {
    pub(crate) at: Moment<'a>,
    pub(crate) job: &'a Job,
    pub(crate) queue: &'a mut Queue,
}
