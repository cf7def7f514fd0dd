//! A job of this daemon on its way to the other hosts: where its ranks go, who is told, and who could
//! not be told. Jobs of other daemons as they come here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::{Result, bail};
use mpd_io::clock::wall;
use mpd_machine::Time;
use mpd_ring::{Input, MAX_PAYLOAD, RequestId};
use mpd_wire::job::JobSpec;
use mpd_wire::message::{Answer, Launch, ManagerOrder, Order, OrderAnswer, Payload, Phase, Span};
use mpd_wire::{DaemonName, JobId, frame};

use crate::daemon::membership::orders::payload_of;
use crate::daemon::membership::{Errand, Hands, Membership};
use crate::daemon::placement::{self, Plan};

/// Most characters of what a host says that went wrong.
const MAX_PROBLEM: usize = 256;

/// Hosts in one order to a manager: so many problems fit a frame.
const MISSING_PER_ORDER: usize = 256;

/// A job that other hosts are to be told of.
#[derive(Debug)]
pub(crate) struct Announcement {
    launching: Launching,
    order: Payload,
}

#[derive(Debug)]
struct Launching {
    job: JobId,
    /// All that are to start a manager.
    members: Vec<DaemonName>,
    /// Whether the root manager wants to know how it went.
    trace: bool,
    /// When it began, by the clock on the wall and by ours.
    began: (u64, Time),
}

/// How long a job that was cancelled is remembered, and how many are: an order to launch it may have
/// taken a longer way.
const REMEMBERED: Duration = Duration::from_secs(15);
const MAX_REMEMBERED: usize = 256;

/// Announcements under way, and jobs that need not be launched any more.
#[derive(Debug, Default)]
pub(super) struct Launches {
    under_way: BTreeMap<RequestId, Launching>,
    cancelled: VecDeque<(Time, JobId)>,
}

impl Announcement {
    /// For a job that has shares elsewhere; with `trace` its root manager is told how it went.
    ///
    /// # Errors
    /// The ring cannot carry so much in one message.
    pub(crate) fn new(launch: &Launch, trace: bool) -> Result<Option<Self>> {
        let members: Vec<DaemonName> =
            launch.newcomers().map(|(_, share)| share.member.clone()).collect();
        if members.is_empty() {
            return Ok(None);
        }
        let order = payload_of(&Order::Launch(launch.clone()));
        let bytes = order.as_bytes().len();
        if bytes > MAX_PAYLOAD {
            bail!(
                "who runs what on {} hosts takes {bytes} bytes, and one message of the ring holds \
                 {MAX_PAYLOAD}; use fewer hosts, or give each one consecutive ranks",
                launch.shares.len()
            );
        }
        let (job, began) = (launch.job.clone(), (0, Time::ZERO));
        Ok(Some(Self { launching: Launching { job, members, trace, began }, order }))
    }
}

impl Membership {
    /// Where the ranks of a job submitted here run.
    pub(crate) fn place(&self, spec: &JobSpec) -> Result<Plan> {
        if spec.adopted {
            return placement::adopted(
                self.pump.machine().name().as_str(),
                Some(self.pump.machine()),
            );
        }
        placement::among(self.pump.machine(), spec)
    }

    /// Tells the other hosts of a job whose root manager runs here.
    pub(crate) fn announce(&mut self, hands: &mut Hands<'_>, announcement: Announcement) {
        let request = self.asks.next_id();
        let began = (wall(), hands.now);
        let launching = Launching { began, ..announcement.launching };
        self.launches.under_way.insert(request, launching);
        self.post(Input::Scatter(request, announcement.order));
    }

    /// If `request` was an announcement: all have answered who will.
    pub(super) fn announced(
        &mut self,
        now: Time,
        request: RequestId,
        answers: &[Answer],
        depth: u32,
    ) -> bool {
        let Some(Launching { job, members, trace, began }) =
            self.launches.under_way.remove(&request)
        else {
            return false;
        };
        if trace {
            let took_us = u64::try_from(now.since(began.1).as_micros()).unwrap_or(u64::MAX);
            let scatter = Span { phase: Phase::Scatter, rank: None, began_us: began.0, took_us };
            let order = ManagerOrder::Launched { scatter, depth };
            self.errands.push_back(Errand { job: job.clone(), order, link: None });
        }
        self.report_missing(job, members.into_iter().filter_map(|m| why_missing(m, answers)));
        true
    }

    /// If `request` was an announcement: nobody was told, for this reason.
    pub(super) fn unannounced(&mut self, request: RequestId, problem: &str) -> bool {
        let Some(Launching { job, members, .. }) = self.launches.under_way.remove(&request) else {
            return false;
        };
        self.report_missing(job, members.into_iter().map(|m| (m, problem.to_owned())));
        true
    }

    pub(super) fn report_missing(
        &mut self,
        job: JobId,
        missing: impl Iterator<Item = (DaemonName, String)>,
    ) {
        let members: Vec<(DaemonName, String)> = missing.collect();
        for (member, problem) in &members {
            log::warn!("job {job}: {member}: {problem}");
        }
        self.errands.extend(errands_of_missing(&job, &members));
    }

    /// Tells the ring of jobs that ended here before all their managers had connected.
    pub(super) fn cancel_unlinked(&mut self, hands: &mut Hands<'_>) {
        for job in hands.jobs.take_unlinked() {
            // Nobody waits for the answers.
            let request = self.asks.next_id();
            self.post(Input::Scatter(request, payload_of(&Order::Cancel { job })));
        }
    }

    /// A job is over of which a manager may have been started here, or may yet be.
    pub(super) fn obey_cancel(&mut self, hands: &Hands<'_>, job: JobId) -> OrderAnswer {
        let cancelled = &mut self.launches.cancelled;
        cancelled.retain(|(until, _)| *until > hands.now);
        cancelled.truncate(MAX_REMEMBERED - 1);
        cancelled.push_front((hands.now + REMEMBERED, job.clone()));
        if hands.jobs.has_branch(&job) {
            self.errands.push_back(Errand { job, order: ManagerOrder::Kill, link: None });
        }
        OrderAnswer::Done
    }

    /// Starts the manager of our share in another daemon's job, if we have one.
    pub(super) fn obey_launch(&self, hands: &mut Hands<'_>, launch: &Launch) -> OrderAnswer {
        if self.launches.cancelled.iter().any(|(_, job)| *job == launch.job) {
            return OrderAnswer::Done;
        }
        let mut newcomers = launch.newcomers();
        let Some((place, _)) =
            newcomers.find(|(_, share)| share.member == *self.pump.machine().name())
        else {
            return OrderAnswer::Done;
        };
        match hands.jobs.start_branch(launch, place) {
            Ok(()) => OrderAnswer::Done,
            Err(e) => {
                log::error!("job {}: {e:#}", launch.job);
                let problem = format!("{e:#}").chars().take(MAX_PROBLEM).collect();
                OrderAnswer::Failed { problem }
            }
        }
    }
}

/// What the root manager of `job` is told of hosts where no manager could be started.
pub(crate) fn errands_of_missing(
    job: &JobId,
    members: &[(DaemonName, String)],
) -> impl Iterator<Item = Errand> {
    members.chunks(MISSING_PER_ORDER).map(|some| {
        let order = ManagerOrder::Missing { members: some.to_vec() };
        Errand { job: job.clone(), order, link: None }
    })
}

/// Why no manager runs at `member`, if that is so.
fn why_missing(member: DaemonName, answers: &[Answer]) -> Option<(DaemonName, String)> {
    let answer = answers.iter().find(|answer| answer.name == member);
    let problem = match answer.map(|answer| frame::decode_message(answer.answer.as_bytes())) {
        Some(Ok(OrderAnswer::Done)) => return None,
        Some(Ok(OrderAnswer::Failed { problem })) => problem.chars().take(MAX_PROBLEM).collect(),
        Some(_) => "the daemon there does not understand: is it of another release?".to_owned(),
        None => "the daemon there did not answer".to_owned(),
    };
    Some((member, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DaemonName {
        DaemonName::new(text).unwrap()
    }

    #[test]
    fn whoever_started_no_manager_is_named_with_the_reason() {
        let answer = |of, answer| Answer { name: name(of), answer: payload_of(&answer) };
        let failed = OrderAnswer::Failed { problem: "no more processes".to_owned() };
        let answers = [
            answer("h2", OrderAnswer::Done),
            answer("h3", failed),
            answer("h4", OrderAnswer::Unknown),
        ];
        let why = |member| why_missing(name(member), &answers).map(|(_, problem)| problem);
        assert_eq!(why("h2"), None);
        assert_eq!(why("h3").as_deref(), Some("no more processes"));
        assert!(why("h4").unwrap().contains("release"));
        assert!(why("h5").unwrap().contains("did not answer"));
    }
}
