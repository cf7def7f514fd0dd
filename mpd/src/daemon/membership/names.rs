//! Names that jobs of this host publish in the ring, and look up.

use std::collections::{BTreeMap, BTreeSet};

use mpd_machine::Time;
use mpd_ring::{Input, Publication, RequestId, Ring};
use mpd_wire::JobId;
use mpd_wire::message::{NameAnswer, NameOperation};
use mpd_wire::names::Claim;

use crate::daemon::membership::effect::Effect;
use crate::daemon::membership::request::{Numbers, Requester};
use crate::daemon::names::{NameRequest, Refusals, lock};

/// Requests under way, and jobs whose names are removed at their end.
#[derive(Debug)]
pub(super) struct Naming {
    numbers: Numbers,
    /// Requests that are not served yet.
    waiting: Vec<NameRequest>,
    /// Requests that wait for an answer of the ring.
    requests: BTreeMap<RequestId, NameRequest>,
    publishers: BTreeSet<JobId>,
    refusals: Refusals,
}

impl Naming {
    pub(super) fn new() -> Self {
        Self {
            numbers: Numbers::new(Requester::Names),
            waiting: Vec::new(),
            requests: BTreeMap::new(),
            publishers: BTreeSet::new(),
            refusals: Refusals::default(),
        }
    }

    /// Queues a request of a manager here, for [`Naming::serve`].
    pub(super) fn request(&mut self, request: NameRequest) {
        self.waiting.push(request);
    }

    /// Serves the queued requests. `entered`: whether this daemon is in the ring. `is_running`: whether a job is
    /// not over here.
    pub(super) fn serve(
        &mut self,
        now: Time,
        ring: &Ring,
        entered: bool,
        is_running: impl Fn(&JobId) -> bool,
    ) -> Vec<Effect> {
        let waiting = std::mem::take(&mut self.waiting);
        let serve = |request| self.serve_one(now, ring, entered, request);
        let mut effects: Vec<Effect> = waiting.into_iter().map(serve).collect();
        effects.extend(self.forget_publishers(is_running));
        effects
    }

    fn serve_one(&mut self, now: Time, ring: &Ring, entered: bool, request: NameRequest) -> Effect {
        match &request.operation {
            NameOperation::Lookup { name, key } => {
                let claim = ring.lookup(name).map(|(_, claim)| claim);
                let answer = match claim {
                    Some(claim)
                        if self.refusals.refuses(now, claim, (&request.job, key.as_ref())) =>
                    {
                        NameAnswer::Unknown
                    }
                    Some(claim) => NameAnswer::Value(claim.value.clone()),
                    None if entered => NameAnswer::Unknown,
                    None => NameAnswer::Later("the daemon is not in its ring yet".to_owned()),
                };
                Effect::Report(request.answered(answer))
            }
            NameOperation::Publish { name, value, key } => match lock(key.as_ref()) {
                Ok(lock) => {
                    let (name, value, job) = (name.clone(), value.clone(), request.job.clone());
                    self.publishers.insert(job.clone());
                    let claim = Claim { name, value, job, lock };
                    self.ask(request, |request| Input::Publish { request, claim })
                }
                Err(problem) => Effect::Report(request.answered(NameAnswer::Failed(problem))),
            },
            NameOperation::Unpublish { name, key } => {
                let (name, job, key) = (name.clone(), request.job.clone(), key.clone());
                if let Some((_, claim)) = ring.lookup(&name).filter(|(_, c)| c.job == job) {
                    // Only for the log: the ring itself checks the key.
                    self.refusals.refuses(now, claim, (&job, key.as_ref()));
                }
                self.ask(request, |request| Input::Unpublish { request, name, job, key })
            }
        }
    }

    fn ask(&mut self, request: NameRequest, input: impl FnOnce(RequestId) -> Input) -> Effect {
        let id = self.numbers.next();
        self.requests.insert(id, request);
        Effect::Post(input(id))
    }

    /// Removes the published names of jobs that are over, however they ended.
    fn forget_publishers(&mut self, is_running: impl Fn(&JobId) -> bool) -> Vec<Effect> {
        let gone = self.publishers.extract_if(.., |job| !is_running(job));
        gone.map(|job| Effect::Post(Input::JobOver(job))).collect()
    }

    pub(super) fn published(&mut self, request: RequestId, result: Publication) -> Option<Effect> {
        let later = result.may_be_done_later();
        let failed = if later { NameAnswer::Later } else { NameAnswer::Failed };
        let answer = match result {
            Publication::Done => NameAnswer::Done,
            Publication::Taken => NameAnswer::Taken,
            Publication::Incomplete { missing } => {
                let names: Vec<&str> = missing.iter().map(|name| name.as_str()).collect();
                failed(format!("no answer of {}", names.join(", ")))
            }
            Publication::Refused(problem) => failed(problem.to_owned()),
        };
        self.answer(request, answer)
    }

    pub(super) fn unpublished(&mut self, request: RequestId, found: bool) -> Option<Effect> {
        self.answer(request, if found { NameAnswer::Done } else { NameAnswer::Unknown })
    }

    fn answer(&mut self, request: RequestId, answer: NameAnswer) -> Option<Effect> {
        let request = self.requests.remove(&request)?;
        Some(Effect::Report(request.answered(answer)))
    }
}
