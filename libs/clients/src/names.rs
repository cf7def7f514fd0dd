//! Names that ranks publish and look up. The daemon stores them. If it dies, this manager repeats the publications
//! of this host's ranks to the next daemon.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_events::RefusedNames;
use mpd_sansio::Time;
use mpd_wire::JobId;
use mpd_wire::message::{NameAnswer, NameOperation};
use mpd_wire::names::{Hold, NameKey, Refusal, split_name};

use crate::caller::Caller;
use crate::fresh_name::FreshName;
use crate::pmix::NameTicket;

/// How long an answer may take, from this host's daemon or the next one, in a complete ring or one that is healing.
const PATIENCE: Duration = Duration::from_secs(15);

/// The time between two attempts.
const AGAIN: Duration = Duration::from_secs(1);

/// The requests under way, and the names that this host's ranks have published.
#[derive(Debug, Default)]
pub(super) struct Names {
    asked: BTreeMap<u32, Asked>,
    last: u32,
    published: BTreeMap<String, Published>,
    /// The fresh names of ranks here, by the names that the ranks wanted.
    given: BTreeMap<String, String>,
    refused: RefusedNames,
    pub(super) outputs: VecDeque<Output>,
}

/// The value of a name that was published here, and its key.
#[derive(Clone, Debug)]
struct Published {
    value: String,
    key: Option<NameKey>,
    hold: Hold,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A rank, by PMI.
    Pmi(Caller),
    /// A request of the PMIx clients.
    Pmix(NameTicket),
}

/// A request to the daemon.
#[derive(Debug)]
struct Asked {
    purpose: Purpose,
    operation: NameOperation,
    /// When to ask again, or to give up.
    next: Time,
    /// Why the last attempt failed.
    problem: String,
    /// The other names, if the name is taken and a rank publishes it with `-unique-names`.
    fresh: Option<FreshName>,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A rank waits for the answer, until that time. `had`: this host had published that name.
    Answer { caller: Asker, until: Time, had: bool },
    /// A new daemon gets a published name.
    Again,
    /// The daemon removes a name whose publication was given up.
    Undo { until: Time },
}

/// An action of the owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Output {
    Ask(u32, NameOperation),
    Answer(Asker, NameOperation, NameAnswer),
    Report(String),
}

impl Names {
    /// Handles the request of a rank, which waits for the answer.
    pub(super) fn ask(&mut self, now: Time, caller: Asker, operation: NameOperation) {
        let mut had = false;
        match &operation {
            // Names that were published here are known here, also without a daemon.
            NameOperation::Lookup { name, key } => {
                if let Some(found) = self.published.get(name).filter(|found| found.key == *key) {
                    let answer = NameAnswer::Value(found.value.clone());
                    return self.outputs.push_back(Output::Answer(caller, operation, answer));
                }
            }
            // The daemon refuses a request with another key and logs it.
            NameOperation::Unpublish { name, key } => {
                had = self.published.get(name).is_some_and(|found| found.key == *key);
                if had {
                    self.forget(name);
                    self.asked.retain(|_, asked| {
                        asked.purpose != Purpose::Again || *asked.operation.name() != *name
                    });
                }
            }
            NameOperation::Publish { .. } => {}
        }
        self.send(now, Purpose::Answer { caller, until: now + PATIENCE, had }, operation);
    }

    /// Publishes the name of a rank, or a fresh one if it is taken.
    pub(super) fn publish_fresh(
        &mut self,
        now: Time,
        caller: Asker,
        operation: NameOperation,
        fresh: FreshName,
    ) {
        self.ask(now, caller, operation);
        if let Some(asked) = self.asked.get_mut(&self.last) {
            asked.fresh = Some(fresh);
        }
    }

    /// The name that was given to a rank here which wanted this one, or the same name.
    pub(super) fn given(&self, wanted: &str) -> String {
        self.given.get(wanted).map_or(wanted, String::as_str).to_owned()
    }

    fn send(&mut self, now: Time, purpose: Purpose, operation: NameOperation) {
        self.last = self.last.wrapping_add(1);
        self.outputs.push_back(Output::Ask(self.last, operation.clone()));
        let problem = "its daemon does not answer".to_owned();
        let next = now + PATIENCE;
        self.asked.insert(self.last, Asked { purpose, operation, next, problem, fresh: None });
    }

    /// Handles an answer of the daemon.
    pub(super) fn answered(&mut self, now: Time, request: u32, answer: NameAnswer) {
        let Some(asked) = self.asked.get_mut(&request) else { return };
        if let NameAnswer::Later(problem) = answer {
            asked.problem = problem;
            asked.next = match asked.purpose {
                Purpose::Answer { until, .. } | Purpose::Undo { until } => until.min(now + AGAIN),
                Purpose::Again => now + AGAIN,
            };
            return;
        }
        if answer == NameAnswer::Taken && self.try_next(request) {
            return;
        }
        let Some(Asked { purpose, operation, fresh, .. }) = self.asked.remove(&request) else {
            return;
        };
        if let (Some(fresh), NameAnswer::Done) = (fresh, &answer) {
            self.note_given(&fresh, operation.name());
        }
        if let (NameOperation::Publish { name, value, key, hold }, NameAnswer::Done) =
            (&operation, &answer)
        {
            let published = Published { value: value.clone(), key: key.clone(), hold: *hold };
            self.published.insert(name.clone(), published);
        }
        match purpose {
            Purpose::Answer { caller, had, .. } => {
                let gone = had && answer == NameAnswer::Unknown;
                let answer = if gone { NameAnswer::Done } else { answer };
                self.outputs.push_back(Output::Answer(caller, operation, answer));
            }
            Purpose::Again if answer != NameAnswer::Done => {
                let name = operation.name();
                self.forget(name);
                let text = format!("the name {name:?} belongs to another job now, not to this one");
                self.outputs.push_back(Output::Report(text));
            }
            Purpose::Again | Purpose::Undo { .. } => {}
        }
    }

    /// Has a rank with `-unique-names` try the next name, as the last one is taken.
    fn try_next(&mut self, request: u32) -> bool {
        let Some(asked) = self.asked.get_mut(&request) else { return false };
        let Some((next, next_key)) = asked.fresh.as_mut().and_then(FreshName::next) else {
            return false;
        };
        if let NameOperation::Publish { name, key, .. } = &mut asked.operation {
            (*name, *key) = (next, next_key);
        }
        self.outputs.push_back(Output::Ask(request, asked.operation.clone()));
        true
    }

    /// A rank has published this name.
    fn note_given(&mut self, fresh: &FreshName, name: &str) {
        let wanted = fresh.wanted();
        if name == wanted {
            return;
        }
        self.given.insert(wanted.to_owned(), name.to_owned());
        let [(wanted, _), (name, _)] = [wanted, name].map(split_name);
        let text = format!("the name {wanted:?} is taken, so {name:?} was published");
        self.outputs.push_back(Output::Report(text));
    }

    /// When [`Names::expire`] is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        let asked = self.asked.values().map(|asked| asked.next).min();
        asked.into_iter().chain(self.refused.next_deadline()).min()
    }

    /// Handles refused requests of any job for a name that was published here.
    pub(super) fn refused(&mut self, now: Time, refusal: Refusal) {
        self.refused.note(now, refusal);
        self.report_refused(now);
    }

    fn report_refused(&mut self, now: Time) {
        let lines = self.refused.due(now);
        self.outputs.extend(lines.iter().map(|refusal| Output::Report(refusal.to_string())));
    }

    /// Repeats requests that are due, or gives them up.
    pub(super) fn expire(&mut self, now: Time) {
        self.report_refused(now);
        let due: Vec<u32> = (self.asked.iter().filter(|(_, asked)| asked.next <= now))
            .map(|(request, _)| *request)
            .collect();
        for request in due {
            let Some(asked) = self.asked.get_mut(&request) else { continue };
            let until = match asked.purpose {
                Purpose::Answer { until, .. } | Purpose::Undo { until } => until,
                Purpose::Again => now + PATIENCE,
            };
            if until <= now {
                self.give_up(now, request);
            } else {
                asked.next = until;
                self.outputs.push_back(Output::Ask(request, asked.operation.clone()));
            }
        }
    }

    fn give_up(&mut self, now: Time, request: u32) {
        let Some(Asked { purpose, operation, problem, .. }) = self.asked.remove(&request) else {
            return;
        };
        let Purpose::Answer { caller, .. } = purpose else { return };
        if let NameOperation::Publish { name, key, .. } = &operation {
            let undo = NameOperation::Unpublish { name: name.clone(), key: key.clone() };
            self.send(now, Purpose::Undo { until: now + PATIENCE }, undo);
        }
        let text = format!("no answer about the name {:?}: {problem}", operation.name());
        self.outputs.push_back(Output::Report(text));
        self.outputs.push_back(Output::Answer(caller, operation, NameAnswer::Failed(problem)));
    }

    /// Repeats the waiting requests and the publications to a new daemon.
    pub(super) fn repeat(&mut self, now: Time) {
        self.asked.retain(|_, asked| matches!(asked.purpose, Purpose::Answer { .. }));
        for (request, asked) in &self.asked {
            self.outputs.push_back(Output::Ask(*request, asked.operation.clone()));
        }
        for (name, Published { value, key, hold }) in self.published.clone() {
            self.send(now, Purpose::Again, NameOperation::Publish { name, value, key, hold });
        }
    }

    /// Unpublishes all names of this host.
    pub(super) fn unpublish_all(&mut self, now: Time) {
        self.asked.retain(|_, asked| !matches!(asked.purpose, Purpose::Answer { .. }));
        for (name, Published { key, .. }) in std::mem::take(&mut self.published) {
            let undo = NameOperation::Unpublish { name, key };
            self.send(now, Purpose::Undo { until: now + PATIENCE }, undo);
        }
    }

    /// A rank here owns this name no longer.
    fn forget(&mut self, name: &str) {
        self.published.remove(name);
        self.given.retain(|_, given| given != name);
    }

    /// Handles the loss of a name to another job, after two parts of a ring with different owners met. Or another job took
    /// the name back.
    pub(super) fn lose(&mut self, name: &str, to: Option<&JobId>) {
        self.forget(name);
        let Some(to) = to else { return };
        let text = format!("the name {name:?} belongs to job {to} now, not to this one");
        self.outputs.push_back(Output::Report(text));
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::Rank;
    use pmi_proto::Ticket;

    use super::*;

    const RANK: Asker = Asker::Pmi((Rank(3), Ticket::FIRST));

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn publish() -> NameOperation {
        NameOperation::Publish { name: "n".into(), value: "v".into(), key: None, hold: Hold::Job }
    }

    fn unpublish() -> NameOperation {
        NameOperation::Unpublish { name: "n".into(), key: None }
    }

    fn outputs(names: &mut Names) -> Vec<Output> {
        names.outputs.drain(..).collect()
    }

    /// Names with one published name, by request 1.
    fn published() -> Names {
        let mut names = Names::default();
        names.ask(at(0), RANK, publish());
        assert_eq!(outputs(&mut names), [Output::Ask(1, publish())]);
        names.answered(at(0), 1, NameAnswer::Done);
        assert_eq!(outputs(&mut names), [Output::Answer(RANK, publish(), NameAnswer::Done)]);
        assert_eq!(names.deadline(), None);
        names
    }

    #[test]
    fn a_new_daemon_gets_names_and_waiting_requests_until_it_answers() {
        let mut names = published();
        names.ask(at(1), RANK, NameOperation::Lookup { name: "other".into(), key: None });
        outputs(&mut names);
        let lookup = || Output::Ask(2, NameOperation::Lookup { name: "other".into(), key: None });
        for first in [3, 4] {
            names.repeat(at(2));
            assert_eq!(outputs(&mut names), [lookup(), Output::Ask(first, publish())]);
        }
        names.answered(at(2), 3, NameAnswer::Done);
        for second in 3..60 {
            names.answered(at(second), 4, NameAnswer::Later("not yet".into()));
            names.expire(at(second + 1));
        }
        assert!(outputs(&mut names).contains(&Output::Ask(4, publish())));
        names.answered(at(60), 4, NameAnswer::Done);
        assert_eq!((outputs(&mut names), names.deadline()), (vec![], None));
    }

    #[test]
    fn a_name_that_another_job_took_meanwhile_is_lost() {
        let mut names = published();
        names.repeat(at(2));
        outputs(&mut names);
        names.answered(at(2), 2, NameAnswer::Taken);
        assert!(matches!(&outputs(&mut names)[..], [Output::Report(_)]));
        names.ask(at(3), RANK, NameOperation::Lookup { name: "n".into(), key: None });
        assert!(matches!(&outputs(&mut names)[..], [Output::Ask(3, NameOperation::Lookup { .. })]));
    }

    #[test]
    fn a_name_that_another_job_took_back_is_not_published_again() {
        let mut names = published();
        names.lose("n", None);
        names.repeat(at(2));
        assert_eq!(outputs(&mut names), []);
    }

    #[test]
    fn a_name_that_is_unpublished_while_the_daemon_changes_is_not_published_again() {
        let mut names = published();
        names.repeat(at(2));
        names.ask(at(2), RANK, unpublish());
        outputs(&mut names);
        names.answered(at(2), 2, NameAnswer::Done);
        names.repeat(at(3));
        assert_eq!(outputs(&mut names), [Output::Ask(3, unpublish())]);
        names.answered(at(3), 3, NameAnswer::Unknown);
        assert_eq!(outputs(&mut names), [Output::Answer(RANK, unpublish(), NameAnswer::Done)]);
    }

    #[test]
    fn a_name_is_known_here_only_with_its_key() {
        let key = |words: &[u8]| Some(NameKey::new("n", words));
        let lookup = |key| NameOperation::Lookup { name: "n".into(), key };
        let back = |key| NameOperation::Unpublish { name: "n".into(), key };
        let (name, value, hold) = ("n".into(), "v".into(), Hold::Job);
        let operation = NameOperation::Publish { name, value, key: key(b"x"), hold };
        let mut names = Names::default();
        names.ask(at(0), RANK, operation.clone());
        names.answered(at(0), 1, NameAnswer::Done);
        outputs(&mut names);
        names.ask(at(0), RANK, lookup(key(b"x")));
        let found = Output::Answer(RANK, lookup(key(b"x")), NameAnswer::Value("v".into()));
        assert_eq!(outputs(&mut names), [found]);
        for (wrong, request) in [(None, 2), (key(b"y"), 4)] {
            names.ask(at(0), RANK, lookup(wrong.clone()));
            names.ask(at(0), RANK, back(wrong.clone()));
            names.answered(at(0), request + 1, NameAnswer::Unknown);
            let unknown = Output::Answer(RANK, back(wrong.clone()), NameAnswer::Unknown);
            let asked = [(request, lookup(wrong.clone())), (request + 1, back(wrong))];
            let mut expected: Vec<Output> =
                asked.map(|(n, operation)| Output::Ask(n, operation)).into();
            expected.push(unknown);
            assert_eq!(outputs(&mut names), expected);
        }
        names.repeat(at(1));
        assert!(outputs(&mut names).contains(&Output::Ask(6, operation)));
    }

    /// Names of a job with `-unique-names`, whose rank publishes `n`, which is taken.
    fn clash() -> Names {
        let mut names = Names::default();
        names.publish_fresh(at(0), RANK, publish(), FreshName::new("n", None));
        assert_eq!(outputs(&mut names), [Output::Ask(1, publish())]);
        names.answered(at(0), 1, NameAnswer::Taken);
        names
    }

    fn publish_as(name: &str) -> NameOperation {
        NameOperation::Publish { name: name.into(), value: "v".into(), key: None, hold: Hold::Job }
    }

    #[test]
    fn a_publisher_of_a_taken_name_gets_the_next_free_one_and_takes_it_back_by_the_wanted_one() {
        let mut names = clash();
        assert_eq!(outputs(&mut names), [Output::Ask(1, publish_as("n-2"))]);
        names.answered(at(0), 1, NameAnswer::Taken);
        assert_eq!(outputs(&mut names), [Output::Ask(1, publish_as("n-3"))]);
        names.answered(at(0), 1, NameAnswer::Done);
        let [Output::Report(text), Output::Answer(RANK, _, NameAnswer::Done)] =
            &outputs(&mut names)[..]
        else {
            panic!("no answer")
        };
        assert_eq!(text, "the name \"n\" is taken, so \"n-3\" was published");
        assert_eq!((names.given("n"), names.given("m")), ("n-3".to_owned(), "m".to_owned()));
        names.repeat(at(1));
        assert_eq!(outputs(&mut names), [Output::Ask(2, publish_as("n-3"))]);
        names.ask(at(2), RANK, NameOperation::Unpublish { name: names.given("n"), key: None });
        assert_eq!(names.given("n"), "n", "it is forgotten");
    }

    #[test]
    fn a_publisher_finds_no_name_after_a_thousand_taken_ones() {
        let mut names = clash();
        for _ in 0..999 {
            assert!(matches!(&outputs(&mut names)[..], [Output::Ask(1, _)]));
            names.answered(at(0), 1, NameAnswer::Taken);
        }
        let all = outputs(&mut names);
        assert!(matches!(&all[..], [Output::Answer(RANK, _, NameAnswer::Taken)]), "{all:?}");
        assert_eq!(names.deadline(), None);
    }

    #[test]
    fn the_user_reads_one_line_at_once_and_then_one_a_second_of_a_flood_of_refusals() {
        let mut names = published();
        let refusal = Refusal {
            name: "n".into(),
            by: "4@h2".parse().unwrap(),
            fault: mpd_wire::names::KeyFault::Wrong,
            count: 1,
        };
        (0..10_000).for_each(|_| names.refused(at(5), refusal.clone()));
        let first = "job 4@h2 asked for the name \"n\" with a wrong key, and was refused";
        assert_eq!(outputs(&mut names), [Output::Report(first.into())]);
        assert_eq!(names.deadline(), Some(at(6)));
        names.expire(at(6));
        let count =
            "9999 requests for the name \"n\" were refused; job 4@h2 asked last, with a wrong key";
        assert_eq!(outputs(&mut names), [Output::Report(count.into())]);
        names.expire(at(7));
        assert_eq!((outputs(&mut names), names.deadline()), (vec![], None));
    }

    #[test]
    fn a_request_that_waits_too_long_fails_and_has_no_effect_later() {
        let mut names = Names::default();
        names.ask(at(0), RANK, publish());
        names.answered(at(14), 1, NameAnswer::Later("no answer of h3".into()));
        names.expire(at(15));
        let failed = NameAnswer::Failed("no answer of h3".into());
        let outputs = outputs(&mut names);
        assert!(outputs.contains(&Output::Ask(2, unpublish())), "{outputs:?}");
        assert_eq!(outputs.last(), Some(&Output::Answer(RANK, publish(), failed)));
        names.answered(at(16), 1, NameAnswer::Done);
        assert!(names.published.is_empty());
        names.expire(at(30));
        assert_eq!((names.deadline(), names.outputs.len()), (None, 0));
    }
}
