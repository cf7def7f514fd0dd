//! Names that jobs publish where there is no ring: a private daemon has the names of its one job. Also the requests
//! about names and their keys, which all daemons share.

use std::collections::BTreeMap;

use mpd_jobtable::{Line, ManagerMessage, Throttle};
use mpd_sansio::Time;
use mpd_wire::JobId;
use mpd_wire::message::{ManagerOrder, NameAnswer, NameOperation};
use mpd_wire::names::{Claim, Hold, Lock, MAX_CLAIMS, NameKey, Refusal, SALT, TOO_MANY_OF_JOB};

/// A request of a manager of this host about a name.
#[derive(Debug)]
pub(crate) struct NameRequest {
    /// The manager's job.
    pub(crate) job: JobId,
    /// The number that the manager gave the request.
    pub(crate) request: u32,
    /// The request.
    pub(crate) operation: NameOperation,
    /// The lock of a name that is published with a key, or why there is none.
    lock: Result<Option<Lock>, String>,
}

impl NameRequest {
    /// A request of the manager of `job`. `salt` returns random bytes, or a text for people; it is called only for a lock.
    pub(crate) fn new(
        job: JobId,
        request: u32,
        operation: NameOperation,
        salt: impl FnOnce() -> Result<[u8; SALT], String>,
    ) -> Self {
        let lock = match &operation {
            NameOperation::Publish { key: Some(key), .. } => {
                salt().map(|salt| Some(Lock::new(salt, key)))
            }
            NameOperation::Publish { key: None, .. }
            | NameOperation::Lookup { .. }
            | NameOperation::Unpublish { .. } => Ok(None),
        };
        Self { job, request, operation, lock }
    }

    /// The lock of the name, or why there is none.
    pub(crate) fn take_lock(&mut self) -> Result<Option<Lock>, String> {
        std::mem::replace(&mut self.lock, Ok(None))
    }

    pub(crate) fn answered(self, answer: NameAnswer) -> ManagerMessage {
        ManagerMessage::new(self.job, ManagerOrder::Named { request: self.request, answer })
    }
}

/// Requests for names with a missing or wrong key. A bounded number of them is logged.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Throttle);

impl Refusals {
    /// The refusal of a claim to `job`, if its key is missing or wrong, and the lines of the log about it.
    pub(crate) fn refusal(
        &mut self,
        now: Time,
        claim: &Claim,
        job: &JobId,
        key: Option<&NameKey>,
    ) -> Option<(Refusal, Vec<Line>)> {
        let refusal = Refusal::of(claim, job, key)?;
        let Claim { name, job: owner, .. } = claim;
        let why = refusal.fault;
        let text = format_args!("job {job} asks for the name {name:?} of job {owner} {why}");
        let lines = self.0.warn(now, text);
        Some((refusal, lines))
    }
}

/// The published names, each once.
#[derive(Debug, Default)]
pub(crate) struct LocalNames {
    claims: BTreeMap<String, Claim>,
    refusals: Refusals,
    /// Messages to publishers about refused requests.
    refused: Vec<ManagerMessage>,
    lines: Vec<Line>,
}

impl LocalNames {
    /// Serves a request: the messages to managers, and lines of the log.
    pub(crate) fn serve(
        &mut self,
        now: Time,
        mut request: NameRequest,
    ) -> (Vec<ManagerMessage>, Vec<Line>) {
        let lock = request.take_lock();
        let answer = self.answer(now, &request.job, &request.operation, lock);
        let mut messages = std::mem::take(&mut self.refused);
        messages.push(request.answered(answer));
        (messages, std::mem::take(&mut self.lines))
    }

    fn answer(
        &mut self,
        now: Time,
        job: &JobId,
        operation: &NameOperation,
        lock: Result<Option<Lock>, String>,
    ) -> NameAnswer {
        match operation {
            // This daemon ends with the job.
            NameOperation::Publish { hold: Hold::Kept, .. } => NameAnswer::NotKept,
            NameOperation::Publish { name, value, key: _, hold } => match lock {
                Ok(lock) => {
                    let (name, value, job) = (name.clone(), value.clone(), job.clone());
                    self.publish(Claim { name, value, job, lock, hold: *hold })
                }
                Err(problem) => NameAnswer::Failed(problem),
            },
            NameOperation::Lookup { name, key } => match self.find(now, job, name, key.as_ref()) {
                Some(claim) => NameAnswer::Value(claim.value),
                None => NameAnswer::Unknown,
            },
            NameOperation::Unpublish { name, key } => {
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
        let Some((refusal, lines)) = self.refusals.refusal(now, claim, job, key) else {
            return Some(claim.clone());
        };
        self.lines.extend(lines);
        let order = ManagerOrder::NameRefused(refusal);
        self.refused.push(ManagerMessage::new(claim.job.clone(), order));
        None
    }

    fn publish(&mut self, claim: Claim) -> NameAnswer {
        if self.claims.contains_key(&claim.name) {
            return NameAnswer::Taken;
        }
        let full = (self.claims.len() >= MAX_CLAIMS).then_some("too many names");
        let within = claim.is_within_share(self.claims.values());
        let within = (!within).then_some(TOO_MANY_OF_JOB);
        if let Some(problem) = claim.problem().or(within).or(full) {
            return NameAnswer::Failed(problem.to_owned());
        }
        self.claims.insert(claim.name.clone(), claim);
        NameAnswer::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(names: &mut LocalNames, operation: &NameOperation) -> NameAnswer {
        let job: JobId = "1@h1".parse().unwrap();
        let lock = NameRequest::new(job.clone(), 1, operation.clone(), || Ok([7; SALT])).lock;
        names.answer(Time::ZERO, &job, operation, lock)
    }

    fn publish(value: &str, key: Option<NameKey>) -> NameOperation {
        NameOperation::Publish { name: "a b".into(), value: value.into(), key, hold: Hold::Job }
    }

    fn lookup(key: Option<NameKey>) -> NameOperation {
        NameOperation::Lookup { name: "a b".into(), key }
    }

    fn unpublish(key: Option<NameKey>) -> NameOperation {
        NameOperation::Unpublish { name: "a b".into(), key }
    }

    #[test]
    fn a_name_belongs_to_one_job_until_it_is_unpublished() {
        let mut names = LocalNames::default();
        assert_eq!(answer(&mut names, &lookup(None)), NameAnswer::Unknown);
        assert_eq!(answer(&mut names, &publish("1", None)), NameAnswer::Done);
        assert_eq!(answer(&mut names, &publish("2", None)), NameAnswer::Taken);
        assert_eq!(answer(&mut names, &lookup(None)), NameAnswer::Value("1".into()));
        assert_eq!(answer(&mut names, &unpublish(None)), NameAnswer::Done);
        assert_eq!(answer(&mut names, &unpublish(None)), NameAnswer::Unknown);
    }

    #[test]
    fn a_name_that_would_outlive_its_job_is_refused() {
        let mut names = LocalNames::default();
        let publish = |hold| NameOperation::Publish {
            name: "a b".into(),
            value: "1".into(),
            key: None,
            hold,
        };
        assert_eq!(answer(&mut names, &publish(Hold::Kept)), NameAnswer::NotKept);
        assert_eq!(answer(&mut names, &publish(Hold::Shared)), NameAnswer::Done);
    }

    #[test]
    fn a_name_with_a_key_is_unknown_without_the_key_and_a_name_without_a_key_is_unknown_with_one() {
        let mut names = LocalNames::default();
        let key = |arguments: &[u8]| Some(NameKey::new("a b", arguments));
        assert_eq!(answer(&mut names, &publish("1", key(b"x"))), NameAnswer::Done);
        assert_eq!(answer(&mut names, &publish("2", key(b"y"))), NameAnswer::Taken);
        for wrong in [None, key(b"y")] {
            assert_eq!(answer(&mut names, &lookup(wrong.clone())), NameAnswer::Unknown);
            assert_eq!(answer(&mut names, &unpublish(wrong)), NameAnswer::Unknown);
        }
        assert_eq!(names.refused.len(), 4, "its publisher is informed of each");
        assert_eq!(answer(&mut names, &lookup(key(b"x"))), NameAnswer::Value("1".into()));
        assert_eq!(answer(&mut names, &unpublish(key(b"x"))), NameAnswer::Done);
        assert_eq!(answer(&mut names, &publish("3", None)), NameAnswer::Done);
        assert_eq!(answer(&mut names, &lookup(key(b"x"))), NameAnswer::Unknown);
        assert_eq!(answer(&mut names, &lookup(None)), NameAnswer::Value("3".into()));
    }
}
