//! Between a console and its daemon, and between `mpirun` and the root manager of its job.

use serde::{Deserialize, Serialize};

use crate::id::{JobId, Rank};
use crate::job::{Failure, RankEnd};

/// Daemon to console. After a submission that is accepted the daemon says nothing more: the
/// connection belongs to the job's manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ConsoleReply {
    /// The request is not carried out.
    Refused {
        /// Why, for people.
        problem: String,
    },
    /// What a daemon says of itself.
    Status {
        /// The daemon's name in the ring.
        name: String,
        /// Its process id.
        pid: u32,
        /// Its jobs.
        jobs: Vec<JobSummary>,
    },
}

/// One job in a daemon's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSummary {
    /// The job.
    pub job: JobId,
    /// The process id of its manager.
    pub manager: u32,
}

/// `mpirun` to the root manager. Standard input travels beside, as frames of its own kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobInput {
    /// Send this signal to the process group of every rank, once.
    Signal {
        /// Its number.
        signal: u8,
    },
    /// `^C`: interrupt now, terminate and kill after graces; the second one kills at once.
    Interrupt,
    /// The terminal is gone: end the job.
    HangUp,
    /// `^Z`: stop every process of the job and answer [`JobNews::Suspended`].
    Suspend,
    /// `fg`: let them all continue.
    Resume,
}

/// The root manager to `mpirun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobNews {
    /// The job has an id; its ranks are about to run.
    Started {
        /// The id.
        job: JobId,
        /// The host it runs on.
        host: String,
    },
    /// That many further bytes of standard input may be sent.
    StdinCredit {
        /// How many.
        bytes: u32,
    },
    /// Nobody reads standard input any more.
    StdinUnwanted,
    /// Every process of the job is stopped.
    Suspended,
    /// What the first failure was, as soon as it is known.
    Failed {
        /// Where.
        host: String,
        /// The failure.
        failure: Failure,
    },
    /// The ends of consecutive ranks, sent at the end if the specification asks for them.
    Ends {
        /// The first of them.
        first: Rank,
        /// Process id and end of each.
        ends: Vec<(u32, RankEnd)>,
    },
    /// Something worth a line to the user that is not the end of the job.
    Notice {
        /// The line.
        text: String,
    },
    /// The job is over and nothing of it is left.
    Ended {
        /// The exit code of `mpirun`.
        code: u8,
    },
}
