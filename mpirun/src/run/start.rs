//! What is known of the start of a job, and what is to be sent once its manager listens. Pure.

use mpd_wire::JobId;
use mpd_wire::message::{JobInput, JobNews};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Start {
    job: Option<(JobId, String)>,
    /// It has started, or has failed before.
    decided: bool,
    resubmitted: bool,
    /// To be sent once the manager listens.
    held: Vec<JobInput>,
}

/// What the end of the connection means.
#[derive(Debug)]
pub(super) enum Closed {
    /// No rank has run: the job is to be submitted once more.
    Resubmit,
    /// The job is lost.
    Lost(String),
}

impl Start {
    /// The job's id and host, once they are known.
    pub(super) const fn job(&self) -> Option<&(JobId, String)> {
        self.job.as_ref()
    }

    /// The manager said something.
    pub(super) const fn note(&mut self, news: &JobNews) {
        self.decided |= matches!(
            news,
            JobNews::Started { .. } | JobNews::Failed { .. } | JobNews::Ended { .. }
        );
    }

    /// The job has started; what waited for that.
    pub(super) fn begun(&mut self, job: JobId, host: String) -> Vec<JobInput> {
        self.job = Some((job, host));
        std::mem::take(&mut self.held)
    }

    /// What is to be sent now. Before the job has started there is no manager that could act on it, so it waits.
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

    /// The connection has closed behind a whole message.
    pub(super) fn closed(&mut self) -> Closed {
        Closed::Lost(match &self.job {
            Some((id, _)) => format!("the manager of job {id} died, and the job with it"),
            None if self.decided => "the manager of the job died, and the job with it".to_owned(),
            None if !std::mem::replace(&mut self.resubmitted, true) => return Closed::Resubmit,
            None => "the daemon died twice before the job started; no rank has run".to_owned(),
        })
    }
}
