//! The start of a job, and the requests that wait for it. Pure.

use mpd_wire::JobId;
use mpd_wire::message::{JobInput, JobNews};

/// The state of the start.
#[derive(Debug, Default)]
pub(super) struct Start {
    job: Option<(JobId, String)>,
    /// Whether the job has started or has failed.
    decided: bool,
    resubmitted: bool,
    /// Requests to send once the manager can receive them.
    held: Vec<JobInput>,
}

/// The meaning of a closed connection.
#[derive(Debug)]
pub(super) enum Closed {
    /// No rank has run: submit the job again.
    Resubmit,
    /// The job is lost, for this reason.
    Lost(String),
}

impl Start {
    /// The job's id and host, once they are known.
    pub(super) const fn job(&self) -> Option<&(JobId, String)> {
        self.job.as_ref()
    }

    /// Handles a message of the manager.
    pub(super) const fn note(&mut self, news: &JobNews) {
        self.decided |= matches!(
            news,
            JobNews::Started { .. } | JobNews::Failed { .. } | JobNews::Ended { .. }
        );
    }

    /// Handles the start of the job; returns the waiting requests.
    pub(super) fn begun(&mut self, job: JobId, host: String) -> Vec<JobInput> {
        self.job = Some((job, host));
        std::mem::take(&mut self.held)
    }

    /// Returns the request if it can be sent now. Before the start there is no manager for it, so
    /// it waits.
    pub(super) fn send(&mut self, input: JobInput) -> Option<JobInput> {
        if self.job.is_some() {
            return Some(input);
        }
        if matches!(input, JobInput::Resize { .. }) {
            self.held.retain(|held| !matches!(held, JobInput::Resize { .. }));
        }
        self.held.push(input);
        None
    }

    /// The text about a connection that broke. Its last message may have been that ranks start, so the job is not
    /// submitted again.
    pub(super) fn broken(&self) -> String {
        match &self.job {
            Some((id, _)) => {
                format!("the connection to the manager of job {id} broke, and the job ends with it")
            }
            None => "the connection to the daemon or the manager broke, and the job ends with it"
                .to_owned(),
        }
    }

    /// Handles a connection that closed after a whole message.
    pub(super) fn closed(&mut self) -> Closed {
        Closed::Lost(match &self.job {
            Some((id, _)) => format!("the manager of job {id} died, and the job with it"),
            None if self.decided => "the manager of the job died, and the job with it".to_owned(),
            None if !std::mem::replace(&mut self.resubmitted, true) => return Closed::Resubmit,
            None => "the daemon, or the manager of the job, died twice before the job started; no rank has run".to_owned(),
        })
    }
}
