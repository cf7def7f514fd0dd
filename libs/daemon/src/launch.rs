//! Announces this daemon's jobs and the growth of jobs to other hosts, and reports the hosts without a manager.
//! Also handles announcements of other daemons.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_jobtable::{Line, ManagerMessage};
use mpd_ring::{Input, MAX_PAYLOAD, RequestId, Ring};
use mpd_sansio::Time;
use mpd_wire::job::ManagerEnd;
use mpd_wire::message::{Launch, ManagerOrder, OrderAnswer, Payload, Phase, RingOrder, Span};
use mpd_wire::{DaemonName, JobId};

use crate::effect::Effect;
use crate::loads::Loads;
use crate::placement;
use crate::request::{Gathered, Numbers, Requester, payload_of, read_payload};
use crate::spawns::{Spawn, manager_messages_of_missing};

/// Most characters of the problem that a host reports.
const MAX_PROBLEM: usize = 256;

/// A job that is to be announced to other hosts.
#[derive(Debug)]
pub(crate) struct Announcement {
    launching: Launching,
    order: Payload,
}

/// One message of the ring cannot hold an announcement.
#[derive(Debug, thiserror::Error)]
#[error(
    "the list of ranks on {hosts} hosts has {bytes} bytes; one message has at most {MAX_PAYLOAD}. Use fewer hosts, or \
     give each host consecutive ranks"
)]
pub(crate) struct TooLarge {
    hosts: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Launching {
    job: JobId,
    /// All members that must start a manager.
    members: Vec<DaemonName>,
    /// Whether the root manager gets the timeline of the announcement.
    trace: bool,
    /// The beginning, by wall clock in microseconds and by our clock.
    began: (u64, Time),
}

/// How long a cancelled job is remembered, and the most such jobs. The order to launch a job may arrive after its
/// cancellation.
const REMEMBERED: Duration = Duration::from_secs(15);
const MAX_REMEMBERED: usize = 256;

/// Announcements under way, cancelled jobs, and requests of managers here about spawned processes.
#[derive(Debug)]
pub(crate) struct Launches {
    numbers: Numbers,
    under_way: BTreeMap<RequestId, Launching>,
    cancelled: VecDeque<(Time, JobId)>,
    spawns: Vec<Spawn>,
    /// The CPUs of this host.
    cpus: u32,
    /// For spawned processes that are placed by load.
    loads: Loads,
}

impl Announcement {
    /// The announcement of a job that has host slices on other hosts. With `trace` its root manager gets the
    /// timeline.
    ///
    /// # Errors
    /// [`TooLarge`]
    pub(crate) fn new(launch: &Launch, trace: bool) -> Result<Option<Self>, TooLarge> {
        let members: Vec<DaemonName> =
            launch.newcomers().map(|(_, host_slice)| host_slice.member.clone()).collect();
        if members.is_empty() {
            return Ok(None);
        }
        let order = payload_of(&RingOrder::Launch(launch.clone()));
        let bytes = order.as_bytes().len();
        if bytes > MAX_PAYLOAD {
            return Err(TooLarge { hosts: launch.host_slices.len(), bytes });
        }
        let (job, began) = (launch.job.clone(), (0, Time::ZERO));
        Ok(Some(Self { launching: Launching { job, members, trace, began }, order }))
    }
}

impl Launches {
    pub(crate) fn new(cpus: u32) -> Self {
        Self {
            numbers: Numbers::new(Requester::Launches),
            cpus,
            under_way: BTreeMap::new(),
            cancelled: VecDeque::new(),
            spawns: Vec::new(),
            loads: Loads::default(),
        }
    }

    /// Announces a job whose root manager runs here to its other hosts.
    pub(crate) fn announce(
        &mut self,
        now: Time,
        wall_us: u64,
        announcement: Announcement,
    ) -> Effect {
        let request = self.numbers.next();
        let launching = Launching { began: (wall_us, now), ..announcement.launching };
        self.under_way.insert(request, launching);
        Effect::Post(Input::Scatter(request, announcement.order))
    }

    /// Handles the complete answers to an announcement.
    pub(crate) fn announced(&mut self, now: Time, gathered: &Gathered) -> Vec<Effect> {
        if self.loads.gathered(now, gathered) {
            return Vec::new();
        }
        let Some(Launching { job, members, trace, began }) =
            self.under_way.remove(&gathered.request)
        else {
            // A cancellation needs no answers.
            return Vec::new();
        };
        let mut effects = Vec::new();
        if trace {
            let took_us = u64::try_from(now.since(began.1).as_micros()).unwrap_or(u64::MAX);
            let scatter = Span { phase: Phase::Scatter, rank: None, began_us: began.0, took_us };
            let order = ManagerOrder::Launched { scatter, depth: gathered.depth };
            effects.push(Effect::Report(ManagerMessage::new(job.clone(), order)));
        }
        let answers: BTreeMap<&DaemonName, &Payload> =
            gathered.answers.iter().map(|answer| (&answer.name, &answer.answer)).collect();
        let missing = members.into_iter().filter_map(|member| {
            let problem = why_missing(answers.get(&member).copied())?;
            Some((member, problem))
        });
        effects.extend(report_missing(&job, &missing.collect::<Vec<_>>()));
        effects
    }

    /// Reports that an announcement was not sent, for this reason.
    pub(crate) fn unannounced(
        &mut self,
        now: Time,
        request: RequestId,
        problem: &str,
    ) -> Vec<Effect> {
        if self.loads.failed(now, request) {
            return Vec::new();
        }
        let Some(Launching { job, members, .. }) = self.under_way.remove(&request) else {
            return Vec::new();
        };
        let missing = members.into_iter().map(|member| (member, problem.to_owned()));
        report_missing(&job, &missing.collect::<Vec<_>>()).collect()
    }

    /// Cancels a job on all hosts that ended here before all its managers had connected.
    pub(crate) fn cancel(&mut self, job: JobId) -> Effect {
        let request = self.numbers.next();
        Effect::Post(Input::Scatter(request, payload_of(&RingOrder::Cancel { job })))
    }

    /// Sends to the daemon of a job's root manager how the manager here ended. No answer is needed.
    pub(crate) fn manager_ended(&mut self, job: JobId, end: ManagerEnd) -> Option<Effect> {
        let root = DaemonName::new(job.daemon()).ok()?;
        let order = payload_of(&RingOrder::ManagerEnded { job, end });
        Some(Effect::Post(Input::Send(self.numbers.next(), root, order)))
    }

    /// Notes that a job is over. Its manager may run here, or its launch may still arrive.
    pub(crate) fn cancelled(&mut self, now: Time, job: JobId) {
        self.cancelled.retain(|(until, _)| *until > now);
        self.cancelled.truncate(MAX_REMEMBERED - 1);
        self.cancelled.push_front((now + REMEMBERED, job));
    }

    /// Whether a job is noted as over.
    pub(crate) fn is_cancelled(&self, job: &JobId) -> bool {
        self.cancelled.iter().any(|(_, cancelled)| cancelled == job)
    }

    /// The tree index of `me` in another daemon's job, unless that job was cancelled.
    pub(crate) fn own_tree_index(&self, launch: &Launch, me: &DaemonName) -> Option<usize> {
        if self.is_cancelled(&launch.job) {
            return None;
        }
        let mut newcomers = launch.newcomers();
        newcomers.find(|(_, host_slice)| host_slice.member == *me).map(|(tree_index, _)| tree_index)
    }

    /// Queues a request of a root manager here about spawned processes, for [`Launches::serve_spawns`].
    pub(crate) fn spawn(&mut self, spawn: Spawn) {
        self.spawns.push(spawn);
    }

    /// Serves the queued requests about spawned processes. They wait for the loads of the hosts if one of them needs these.
    pub(crate) fn serve_spawns(&mut self, at: (Time, u64), ring: &Ring) -> Vec<Effect> {
        if self.spawns.iter().any(Spawn::is_by_load) && !self.loads.are_fresh(at.0) {
            return self.loads.ask(&mut self.numbers).into_iter().collect();
        }
        let mut effects = Vec::new();
        for spawn in std::mem::take(&mut self.spawns) {
            match spawn {
                Spawn::Place { job, request, placement, first } => {
                    let load_of = |member: &DaemonName| self.loads.of(member);
                    let members = (ring, self.cpus);
                    let outcome = placement::spawned_among(members, &placement, first, load_of);
                    let order = ManagerOrder::Placed { request, outcome };
                    effects.push(Effect::Report(ManagerMessage::new(job, order)));
                }
                // Only the announcement of the whole job has a timeline.
                Spawn::Grow(mut launch) => {
                    let known = |member: &DaemonName| Some(ring.record(member)?.addresses.clone());
                    launch.host_slices.address(known);
                    effects.extend(self.announce_growth(at, &launch));
                }
            }
        }
        effects
    }

    fn announce_growth(&mut self, at: (Time, u64), launch: &Launch) -> Vec<Effect> {
        match Announcement::new(launch, false) {
            Ok(Some(announcement)) => vec![self.announce(at.0, at.1, announcement)],
            Ok(None) => Vec::new(),
            Err(e) => {
                let problem = e.to_string();
                let members = launch.newcomers().map(|(_, host_slice)| host_slice.member.clone());
                let missing: Vec<_> = members.map(|member| (member, problem.clone())).collect();
                report_missing(&launch.job, &missing).collect()
            }
        }
    }
}

/// Reports hosts without a manager to the log and to the root manager.
fn report_missing(job: &JobId, members: &[(DaemonName, String)]) -> impl Iterator<Item = Effect> {
    let line = |(member, problem): &(DaemonName, String)| {
        Effect::Log(Line::warn(format!("job {job}: {member}: {problem}")))
    };
    let lines: Vec<Effect> = members.iter().map(line).collect();
    lines.into_iter().chain(manager_messages_of_missing(job, members).map(Effect::Report))
}

/// A problem of a host, cut to the room of a message.
pub(crate) fn shortened(problem: &str) -> String {
    problem.chars().take(MAX_PROBLEM).collect()
}

/// Why a member with this answer has no manager; `None` if it has one.
fn why_missing(answer: Option<&Payload>) -> Option<String> {
    match answer.map(read_payload) {
        Some(Ok(OrderAnswer::Done)) => None,
        Some(Ok(OrderAnswer::Failed { problem })) => Some(shortened(&problem)),
        Some(_) => Some(
            "the daemon there does not know the order; it may be of another release".to_owned(),
        ),
        None => Some("the daemon there did not answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_started_no_manager_is_named_with_the_reason() {
        let why = |answer: OrderAnswer| why_missing(Some(&payload_of(&answer)));
        let failed = OrderAnswer::Failed { problem: "no more processes".to_owned() };
        assert_eq!(why(OrderAnswer::Done), None);
        assert_eq!(why(failed).as_deref(), Some("no more processes"));
        assert!(why(OrderAnswer::Unknown).unwrap().contains("release"));
        assert!(why_missing(None).unwrap().contains("did not answer"));
    }
}
