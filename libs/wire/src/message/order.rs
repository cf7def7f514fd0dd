//! Orders to all members of the ring, and their answers: payloads of scatters, opaque to the ring.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::{Cookie, HostSlice, HostSlices, JobKey, ManagerEnd};
use crate::message::events::EventPage;
use crate::message::job_order::JobOrder;
use crate::message::jobs::{JobPart, JobRef, MAX_RUNS};
use crate::message::ring::Payload;
use crate::message::top::{HostUse, RunUse};
use crate::names::Refusal;
use crate::{DaemonName, JobId, MAX_MEMBERS};

/// An order. Each member acts on it once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RingOrder {
    /// Describe yourself: [`OrderAnswer::MemberDescription`].
    Speak,
    /// The member of this name leaves the ring.
    Leave { member: DaemonName },
    /// Every member ends.
    LeaveAll,
    /// These members change whether they get new processes only in jobs that name them.
    Drain {
        #[serde(deserialize_with = "at_most::<_, _, MAX_MEMBERS>")]
        members: Vec<DaemonName>,
        /// Whether they are draining from now on.
        draining: bool,
    },
    /// Hosts with a host slice start a manager for the job.
    Launch(Launch),
    /// The job ended before all its managers had connected. Managers that are searching for their
    /// parents stop.
    Cancel { job: JobId },
    /// List the jobs that run here: [`OrderAnswer::Jobs`].
    ListJobs {
        /// The page of the list, counted from 0. An answer has little room.
        page: u32,
    },
    /// Report the resources that ranks here use: [`OrderAnswer::Top`].
    Top {
        /// The page of the report, counted from 0. An answer has little room. On page 0 the
        /// managers start to count output for the next such order.
        page: u32,
    },
    /// Report the load and the speed of the host: [`OrderAnswer::Load`].
    Load,
    /// The host of the job's root manager passes an order of a user to it.
    Job { job: JobRef, order: JobOrder },
    /// The host of the job's root manager answers [`OrderAnswer::Events`] as soon as there is an event of this number or
    /// a later one, or without events after a short time.
    JobEvents {
        job: JobRef,
        /// The number of the first event; `None`: the oldest one that is kept.
        from: Option<u64>,
    },
    /// The daemon whose job of this user has PMIx namespaces with this mark answers [`OrderAnswer::Found`].
    FindJob {
        /// The mark: [`namespace_mark`](crate::job::namespace_mark).
        mark: String,
        /// The user, by number.
        uid: u32,
    },
    /// The daemon of the job's root manager passes bytes to it.
    PassToJob {
        /// The job whose root manager sends them. The daemon in its id must be the sender of the order.
        from: JobId,
        /// The job whose root manager gets them.
        to: JobId,
        /// The user of the first job, by number. The other one must have the same.
        uid: u32,
        /// The bytes, at most [`MAX_PASSED`](crate::message::MAX_PASSED).
        payload: Payload,
    },
    /// Messages, a question or an order about slots, as `mpd_alloc::exchange::Order`:
    /// [`OrderAnswer::Slots`], or done.
    Slots(Payload),
    /// The member that has published this name takes it back, if any job may do that.
    TakeBack {
        name: String,
        /// The job that published it.
        job: JobId,
        /// Its value: a later name stays.
        value: String,
    },
    /// The member that has published a name informs its job of refused requests.
    NameRefused(Refusal),
    /// The manager of the job on the sender's host has ended without its last report. The daemon of the job's root manager
    /// informs it by [`ManagerOrder::ManagerEnded`](crate::message::ManagerOrder::ManagerEnded).
    ManagerEnded {
        job: JobId,
        /// How the manager ended.
        end: ManagerEnd,
    },
}

/// A job, as sent to its hosts. The specification may be large and holds the user's environment.
/// Therefore only the job tree carries it, to the job's hosts alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub job: JobId,
    /// The key of its links.
    pub key: JobKey,
    /// See [`crate::message::StartJob::cookie`].
    pub cookie: Cookie,
    /// See [`crate::message::StartJob::kvsname`].
    pub kvsname: String,
    /// The directory in which each host makes the job's directory. Each host chooses the name
    /// there.
    pub tmpdir: String,
    /// The job's hosts and their ranks.
    pub host_slices: HostSlices,
    /// See [`crate::message::StartJob::universe`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub universe: Option<u32>,
    /// The first place without a manager: 0 for a new job, whose root starts before the launch is
    /// sent. Places before it complete the tree; a missing answer of theirs is not reported.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Launch {
    /// The host slices of hosts that must start a manager, with their places; never the root's.
    pub fn newcomers(&self) -> impl Iterator<Item = (usize, &HostSlice)> {
        self.host_slices.iter().enumerate().skip((self.first as usize).max(1))
    }

    /// Checks the launch: any holder of the ring's key can send one.
    ///
    /// # Errors
    /// The job's directory is not acceptable.
    pub fn check(&self) -> Result<(), InvalidTmpdir> {
        check_tmpdir(&self.tmpdir)
    }
}

/// A directory for temporary files that is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TMPDIR={shown}: {problem}")]
pub struct InvalidTmpdir {
    shown: String,
    problem: &'static str,
}

/// The directory for temporary files without another one.
const DEFAULT_TMPDIR: &str = "/tmp";
/// Longest path of a directory (`PATH_MAX`).
const MAX_PATH: usize = 4096;
/// Most characters of a path that a message repeats.
const MAX_SHOWN: usize = 200;

/// The directory for [`Launch::tmpdir`] if a user wants this one, and why it is another one.
pub fn launch_tmpdir(wanted: &[u8]) -> (String, Option<InvalidTmpdir>) {
    let path = str::from_utf8(wanted).map_err(|_| InvalidTmpdir {
        shown: shown(&String::from_utf8_lossy(wanted)),
        problem: "the path is not UTF-8 text",
    });
    match path.and_then(|path| check_tmpdir(path).map(|()| path)) {
        Ok(path) => (path.to_owned(), None),
        Err(problem) => (DEFAULT_TMPDIR.to_owned(), Some(problem)),
    }
}

/// The beginning of a path, safe for a terminal.
fn shown(path: &str) -> String {
    path.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect()
}

fn check_tmpdir(path: &str) -> Result<(), InvalidTmpdir> {
    let problem = if path.len() >= MAX_PATH {
        "the path is too long"
    } else if !path.starts_with('/') {
        "the path is not absolute"
    } else if path.split('/').any(|part| part == "..") {
        "the path has a \"..\" in it"
    } else if path.contains('\0') {
        "the path has a NUL byte in it"
    } else {
        return Ok(());
    };
    Err(InvalidTmpdir { shown: shown(path), problem })
}

/// One member's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderAnswer {
    /// The order was carried out.
    Done,
    /// The job's root manager is not here.
    NoSuchJob,
    /// The job runs here.
    Found { job: JobId },
    /// The jobs that run here.
    Jobs {
        /// Some of the jobs.
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
        jobs: Vec<JobPart>,
        /// Whether there is a next page.
        more: bool,
    },
    /// The resources in use here.
    Top {
        machine: HostUse,
        /// Some of the ranks.
        #[serde(deserialize_with = "at_most::<_, _, MAX_RUNS>")]
        runs: Vec<RunUse>,
        /// Whether there is a next page.
        more: bool,
    },
    /// The load of this host.
    Load { machine: HostUse },
    /// A list about slots, as `mpd_alloc::exchange::Listing`.
    Slots(Payload),
    /// Events of a job.
    Events(EventPage),
    /// The order has no meaning here.
    Unknown,
    /// The order cannot be carried out here.
    Failed {
        /// Why, for people.
        problem: String,
    },
    /// The member's description of itself.
    MemberDescription {
        /// Release.
        version: String,
        /// Process id.
        pid: u32,
        /// Jobs with a manager here.
        jobs: u32,
        /// Forwarding steps that the order took.
        hops: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instance;

    #[test]
    fn the_end_of_a_manager_travels_with_the_whole_id_of_its_job() {
        let job = "7@h1#000102030405060708090a0b0c0d0e0f".parse().unwrap();
        let cases = [
            (ManagerEnd::OutOfMemory, r#""out_of_memory""#),
            (ManagerEnd::Exited(101), r#"{"exited":101}"#),
            (
                ManagerEnd::Signaled { signal: 9, core: false },
                r#"{"signaled":{"signal":9,"core":false}}"#,
            ),
        ];
        for (end, text) in cases {
            let order = RingOrder::ManagerEnded { job: JobId::clone(&job), end };
            let json = format!(
                r#"{{"manager_ended":{{"job":"7@h1#000102030405060708090a0b0c0d0e0f","end":{text}}}}}"#
            );
            assert_eq!(serde_json::to_string(&order).unwrap(), json);
            assert_eq!(serde_json::from_str::<RingOrder>(&json).unwrap(), order);
        }
    }

    #[test]
    fn a_job_directory_that_is_relative_climbs_or_is_too_long_is_refused() {
        let daemon = DaemonName::new("h1").unwrap();
        let launch = |tmpdir: &str| Launch {
            job: "1@h1".parse().unwrap(),
            key: JobKey::from_bytes([1; 32]),
            cookie: Cookie::from_bytes([1; 16]),
            kvsname: "kvs_0".to_owned(),
            tmpdir: tmpdir.to_owned(),
            host_slices: HostSlices::alone(daemon.clone(), Instance::from_bytes([1; 16]), 1),
            universe: None,
            first: 0,
        };
        for good in ["/tmp", "/", "/var/tmp/..a/b..", "/home/a b"] {
            assert_eq!(launch(good).check(), Ok(()), "{good}");
        }
        let long = format!("/{}", "x".repeat(MAX_PATH));
        for bad in ["", "tmp", "../tmp", "/tmp/../home/alice", "/..", "/a\0b", &long] {
            let problem = launch(bad).check().unwrap_err().to_string();
            assert!(problem.starts_with("TMPDIR=") && problem.len() < 300, "{problem}");
            let (used, reason) = launch_tmpdir(bad.as_bytes());
            assert_eq!((used.as_str(), reason.unwrap().to_string()), ("/tmp", problem));
        }
        assert_eq!(launch_tmpdir(b"/scratch/17"), ("/scratch/17".to_owned(), None));
        let (used, reason) = launch_tmpdir(b"/scratch/\xff\x1b");
        let expected = "TMPDIR=/scratch/\u{fffd}\\u{1b}: the path is not UTF-8 text";
        assert_eq!((used.as_str(), reason.unwrap().to_string().as_str()), ("/tmp", expected));
    }
}
