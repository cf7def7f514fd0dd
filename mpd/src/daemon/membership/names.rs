//! Names that jobs of this host publish in the ring, and look up.

use std::collections::{BTreeMap, BTreeSet};

use mpd_machine::Time;
use mpd_ring::{Input, Publication, RequestId};
use mpd_wire::message::{ConsoleReply, ManagerOrder, NameAnswer, NameWish, Published};
use mpd_wire::names::{Claim, NameKey};
use mpd_wire::{DaemonName, JobId};

use crate::daemon::jobs::{Jobs, Wish};
use crate::daemon::membership::pages::Page;
use crate::daemon::membership::{Errand, Hands, Membership};
use crate::daemon::names::{Refusals, lock};

/// Wishes under way, and jobs whose names go with them.
#[derive(Debug, Default)]
pub(super) struct Naming {
    wishes: BTreeMap<RequestId, Wish>,
    publishers: BTreeSet<JobId>,
    refusals: Refusals,
}

impl Membership {
    /// Does what managers here want about names.
    pub(super) fn serve_names(&mut self, hands: &mut Hands<'_>) {
        for wish in hands.jobs.take_wishes() {
            match &wish.wish {
                NameWish::Lookup { name, key } => {
                    let answer = self.find(hands.now, name, (&wish.job, key.as_ref()));
                    self.errands.push_back(wish.answered(answer));
                }
                NameWish::Publish { name, value, key } => match lock(key.as_ref()) {
                    Ok(lock) => {
                        let (name, value, job) = (name.clone(), value.clone(), wish.job.clone());
                        self.naming.publishers.insert(job.clone());
                        let claim = Claim { name, value, job, lock };
                        self.ask_of_names(wish, |request| Input::Publish { request, claim });
                    }
                    Err(problem) => {
                        self.errands.push_back(wish.answered(NameAnswer::Failed(problem)));
                    }
                },
                NameWish::Unpublish { name, key } => {
                    let (name, job, key) = (name.clone(), wish.job.clone(), key.clone());
                    if let Some((_, claim)) =
                        self.pump.machine().lookup(&name).filter(|(_, c)| c.job == job)
                    {
                        // For the log: the ring looks at the key itself.
                        self.naming.refusals.refuses(hands.now, claim, (&job, key.as_ref()));
                    }
                    let input = |request| Input::Unpublish { request, name, job, key };
                    self.ask_of_names(wish, input);
                }
            }
        }
        self.forget_publishers(hands);
    }

    fn find(&mut self, now: Time, name: &str, asks: (&JobId, Option<&NameKey>)) -> NameAnswer {
        match self.pump.machine().lookup(name) {
            Some((_, claim)) if self.naming.refusals.refuses(now, claim, asks) => {
                NameAnswer::Unknown
            }
            Some((_, claim)) => NameAnswer::Value(claim.value.clone()),
            None if self.has_entered() => NameAnswer::Unknown,
            None => NameAnswer::Later("the daemon is not in its ring yet".to_owned()),
        }
    }

    /// A console wants all names of the ring.
    pub(super) fn list_names(&mut self, console: usize) {
        let published = |(host, claim): (&DaemonName, &Claim)| {
            let Claim { name, value, job, lock } = claim.clone();
            Published { name, value, job, host: host.clone(), keyed: lock.is_some() }
        };
        let items = self.pump.machine().names().into_iter().map(published).collect();
        self.post_page(console, Page { items, more: false }, &[], |names, _, more| {
            ConsoleReply::Names { names, more }
        });
    }

    fn ask_of_names(&mut self, wish: Wish, input: impl FnOnce(RequestId) -> Input) {
        let request = self.asks.next_id();
        self.naming.wishes.insert(request, wish);
        self.post(input(request));
    }

    /// What jobs have published goes with them, however they end.
    fn forget_publishers(&mut self, hands: &mut Hands<'_>) {
        let over = |jobs: &Jobs, job: &JobId| !jobs.goes_on(job);
        let gone: Vec<JobId> =
            self.naming.publishers.iter().filter(|job| over(hands.jobs, job)).cloned().collect();
        for job in gone {
            self.naming.publishers.remove(&job);
            self.post(Input::JobOver(job));
        }
    }

    pub(super) fn published(&mut self, request: RequestId, result: Publication) {
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
        self.answer_wish(request, answer);
    }

    pub(super) fn answer_wish(&mut self, request: RequestId, answer: NameAnswer) {
        if let Some(wish) = self.naming.wishes.remove(&request) {
            self.errands.push_back(wish.answered(answer));
        }
    }

    pub(super) fn name_lost(&mut self, name: String, job: JobId, to: JobId) {
        let order = ManagerOrder::NameLost { name, to };
        self.errands.push_back(Errand { job, order, link: None });
    }
}
