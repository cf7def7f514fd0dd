//! Names that jobs of this host publish in the ring, and look up.

use std::collections::{BTreeMap, BTreeSet};

use mpd_jobtable::{Line, ManagerMessage};
use mpd_ring::{Input, Publication, RequestId, Ring, UNPUBLISHED};
use mpd_sansio::Time;
use mpd_wire::JobId;
use mpd_wire::message::{ManagerOrder, NameAnswer, NameOperation, RingOrder};
use mpd_wire::names::{Claim, Hold, NameKey, Refusal};

use mpd_events::RefusedNames;

use crate::effect::Effect;
use crate::local_names::{NameRequest, Refusals};
use crate::request::{Numbers, Requester, payload_of};

/// Requests under way, and jobs whose names are removed at their end.
#[derive(Debug)]
pub(crate) struct Naming {
    numbers: Numbers,
    /// Requests that are not served yet.
    waiting: Vec<NameRequest>,
    /// Requests that wait for an answer of the ring.
    requests: BTreeMap<RequestId, NameRequest>,
    /// Names of other members that were asked to take them back. The record of their end has not come.
    leaving: BTreeMap<RequestId, (NameRequest, Claim)>,
    publishers: BTreeSet<JobId>,
    refusals: Refusals,
    /// Refusals of which the publishers are not informed yet.
    refused: RefusedNames,
    /// Lines of the log about refusals.
    lines: Vec<Line>,
}

impl Naming {
    pub(crate) fn new() -> Self {
        Self {
            numbers: Numbers::new(Requester::Names),
            waiting: Vec::new(),
            requests: BTreeMap::new(),
            leaving: BTreeMap::new(),
            publishers: BTreeSet::new(),
            refusals: Refusals::default(),
            refused: RefusedNames::default(),
            lines: Vec::new(),
        }
    }

    /// Queues a request of a manager here, for [`Naming::serve`].
    pub(crate) fn request(&mut self, request: NameRequest) {
        self.waiting.push(request);
    }

    /// Serves the queued requests. `entered`: whether this daemon is in the ring. `is_running`: whether a job is
    /// not over here.
    pub(crate) fn serve(
        &mut self,
        now: Time,
        ring: &Ring,
        entered: bool,
        is_running: impl Fn(&JobId) -> bool,
    ) -> Vec<Effect> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut effects = Vec::new();
        for request in waiting {
            effects.extend(loss_of(ring, &request));
            effects.push(self.serve_one(now, ring, entered, request));
        }
        effects.extend(self.review_leaving(ring));
        // Their managers wait for no answer.
        self.leaving.retain(|_, (request, _)| is_running(&request.job));
        effects.extend(self.forget_publishers(is_running));
        effects.extend(self.inform_publishers(now, ring));
        effects.extend(self.lines.drain(..).map(Effect::Log));
        effects
    }

    /// When [`Naming::serve`] is due without a request.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.refused.next_deadline()
    }

    /// Whether a request for this claim is refused, since its key is missing or wrong. Its publisher will be informed.
    fn refuses(&mut self, now: Time, claim: &Claim, job: &JobId, key: Option<&NameKey>) -> bool {
        let Some((refusal, lines)) = self.refusals.refusal(now, claim, job, key) else {
            return false;
        };
        self.lines.extend(lines);
        self.refused.note(now, refusal);
        true
    }

    /// The messages about refused requests that are due, each to the member that has published the name.
    fn inform_publishers(&mut self, now: Time, ring: &Ring) -> Vec<Effect> {
        let mut inform = |refusal: Refusal| {
            let (owner, _) = ring.lookup(&refusal.name)?;
            if owner == ring.name() {
                return inform(ring, refusal);
            }
            let order = payload_of(&RingOrder::NameRefused(refusal));
            Some(Effect::Post(Input::Send(self.numbers.next(), owner.clone(), order)))
        };
        self.refused.due(now).into_iter().filter_map(&mut inform).collect()
    }

    fn serve_one(
        &mut self,
        now: Time,
        ring: &Ring,
        entered: bool,
        mut request: NameRequest,
    ) -> Effect {
        let lock = request.take_lock();
        match &request.operation {
            NameOperation::Lookup { name, key } => {
                let claim = ring.lookup(name).map(|(_, claim)| claim);
                let answer = match claim {
                    Some(claim) if self.refuses(now, claim, &request.job, key.as_ref()) => {
                        NameAnswer::Unknown
                    }
                    Some(claim) => NameAnswer::Value(claim.value.clone()),
                    None if entered => NameAnswer::Unknown,
                    None => NameAnswer::Later("the daemon is not in its ring yet".to_owned()),
                };
                Effect::Report(request.answered(answer))
            }
            NameOperation::Publish { name, value, key: _, hold } => match lock {
                Ok(lock) => {
                    let (name, value, job) = (name.clone(), value.clone(), request.job.clone());
                    self.publishers.insert(job.clone());
                    let claim = Claim { name, value, job, lock, hold: *hold };
                    self.ask(request, |request| Input::Publish { request, claim })
                }
                Err(problem) => Effect::Report(request.answered(NameAnswer::Failed(problem))),
            },
            NameOperation::Unpublish { name, key } => {
                let (name, job, key) = (name.clone(), request.job.clone(), key.clone());
                if let Some(claim) = elsewhere(ring, &name, &job, key.as_ref()) {
                    return self.ask_owner(request, claim);
                }
                if let Some((_, claim)) = ring.lookup(&name).filter(|(_, c)| c.job == job) {
                    // Only for the log and the publisher: the ring itself checks the key.
                    self.refuses(now, claim, &job, key.as_ref());
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

    /// Has the member that published this name take it back.
    fn ask_owner(&mut self, request: NameRequest, claim: Claim) -> Effect {
        let Claim { name, value, job, .. } = claim.clone();
        let id = self.numbers.next();
        self.leaving.insert(id, (request, claim));
        Effect::Post(Input::Scatter(id, payload_of(&RingOrder::TakeBack { name, job, value })))
    }

    /// A job of another member takes back a name that was published here.
    pub(crate) fn take_back(
        &mut self,
        ring: &Ring,
        name: &str,
        job: &JobId,
        value: &str,
    ) -> Option<Effect> {
        let (owner, claim) = ring.lookup(name)?;
        let is_it = owner == ring.name()
            && (&claim.job, claim.value.as_str()) == (job, value)
            && claim.hold != Hold::Job
            && claim.lock.is_none();
        let request = self.numbers.next();
        let (name, job) = (name.to_owned(), job.clone());
        is_it.then_some(Effect::Post(Input::Unpublish { request, name, job, key: None }))
    }

    /// Answers requests for names that are gone now.
    fn review_leaving(&mut self, ring: &Ring) -> Vec<Effect> {
        let is_gone = |claim: &Claim| ring.lookup(&claim.name).is_none_or(|(_, it)| it != claim);
        let gone = self.leaving.extract_if(.., |_, (_, claim)| is_gone(claim));
        gone.map(|(_, (request, _))| Effect::Report(request.answered(NameAnswer::Done))).collect()
    }

    /// The ring refuses a request: the manager repeats it.
    pub(crate) fn refused(&mut self, request: RequestId, problem: &str) -> Option<Effect> {
        let (request, _) = self.leaving.remove(&request)?;
        Some(Effect::Report(request.answered(NameAnswer::Later(problem.to_owned()))))
    }

    /// Removes the published names of jobs that are over, however they ended.
    fn forget_publishers(&mut self, is_running: impl Fn(&JobId) -> bool) -> Vec<Effect> {
        let gone = self.publishers.extract_if(.., |job| !is_running(job));
        gone.map(|job| Effect::Post(Input::JobOver(job))).collect()
    }

    /// The result of a publication. If a reader has taken the name back meanwhile, the publisher learns that too, and after
    /// the answer: it must not keep the name for later lookups.
    pub(crate) fn published(&mut self, request: RequestId, result: Publication) -> Vec<Effect> {
        let was_read = result == Publication::Refused(UNPUBLISHED);
        let request_here = self.requests.get(&request);
        let lost =
            request_here.filter(|_| was_read).map(|NameRequest { job, operation, .. }| {
                let order = ManagerOrder::NameLost { name: operation.name().clone(), to: None };
                Effect::Report(ManagerMessage::new(job.clone(), order))
            });
        let later = result.may_be_done_later();
        let failed = if later { NameAnswer::Later } else { NameAnswer::Failed };
        let answer = match result {
            Publication::Done => NameAnswer::Done,
            Publication::Taken => NameAnswer::Taken,
            // A reader has found it and taken it back before all members had agreed.
            Publication::Refused(UNPUBLISHED) => NameAnswer::Done,
            Publication::Incomplete { missing } => {
                let names: Vec<&str> = missing.iter().map(|name| name.as_str()).collect();
                failed(format!("no answer of {}", names.join(", ")))
            }
            Publication::Refused(problem) => failed(problem.to_owned()),
        };
        self.answer(request, answer).into_iter().chain(lost).collect()
    }

    pub(crate) fn unpublished(&mut self, request: RequestId, found: bool) -> Option<Effect> {
        self.answer(request, if found { NameAnswer::Done } else { NameAnswer::Unknown })
    }

    fn answer(&mut self, request: RequestId, answer: NameAnswer) -> Option<Effect> {
        let request = self.requests.remove(&request)?;
        Some(Effect::Report(request.answered(answer)))
    }
}

/// The claim of another member to this name, if the job may take it back there.
fn elsewhere(ring: &Ring, name: &str, job: &JobId, key: Option<&NameKey>) -> Option<Claim> {
    let (owner, claim) = ring.lookup(name)?;
    let is_open = claim.hold != Hold::Job && claim.lock.is_none();
    (owner != ring.name() && is_open && claim.may_be_taken_back(job, key)).then(|| claim.clone())
}

/// The message for the job of this host that has published a name, about refused requests.
pub(crate) fn inform(ring: &Ring, refusal: Refusal) -> Option<Effect> {
    let (owner, claim) = ring.lookup(&refusal.name)?;
    let order = ManagerOrder::NameRefused(refusal);
    (owner == ring.name()).then(|| Effect::Report(ManagerMessage::new(claim.job.clone(), order)))
}

/// The message for another job of this host whose name is being taken back.
fn loss_of(ring: &Ring, request: &NameRequest) -> Option<Effect> {
    let NameOperation::Unpublish { name, key } = &request.operation else { return None };
    let (owner, claim) = ring.lookup(name)?;
    let is_other = owner == ring.name() && claim.job != request.job;
    let loses = is_other && claim.may_be_taken_back(&request.job, key.as_ref());
    let order = ManagerOrder::NameLost { name: name.clone(), to: None };
    loses.then(|| Effect::Report(ManagerMessage::new(claim.job.clone(), order)))
}
