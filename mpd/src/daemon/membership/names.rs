//! Names that jobs of this host publish in the ring, and look up.

use std::collections::{BTreeMap, BTreeSet};

use mpd_machine::Time;
use mpd_ring::{Input, Publication, RequestId, Ring};
use mpd_wire::JobId;
use mpd_wire::message::{NameAnswer, NameWish};
use mpd_wire::names::Claim;

use crate::daemon::membership::effect::Effect;
use crate::daemon::membership::request::{Asker, Numbers};
use crate::daemon::names::{Refusals, Wish, lock};

/// Wishes under way, and jobs whose names go with them.
#[derive(Debug)]
pub(super) struct Naming {
    numbers: Numbers,
    /// Requests that are not served yet.
    waiting: Vec<Wish>,
    /// Requests that wait for an answer of the ring.
    wishes: BTreeMap<RequestId, Wish>,
    publishers: BTreeSet<JobId>,
    refusals: Refusals,
}

impl Naming {
    pub(super) fn new() -> Self {
        Self {
            numbers: Numbers::new(Asker::Names),
            waiting: Vec::new(),
            wishes: BTreeMap::new(),
            publishers: BTreeSet::new(),
            refusals: Refusals::default(),
        }
    }

    /// Queues a request of a manager here, for [`Naming::serve`].
    pub(super) fn wish(&mut self, wish: Wish) {
        self.waiting.push(wish);
    }

    /// Serves the queued requests. `entered`: whether this daemon has its place in the ring. `goes_on`: whether a job
    /// is not over here.
    pub(super) fn serve(
        &mut self,
        now: Time,
        ring: &Ring,
        entered: bool,
        goes_on: impl Fn(&JobId) -> bool,
    ) -> Vec<Effect> {
        let waiting = std::mem::take(&mut self.waiting);
        let serve = |wish| self.serve_one(now, ring, entered, wish);
        let mut effects: Vec<Effect> = waiting.into_iter().map(serve).collect();
        effects.extend(self.forget_publishers(goes_on));
        effects
    }

    fn serve_one(&mut self, now: Time, ring: &Ring, entered: bool, wish: Wish) -> Effect {
        match &wish.wish {
            NameWish::Lookup { name, key } => {
                let claim = ring.lookup(name).map(|(_, claim)| claim);
                let answer = match claim {
                    Some(claim) if self.refusals.refuses(now, claim, (&wish.job, key.as_ref())) => {
                        NameAnswer::Unknown
                    }
                    Some(claim) => NameAnswer::Value(claim.value.clone()),
                    None if entered => NameAnswer::Unknown,
                    None => NameAnswer::Later("the daemon is not in its ring yet".to_owned()),
                };
                Effect::Tell(wish.answered(answer))
            }
            NameWish::Publish { name, value, key } => match lock(key.as_ref()) {
                Ok(lock) => {
                    let (name, value, job) = (name.clone(), value.clone(), wish.job.clone());
                    self.publishers.insert(job.clone());
                    let claim = Claim { name, value, job, lock };
                    self.ask(wish, |request| Input::Publish { request, claim })
                }
                Err(problem) => Effect::Tell(wish.answered(NameAnswer::Failed(problem))),
            },
            NameWish::Unpublish { name, key } => {
                let (name, job, key) = (name.clone(), wish.job.clone(), key.clone());
                if let Some((_, claim)) = ring.lookup(&name).filter(|(_, c)| c.job == job) {
                    // For the log: the ring looks at the key itself.
                    self.refusals.refuses(now, claim, (&job, key.as_ref()));
                }
                self.ask(wish, |request| Input::Unpublish { request, name, job, key })
            }
        }
    }

    fn ask(&mut self, wish: Wish, input: impl FnOnce(RequestId) -> Input) -> Effect {
        let request = self.numbers.next();
        self.wishes.insert(request, wish);
        Effect::Post(input(request))
    }

    /// What jobs have published goes with them, however they end.
    fn forget_publishers(&mut self, goes_on: impl Fn(&JobId) -> bool) -> Vec<Effect> {
        let gone = self.publishers.extract_if(.., |job| !goes_on(job));
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
        let wish = self.wishes.remove(&request)?;
        Some(Effect::Tell(wish.answered(answer)))
    }
}
