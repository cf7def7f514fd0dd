//! Ranks of several jobs meet: they connect, disconnect, or synchronise. The root manager of each job has one machine.
//!
//! **Purpose.** The members of each job first meet in a fence of their own (`mpd-job`). Then the root
//! managers speak to each other, through their daemons: each finds the other jobs by the marks of their namespaces. The
//! root of the lowest namespace coordinates: the others report the arrival of their members to it, and it tells all of
//! them when every job has arrived. A meeting ends by that, by its timeout, or by the end of one of its jobs.
//!
//! Jobs are linked from their first frame on until one of them ends. A daemon answers each frame, so the end of a job is
//! noticed even when its manager could not report it. The report says how the job has ended, and whether it was
//! connected: a connected job may share its fate.
//!
//! **Users.** The root manager of a job, in `mpd`.
//!
//! **Must not know.** What the members tell each other: descriptions and messages are bytes here. PMIx, the job tree, the
//! ring, descriptors.
#![forbid(unsafe_code)]

mod found;
mod frame;
mod link;
mod meeting;
mod peer;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_sansio::{Machine, Time, UNDRAINED};
use mpd_wire::JobId;
use mpd_wire::message::{MeetingAnswer, MeetingOperation, Payload};

use found::Found;
use frame::Message;
pub use frame::{Cause, Party};
use meeting::Meeting;
use peer::{Peer, Request};

/// Most jobs that one job is linked to.
pub const MAX_JOBS: usize = 256;
/// Most meetings that wait at a time.
pub const MAX_MEETINGS: usize = 1024;
/// Most bytes in the name of a meeting.
const MAX_KEY: usize = 256;

/// When a frame is sent again that was not acknowledged, and a request that failed is repeated.
const AGAIN: Duration = Duration::from_secs(1);
/// The time after which a job that cannot be reached counts as ended.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// All members of this job have arrived.
    Assembled(Assembly),
    /// The daemon's answer to a request.
    Answer(u32, MeetingAnswer),
    /// Bytes of the root manager of that job.
    Passed(JobId, Payload),
    /// Send this to the owner of a connected job.
    Tell(JobId, Vec<u8>),
    /// The daemon has died. No job is lost until there is another one.
    DaemonLost,
    /// There is a new daemon, which has no request of ours.
    DaemonReplaced,
    /// This job ends, and its failure if it has failed. Nothing is sent afterwards.
    End(Option<Cause>),
}

/// The members of this job in one meeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// The name of the meeting, the same in all jobs.
    pub key: String,
    /// The secret parts of the namespaces of all jobs of the meeting, that of this job among them.
    pub secrets: BTreeSet<String>,
    /// The time that the members give.
    pub timeout: Option<Duration>,
    /// Whether all members of this job live.
    pub is_whole: bool,
    /// What the other jobs have to know of this one.
    pub info: Vec<u8>,
    /// What the meeting does to the connections of the jobs.
    pub effect: Effect,
}

/// What a meeting does to the connections of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They are connected afterwards.
    Connect,
    /// They are no longer connected, as far as this connection goes.
    Disconnect,
    /// Nothing.
    None,
}

/// Why a meeting failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No job of this user has one of the namespaces.
    Unknown,
    /// One of the jobs has ended, or cannot be reached.
    Lost,
    /// The time is over.
    Timeout,
    /// A limit is reached.
    Full,
}

/// An action for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A request for the daemon.
    Ask(u32, MeetingOperation),
    /// A meeting is over: the other jobs with their descriptions, or why it failed.
    Met(String, Result<Vec<(JobId, Party)>, Failure>),
    /// Bytes of the owner of a connected job.
    Told(JobId, Vec<u8>),
    /// That job is no longer connected.
    Disconnected(JobId),
    /// That job has ended, or the link to it.
    Gone(JobId, Ended),
}

/// The end of another job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why, if it has failed or has ended without a report.
    pub failure: Option<Cause>,
    /// Whether the jobs were connected, as far as both know. False if only the link has ended.
    pub was_connected: bool,
}

/// The meetings of one job's ranks with those of other jobs.
#[derive(Debug)]
pub struct Meetings {
    /// The secret part of the own namespaces.
    secret: String,
    meetings: BTreeMap<String, Meeting>,
    found: BTreeMap<String, Found>,
    peers: BTreeMap<JobId, Peer>,
    requests: BTreeMap<u32, Request>,
    last_request: u32,
    last_attempt: u32,
    /// Whether there is a daemon.
    has_daemon: bool,
    has_ended: bool,
    outputs: VecDeque<Output>,
}

impl Meetings {
    /// The meetings of the job with this secret in its namespaces.
    pub const fn new(secret: String) -> Self {
        Self {
            secret,
            meetings: BTreeMap::new(),
            found: BTreeMap::new(),
            peers: BTreeMap::new(),
            requests: BTreeMap::new(),
            last_request: 0,
            last_attempt: 0,
            has_daemon: true,
            has_ended: false,
            outputs: VecDeque::new(),
        }
    }

    /// When [`Machine::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.has_ended {
            return None;
        }
        let meetings = self.meetings.values().filter_map(|meeting| meeting.deadline);
        let found = self.found.values().filter_map(|found| match found {
            Found::Again { at, .. } => Some(*at),
            Found::Asked { until } => Some(*until),
            Found::Yes(_) => None,
        });
        let peers = self.peers.iter().filter(|_| self.has_daemon);
        meetings.chain(found).chain(peers.map(|(job, peer)| self.due(job, peer))).min()
    }
}

impl Machine for Meetings {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.has_ended {
            return;
        }
        match input {
            Input::Assembled(assembly) => self.assembled(now, assembly),
            Input::Answer(request, answer) => self.answered(now, request, answer),
            Input::Passed(from, payload) => self.passed(now, &from, &payload),
            Input::Tell(to, bytes) => {
                self.send(now, &to, &Message::Told(Payload::from(bytes.as_slice())));
            }
            Input::DaemonLost => {
                self.has_daemon = false;
                self.requests.clear();
            }
            Input::DaemonReplaced => {
                self.has_daemon = true;
                self.requests.clear();
                for found in self.found.values_mut() {
                    if let Found::Asked { until } = *found {
                        *found = Found::Again { at: now, until };
                    }
                }
                self.peers.values_mut().for_each(|peer| peer.silent_since = None);
            }
            Input::End(failure) => self.end(now, failure.as_ref()),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.has_ended {
            return;
        }
        self.expire_meetings(now);
        self.expire_searches(now);
        if self.has_daemon {
            self.review_peers(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
