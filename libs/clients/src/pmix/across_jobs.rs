//! Operations with processes of other jobs: what the root has for them.

use std::collections::BTreeMap;

use mpd_connect::Meetings;
use mpd_sansio::{Pump, Time};
use mpd_wire::Rank;
use mpd_wire::message::FenceGroup;
use pmix_proto::view::Proc;
use serde::{Deserialize, Serialize};

use super::describe;
use crate::job::Job;

/// The members of a meeting, and the time that they give in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Roll {
    pub(super) procs: Vec<(String, u32)>,
    pub(super) timeout: Option<u32>,
}

/// What the root has for other jobs.
#[derive(Debug, Default)]
pub(super) struct AcrossJobs {
    pub(super) machine: Option<Pump<Meetings>>,
    /// The groups whose members wait for other jobs, by the name of the meeting.
    pub(super) waiting: BTreeMap<String, (Rank, FenceGroup, Roll)>,
    /// How many numbers ranks of other jobs have got.
    pub(super) numbered: u32,
}

impl AcrossJobs {
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.machine.as_ref()?.machine().poll_timeout()
    }
}

/// Whether some of these processes belong to other jobs.
pub(super) fn is_across(job: &Job, procs: &[Proc]) -> bool {
    procs.iter().any(|proc| describe::number_of(job, &proc.namespace).is_none())
}

/// The processes of this job among these.
pub(super) fn own_among(job: &Job, procs: &[Proc]) -> Vec<Proc> {
    let is_own = |proc: &&Proc| describe::number_of(job, &proc.namespace).is_some();
    procs.iter().filter(is_own).cloned().collect()
}
