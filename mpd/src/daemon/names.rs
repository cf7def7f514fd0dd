//! Names that jobs publish where there is no ring: a private daemon has those of its one job. And what daemons
//! do alike with the keys of names.

use std::collections::BTreeMap;

use mpd_machine::Time;
use mpd_wire::JobId;
use mpd_wire::message::{ManagerOrder, NameAnswer, NameWish};
use mpd_wire::names::{Claim, Lock, MAX_CLAIMS, NameKey, TOO_MANY_OF_JOB};

use crate::daemon::errand::Errand;
use crate::daemon::throttle::Throttle;

/// A request of a manager of this host about a name.
#[derive(Debug)]
pub(super) struct Wish {
    /// The manager's job, and the number that the manager gave the request.
    pub(super) job: JobId,
    pub(super) request: u32,
    pub(super) wish: NameWish,
}

impl Wish {
    /// The message with the answer.
    pub(super) fn answered(self, answer: NameAnswer) -> Errand {
        Errand::new(self.job, ManagerOrder::Named { request: self.request, answer })
    }
}

/// The lock of a key.
///
/// # Errors
/// When the system has no randomness to give; for people.
pub(super) fn lock(key: Option<&NameKey>) -> Result<Option<Lock>, String> {
    let salt = || mpd_io::random::bytes().map_err(|error| error.to_string());
    key.map(|key| Ok(Lock::new(salt()?, key))).transpose()
}

/// Names that were not shown, or not taken back, for want of their key: some are logged.
#[derive(Debug, Default)]
pub(super) struct Refusals(Throttle);

impl Refusals {
    /// Whether a claim is not for the job that asks with this key.
    pub(super) fn refuses(
        &mut self,
        now: Time,
        claim: &Claim,
        (job, key): (&JobId, Option<&NameKey>),
    ) -> bool {
        let refused = !claim.opens_with(key);
        if refused {
            let why = match (&claim.lock, key) {
                (Some(_), None) => "without its key",
                (Some(_), Some(_)) => "with a wrong key",
                (None, _) => "with a key, and it has none",
            };
            let Claim { name, job: owner, .. } = claim;
            let text = format_args!("job {job} asks for the name {name:?} of job {owner} {why}");
            self.0.warn(now, text);
        }
        refused
    }
}

/// The names, each once.
#[derive(Debug, Default)]
pub(super) struct Names {
    claims: BTreeMap<String, Claim>,
    refusals: Refusals,
}

impl Names {
    /// Serves a request.
    pub(super) fn serve(&mut self, now: Time, wish: Wish) -> Errand {
        let answer = self.answer(now, &wish.job, &wish.wish);
        wish.answered(answer)
    }

    fn answer(&mut self, now: Time, job: &JobId, wish: &NameWish) -> NameAnswer {
        match wish {
            NameWish::Publish { name, value, key } => match lock(key.as_ref()) {
                Ok(lock) => {
                    let (name, value, job) = (name.clone(), value.clone(), job.clone());
                    self.publish(Claim { name, value, job, lock })
                }
                Err(problem) => NameAnswer::Failed(problem),
            },
            NameWish::Lookup { name, key } => match self.find(now, job, name, key.as_ref()) {
                Some(claim) => NameAnswer::Value(claim.value),
                None => NameAnswer::Unknown,
            },
            NameWish::Unpublish { name, key } => {
                match self.find(now, job, name, key.as_ref()).and_then(|_| self.claims.remove(name))
                {
                    Some(_) => NameAnswer::Done,
                    None => NameAnswer::Unknown,
                }
            }
        }
    }

    fn find(&mut self, now: Time, job: &JobId, name: &str, key: Option<&NameKey>) -> Option<Claim> {
        let claim = self.claims.get(name)?;
        (!self.refusals.refuses(now, claim, (job, key))).then(|| claim.clone())
    }

    fn publish(&mut self, claim: Claim) -> NameAnswer {
        if self.claims.contains_key(&claim.name) {
            return NameAnswer::Taken;
        }
        let full = (self.claims.len() >= MAX_CLAIMS).then_some("too many names");
        let share = claim.is_within_share(self.claims.values());
        let share = (!share).then_some(TOO_MANY_OF_JOB);
        if let Some(problem) = claim.problem().or(share).or(full) {
            return NameAnswer::Failed(problem.to_owned());
        }
        self.claims.insert(claim.name.clone(), claim);
        NameAnswer::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(names: &mut Names, wish: &NameWish) -> NameAnswer {
        names.answer(Time::ZERO, &"1@h1".parse().unwrap(), wish)
    }

    fn publish(value: &str, key: Option<NameKey>) -> NameWish {
        NameWish::Publish { name: "a b".into(), value: value.into(), key }
    }

    fn lookup(key: Option<NameKey>) -> NameWish {
        NameWish::Lookup { name: "a b".into(), key }
    }

    fn back(key: Option<NameKey>) -> NameWish {
        NameWish::Unpublish { name: "a b".into(), key }
    }

    #[test]
    fn a_name_is_had_by_one_until_it_is_taken_back() {
        let mut names = Names::default();
        assert_eq!(answer(&mut names, &lookup(None)), NameAnswer::Unknown);
        assert_eq!(answer(&mut names, &publish("1", None)), NameAnswer::Done);
        assert_eq!(answer(&mut names, &publish("2", None)), NameAnswer::Taken);
        assert_eq!(answer(&mut names, &lookup(None)), NameAnswer::Value("1".into()));
        assert_eq!(answer(&mut names, &back(None)), NameAnswer::Done);
        assert_eq!(answer(&mut names, &back(None)), NameAnswer::Unknown);
    }

    #[test]
    fn a_name_with_a_key_is_unknown_without_it_and_one_without_is_unknown_with_one() {
        let mut names = Names::default();
        let key = |words: &[u8]| Some(NameKey::new("a b", words));
        assert_eq!(answer(&mut names, &publish("1", key(b"x"))), NameAnswer::Done);
        assert_eq!(answer(&mut names, &publish("2", key(b"y"))), NameAnswer::Taken);
        for wrong in [None, key(b"y")] {
            assert_eq!(answer(&mut names, &lookup(wrong.clone())), NameAnswer::Unknown);
            assert_eq!(answer(&mut names, &back(wrong)), NameAnswer::Unknown);
        }
        assert_eq!(answer(&mut names, &lookup(key(b"x"))), NameAnswer::Value("1".into()));
        assert_eq!(answer(&mut names, &back(key(b"x"))), NameAnswer::Done);
        assert_eq!(answer(&mut names, &publish("3", None)), NameAnswer::Done);
        assert_eq!(answer(&mut names, &lookup(key(b"x"))), NameAnswer::Unknown);
        assert_eq!(answer(&mut names, &lookup(None)), NameAnswer::Value("3".into()));
    }
}
