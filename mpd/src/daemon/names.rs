//! Names that jobs publish where there is no ring: a private daemon has those of its one job.

use std::collections::BTreeMap;

use mpd_proto::JobId;
use mpd_proto::message::{NameAnswer, NameWish};
use mpd_proto::ring::{Claim, MAX_CLAIMS};

use crate::daemon::jobs::{Jobs, Wish};
use crate::daemon::membership::Errand;

/// The names, each once.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, Claim>);

impl Names {
    /// What managers here are to be told of what they want.
    pub(super) fn serve(&mut self, jobs: &mut Jobs) -> Vec<Errand> {
        let serve = |wish: Wish| {
            let answer = self.answer(&wish.job, &wish.wish);
            wish.answered(answer)
        };
        jobs.take_wishes().into_iter().map(serve).collect()
    }

    fn answer(&mut self, job: &JobId, wish: &NameWish) -> NameAnswer {
        match wish {
            NameWish::Publish { name, value } => {
                let (name, value, job) = (name.clone(), value.clone(), job.clone());
                self.publish(Claim { name, value, job })
            }
            NameWish::Lookup { name } => match self.0.get(name) {
                Some(claim) => NameAnswer::Value(claim.value.clone()),
                None => NameAnswer::Unknown,
            },
            NameWish::Unpublish { name } => {
                self.0.remove(name).map_or(NameAnswer::Unknown, |_| NameAnswer::Done)
            }
        }
    }

    fn publish(&mut self, claim: Claim) -> NameAnswer {
        if self.0.contains_key(&claim.name) {
            return NameAnswer::Taken;
        }
        let full = (self.0.len() >= MAX_CLAIMS).then_some("too many names");
        if let Some(problem) = claim.problem().or(full) {
            return NameAnswer::Failed(problem.to_owned());
        }
        self.0.insert(claim.name.clone(), claim);
        NameAnswer::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_had_by_one_until_it_is_taken_back() {
        let mut names = Names::default();
        let job: JobId = "1@h1".parse().unwrap();
        let publish = |value: &str| NameWish::Publish { name: "a b".into(), value: value.into() };
        let lookup = NameWish::Lookup { name: "a b".into() };
        let back = NameWish::Unpublish { name: "a b".into() };
        assert_eq!(names.answer(&job, &lookup), NameAnswer::Unknown);
        assert_eq!(names.answer(&job, &publish("1")), NameAnswer::Done);
        assert_eq!(names.answer(&job, &publish("2")), NameAnswer::Taken);
        assert_eq!(names.answer(&job, &lookup), NameAnswer::Value("1".into()));
        assert_eq!(names.answer(&job, &back), NameAnswer::Done);
        assert_eq!(names.answer(&job, &back), NameAnswer::Unknown);
    }
}
