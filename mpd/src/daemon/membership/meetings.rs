//! Jobs of one user that speak to each other: their root managers find each other and pass bytes through the daemons.
//!
//! Both daemons check the user. A daemon keeps no state of a conversation, so a new daemon continues it.

use std::collections::{BTreeMap, VecDeque};

use mpd_ring::{Input, RequestId, Ring};
use mpd_wire::message::{
    Answer, MAX_PASSED, ManagerOrder, MeetingAnswer, MeetingOperation, OrderAnswer, Payload,
    RingOrder,
};
use mpd_wire::{DaemonName, JobId, frame};
use nix::unistd::geteuid;

use crate::daemon::jobs::Jobs;
use crate::daemon::manager_message::ManagerMessage;
use crate::daemon::meetings::MeetingRequest;
use crate::daemon::membership::effect::Effect;
use crate::daemon::membership::request::{Gathered, Numbers, Requester, payload_of};

/// Most requests under way, so that consoles and names have room in the ring.
const MAX_UNDER_WAY: usize = 24;
/// Most requests that wait.
const MAX_WAITING: usize = 1024;

/// The requests of root managers here.
#[derive(Debug)]
pub(super) struct Meetings {
    numbers: Numbers,
    waiting: VecDeque<MeetingRequest>,
    under_way: BTreeMap<RequestId, MeetingRequest>,
}

impl Meetings {
    pub(super) const fn new() -> Self {
        Self {
            numbers: Numbers::new(Requester::Meetings),
            waiting: VecDeque::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// Queues a request, for [`Meetings::serve`].
    pub(super) fn request(&mut self, request: MeetingRequest) -> Option<Effect> {
        if self.waiting.len() >= MAX_WAITING {
            let answer = later("too many requests about other jobs are under way here");
            return Some(Effect::Report(request.answered(answer)));
        }
        self.waiting.push_back(request);
        None
    }

    /// Serves queued requests, if this daemon has `entered` the ring.
    pub(super) fn serve(&mut self, ring: &Ring, entered: bool) -> Vec<Effect> {
        let mut effects = Vec::new();
        while self.under_way.len() < MAX_UNDER_WAY
            && let Some(request) = self.waiting.pop_front()
        {
            effects.push(if entered {
                self.begin(ring.name(), request)
            } else {
                Effect::Report(request.answered(later("the daemon is not in its ring yet")))
            });
        }
        effects
    }

    fn begin(&mut self, me: &DaemonName, request: MeetingRequest) -> Effect {
        let uid = geteuid().as_raw();
        let input: Box<dyn FnOnce(RequestId) -> Input> = match &request.operation {
            MeetingOperation::Find { mark } => {
                let order = payload_of(&RingOrder::FindJob { mark: mark.clone(), uid });
                Box::new(|id| Input::Scatter(id, order))
            }
            MeetingOperation::Pass { to, payload } => {
                let is_ours = request.job.daemon() == me.as_str();
                let member = DaemonName::new(to.daemon()).ok().filter(|_| is_ours);
                let (Some(member), true) = (member, fits(payload)) else {
                    return Effect::Report(request.answered(MeetingAnswer::Gone));
                };
                let (from, to, payload) = (request.job.clone(), to.clone(), payload.clone());
                let order = payload_of(&RingOrder::PassToJob { from, to, uid, payload });
                Box::new(|id| Input::Send(id, member, order))
            }
        };
        let id = self.numbers.next();
        self.under_way.insert(id, request);
        Effect::Post(input(id))
    }

    /// Handles the answers to a request.
    pub(super) fn gathered(&mut self, gathered: &Gathered) -> Option<Effect> {
        let request = self.under_way.remove(&gathered.request)?;
        let answer = match request.operation {
            MeetingOperation::Find { .. } => found(gathered),
            MeetingOperation::Pass { .. } => passed(gathered),
        };
        Some(Effect::Report(request.answered(answer)))
    }

    /// The ring refuses a request.
    pub(super) fn refused(&mut self, request: RequestId, problem: &str) -> Option<Effect> {
        let request = self.under_way.remove(&request)?;
        Some(Effect::Report(request.answered(later(problem))))
    }
}

fn later(problem: &str) -> MeetingAnswer {
    MeetingAnswer::Later(problem.to_owned())
}

fn fits(payload: &Payload) -> bool {
    payload.as_bytes().len() <= MAX_PASSED
}

fn decoded(answer: &Answer) -> Option<OrderAnswer> {
    frame::decode_message(answer.answer.as_bytes()).ok()
}

fn found(gathered: &Gathered) -> MeetingAnswer {
    let found = gathered.answers.iter().find_map(|answer| match decoded(answer)? {
        OrderAnswer::Found { job } if job.daemon() == answer.name.as_str() => Some(job),
        _ => None,
    });
    match found {
        Some(job) => MeetingAnswer::Found(job),
        None if gathered.missing.is_empty() => MeetingAnswer::Gone,
        None => later("not every daemon has answered"),
    }
}

fn passed(gathered: &Gathered) -> MeetingAnswer {
    match gathered.answers.first().and_then(decoded) {
        Some(OrderAnswer::Done) => MeetingAnswer::Passed,
        Some(OrderAnswer::NoSuchJob) => MeetingAnswer::Gone,
        Some(OrderAnswer::Failed { problem }) => MeetingAnswer::Later(problem),
        Some(_) => later("the daemon of the other job does not know the order"),
        None => later("the daemon of the other job does not answer"),
    }
}

/// Carries out an order of another daemon about a job here. Returns the answer, and a message for the root manager.
///
/// # Errors
/// Why the order is refused, for the log.
pub(super) fn carry_out(
    jobs: &Jobs,
    origin: &DaemonName,
    order: RingOrder,
) -> Result<(OrderAnswer, Option<ManagerMessage>), String> {
    let is_of_user = |uid: u32| match uid == geteuid().as_raw() {
        true => Ok(()),
        false => Err(format!("{origin} asks for jobs of user {uid}")),
    };
    match order {
        RingOrder::FindJob { mark, uid } => {
            is_of_user(uid)?;
            let job = jobs.find_by_mark(&mark);
            Ok((job.map_or(OrderAnswer::NoSuchJob, |job| OrderAnswer::Found { job }), None))
        }
        RingOrder::PassToJob { from, to, uid, payload } => {
            is_of_user(uid)?;
            if from.daemon() != origin.as_str() || !fits(&payload) {
                return Err(format!("{origin} passes bytes in the name of job {from}"));
            }
            Ok(pass(jobs, from, to, payload))
        }
        _ => Ok((OrderAnswer::Unknown, None)),
    }
}

fn pass(
    jobs: &Jobs,
    from: JobId,
    to: JobId,
    payload: Payload,
) -> (OrderAnswer, Option<ManagerMessage>) {
    match jobs.root(&to) {
        Some(true) => {
            let order = ManagerOrder::Passed { from, payload };
            (OrderAnswer::Done, Some(ManagerMessage::new(to, order)))
        }
        Some(false) => {
            let problem = format!("job {to}: its manager is not connected to a daemon now");
            (OrderAnswer::Failed { problem }, None)
        }
        None => (OrderAnswer::NoSuchJob, None),
    }
}

#[cfg(test)]
mod tests {
    use mpd_machine::Time;

    use super::*;
    use crate::daemon::jobs::Waiting;

    fn name(text: &str) -> DaemonName {
        DaemonName::new(text).unwrap()
    }

    fn gathered(answers: &[(&str, OrderAnswer)], missing: &[&str]) -> Gathered {
        let answer = |(of, answer): &(&str, OrderAnswer)| Answer {
            name: name(of),
            answer: payload_of(answer),
        };
        Gathered {
            request: RequestId(1),
            answers: answers.iter().map(answer).collect(),
            missing: missing.iter().map(|of| name(of)).collect(),
            depth: 1,
        }
    }

    #[test]
    fn a_job_is_found_by_the_answer_of_its_own_daemon_only() {
        let job: JobId = "7@h2".parse().unwrap();
        let yes = |of| (of, OrderAnswer::Found { job: job.clone() });
        let no = |of| (of, OrderAnswer::NoSuchJob);
        assert_eq!(
            found(&gathered(&[no("h1"), yes("h2")], &["h3"])),
            MeetingAnswer::Found(job.clone())
        );
        assert_eq!(found(&gathered(&[yes("h1"), no("h2")], &[])), MeetingAnswer::Gone);
        assert!(matches!(found(&gathered(&[no("h1")], &["h2"])), MeetingAnswer::Later(_)));
    }

    #[test]
    fn bytes_are_passed_or_the_job_is_gone_or_its_daemon_is_silent() {
        assert_eq!(passed(&gathered(&[("h2", OrderAnswer::Done)], &[])), MeetingAnswer::Passed);
        assert_eq!(passed(&gathered(&[("h2", OrderAnswer::NoSuchJob)], &[])), MeetingAnswer::Gone);
        assert!(matches!(passed(&gathered(&[], &["h2"])), MeetingAnswer::Later(_)));
        assert!(matches!(passed(&gathered(&[], &[])), MeetingAnswer::Later(_)));
    }

    #[test]
    fn orders_of_another_user_or_in_the_name_of_a_foreign_job_are_refused() {
        let jobs = Jobs::new(
            ("h1", mpd_wire::Instance::from_bytes([1; 16])),
            "h1",
            None,
            Waiting::new(0, Time::default()),
        );
        let (me, uid) = (name("h2"), geteuid().as_raw());
        let pass = |from: &str, uid| RingOrder::PassToJob {
            from: from.parse().unwrap(),
            to: "1@h1".parse().unwrap(),
            uid,
            payload: Payload::from(&b"x"[..]),
        };
        let find = |uid| RingOrder::FindJob { mark: "1f".into(), uid };
        let nothing =
            |order| matches!(carry_out(&jobs, &me, order), Ok((OrderAnswer::NoSuchJob, None)));
        assert!(nothing(find(uid)) && nothing(pass("3@h2", uid)));
        for refused in [find(uid + 1), pass("3@h2", uid + 1), pass("3@h3", uid)] {
            assert!(carry_out(&jobs, &me, refused).is_err());
        }
        let large = RingOrder::PassToJob {
            from: "3@h2".parse().unwrap(),
            to: "1@h1".parse().unwrap(),
            uid,
            payload: Payload::from(&vec![0; MAX_PASSED + 1][..]),
        };
        assert!(carry_out(&jobs, &me, large).is_err());
    }
}
