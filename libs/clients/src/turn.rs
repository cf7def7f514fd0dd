//! The context of one call of the machine: the time, the facts of the job, and a list for outputs.

use std::collections::VecDeque;

use mpd_job::manager::Input;
use mpd_sansio::Time;
use mpd_wire::message::ManagerReport;

use crate::job::Job;
use crate::output::{Action, Level, Output};

/// The context of one call.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) job: &'a Job,
    now: Time,
    outputs: &'a mut VecDeque<Output>,
}

impl<'a> Turn<'a> {
    pub(crate) const fn new(now: Time, job: &'a Job, outputs: &'a mut VecDeque<Output>) -> Self {
        Self { job, now, outputs }
    }

    pub(crate) const fn now(&self) -> Time {
        self.now
    }

    /// Adds an output behind the earlier ones.
    pub(crate) fn report(&mut self, output: impl Into<Output>) {
        self.outputs.push_back(output.into());
    }

    /// Adds an input of the job's machine.
    pub(crate) fn post(&mut self, input: Input) {
        self.report(Output::Job(input));
    }

    /// Adds a message for the daemon.
    pub(crate) fn send_to_daemon(&mut self, report: ManagerReport) {
        self.report(Output::Daemon(report));
    }

    /// Adds a line of the log.
    pub(crate) fn log(&mut self, level: Level, text: String) {
        self.report(Output::Act(Action::Log(level, text)));
    }

    /// Adds a warning of the log.
    pub(crate) fn warn(&mut self, text: String) {
        self.log(Level::Warning, text);
    }
}
