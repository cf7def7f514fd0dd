//! Names that ranks publish and look up: the daemon knows them, and what this host's ranks have published is
//! said again to the next daemon if that one dies.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_machine::Time;
use mpd_wire::JobId;
use mpd_wire::message::{NameAnswer, NameWish};
use mpd_wire::names::NameKey;

use super::Asker;

/// How long an answer may take: of this host's daemon or the next one, of a ring that is whole or heals.
const PATIENCE: Duration = Duration::from_secs(15);

/// Between two attempts.
const AGAIN: Duration = Duration::from_secs(1);

/// What is under way, and what this host's ranks have published.
#[derive(Debug, Default)]
pub(super) struct Names {
    asked: BTreeMap<u32, Asked>,
    last: u32,
    published: BTreeMap<String, Published>,
    pub(super) outputs: VecDeque<Output>,
}

/// What a name that was published here stands for, and its key.
#[derive(Clone, Debug)]
struct Published {
    value: String,
    key: Option<NameKey>,
}

/// Something that the daemon was asked.
#[derive(Debug)]
struct Asked {
    purpose: Purpose,
    wish: NameWish,
    /// When to ask again, or to give up.
    next: Time,
    /// Why it did not work the last time.
    problem: String,
}

/// Why it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A rank waits for the answer, until then. `had`: this host had that name, by what is known here.
    Answer { asker: Asker, until: Time, had: bool },
    /// What is published is to be known to a new daemon.
    Again,
    /// What was given up is not to come true later.
    Undo { until: Time },
}

/// What is to be done about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Output {
    Ask(u32, NameWish),
    Answer(Asker, NameWish, NameAnswer),
    Tell(String),
}

impl Names {
    /// A rank wants something, and waits for the answer.
    pub(super) fn ask(&mut self, now: Time, asker: Asker, wish: NameWish) {
        let mut had = false;
        match &wish {
            // What was published here is known here, also while there is no daemon.
            NameWish::Lookup { name, key } => {
                if let Some(found) = self.published.get(name).filter(|found| found.key == *key) {
                    let answer = NameAnswer::Value(found.value.clone());
                    return self.outputs.push_back(Output::Answer(asker, wish, answer));
                }
            }
            // One with another key is refused by the daemon, which logs it.
            NameWish::Unpublish { name, key } => {
                had = self.published.get(name).is_some_and(|found| found.key == *key);
                if had {
                    self.published.remove(name);
                    self.asked.retain(|_, asked| {
                        asked.purpose != Purpose::Again || *name_of(&asked.wish) != *name
                    });
                }
            }
            NameWish::Publish { .. } => {}
        }
        self.send(now, Purpose::Answer { asker, until: now + PATIENCE, had }, wish);
    }

    fn send(&mut self, now: Time, purpose: Purpose, wish: NameWish) {
        self.last = self.last.wrapping_add(1);
        self.outputs.push_back(Output::Ask(self.last, wish.clone()));
        let problem = "its daemon does not answer".to_owned();
        let next = now + PATIENCE;
        self.asked.insert(self.last, Asked { purpose, wish, next, problem });
    }

    /// The daemon answers.
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
        let Some(Asked { purpose, wish, .. }) = self.asked.remove(&request) else { return };
        if let (NameWish::Publish { name, value, key }, NameAnswer::Done) = (&wish, &answer) {
            let published = Published { value: value.clone(), key: key.clone() };
            self.published.insert(name.clone(), published);
        }
        match purpose {
            Purpose::Answer { asker, had, .. } => {
                let gone = had && answer == NameAnswer::Unknown;
                let answer = if gone { NameAnswer::Done } else { answer };
                self.outputs.push_back(Output::Answer(asker, wish, answer));
            }
            Purpose::Again if answer != NameAnswer::Done => {
                let name = name_of(&wish);
                self.published.remove(name);
                let text = format!("the name {name:?} is another job's now, not ours any more");
                self.outputs.push_back(Output::Tell(text));
            }
            Purpose::Again | Purpose::Undo { .. } => {}
        }
    }

    /// When [`Names::expire`] is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.asked.values().map(|asked| asked.next).min()
    }

    /// Asks again, or gives up.
    pub(super) fn expire(&mut self, now: Time) {
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
                self.outputs.push_back(Output::Ask(request, asked.wish.clone()));
            }
        }
    }

    fn give_up(&mut self, now: Time, request: u32) {
        let Some(Asked { purpose, wish, problem, .. }) = self.asked.remove(&request) else {
            return;
        };
        let Purpose::Answer { asker, .. } = purpose else { return };
        if let NameWish::Publish { name, key, .. } = &wish {
            let undo = NameWish::Unpublish { name: name.clone(), key: key.clone() };
            self.send(now, Purpose::Undo { until: now + PATIENCE }, undo);
        }
        let text = format!("nothing can be done about the name {:?}: {problem}", name_of(&wish));
        self.outputs.push_back(Output::Tell(text));
        self.outputs.push_back(Output::Answer(asker, wish, NameAnswer::Failed(problem)));
    }

    /// A new daemon knows nothing of what the one before was asked.
    pub(super) fn say_again(&mut self, now: Time) {
        self.asked.retain(|_, asked| matches!(asked.purpose, Purpose::Answer { .. }));
        for (request, asked) in &self.asked {
            self.outputs.push_back(Output::Ask(*request, asked.wish.clone()));
        }
        for (name, Published { value, key }) in self.published.clone() {
            self.send(now, Purpose::Again, NameWish::Publish { name, value, key });
        }
    }

    /// Nothing that was published here is to be found any more.
    pub(super) fn take_back(&mut self, now: Time) {
        self.asked.retain(|_, asked| !matches!(asked.purpose, Purpose::Answer { .. }));
        for (name, Published { key, .. }) in std::mem::take(&mut self.published) {
            let undo = NameWish::Unpublish { name, key };
            self.send(now, Purpose::Undo { until: now + PATIENCE }, undo);
        }
    }

    /// Two halves of a ring met, and each had given that name away.
    pub(super) fn lose(&mut self, name: &str, to: &JobId) {
        self.published.remove(name);
        let text = format!("the name {name:?} is job {to}'s now, not ours any more");
        self.outputs.push_back(Output::Tell(text));
    }
}

fn name_of(wish: &NameWish) -> &String {
    match wish {
        NameWish::Publish { name, .. }
        | NameWish::Lookup { name, .. }
        | NameWish::Unpublish { name, .. } => name,
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::Rank;
    use pmi_proto::Ticket;

    use super::*;

    const RANK: Asker = (Rank(3), Ticket::FIRST);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn publish() -> NameWish {
        NameWish::Publish { name: "n".into(), value: "v".into(), key: None }
    }

    fn unpublish() -> NameWish {
        NameWish::Unpublish { name: "n".into(), key: None }
    }

    fn outputs(names: &mut Names) -> Vec<Output> {
        names.outputs.drain(..).collect()
    }

    /// Names of which one was published, with request 1.
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
    fn a_new_daemon_hears_of_names_and_of_what_waits_until_it_has_them() {
        let mut names = published();
        names.ask(at(1), RANK, NameWish::Lookup { name: "other".into(), key: None });
        outputs(&mut names);
        let lookup = || Output::Ask(2, NameWish::Lookup { name: "other".into(), key: None });
        for first in [3, 4] {
            names.say_again(at(2));
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
    fn a_name_that_another_took_meanwhile_is_not_ours() {
        let mut names = published();
        names.say_again(at(2));
        outputs(&mut names);
        names.answered(at(2), 2, NameAnswer::Taken);
        assert!(matches!(&outputs(&mut names)[..], [Output::Tell(_)]));
        names.ask(at(3), RANK, NameWish::Lookup { name: "n".into(), key: None });
        assert!(matches!(&outputs(&mut names)[..], [Output::Ask(3, NameWish::Lookup { .. })]));
    }

    #[test]
    fn what_is_taken_back_while_the_daemon_changes_is_not_published_again() {
        let mut names = published();
        names.say_again(at(2));
        names.ask(at(2), RANK, unpublish());
        outputs(&mut names);
        names.answered(at(2), 2, NameAnswer::Done);
        names.say_again(at(3));
        assert_eq!(outputs(&mut names), [Output::Ask(3, unpublish())]);
        names.answered(at(3), 3, NameAnswer::Unknown);
        assert_eq!(outputs(&mut names), [Output::Answer(RANK, unpublish(), NameAnswer::Done)]);
    }

    #[test]
    fn a_name_is_known_here_only_to_who_has_its_key() {
        let key = |words: &[u8]| Some(NameKey::new("n", words));
        let lookup = |key| NameWish::Lookup { name: "n".into(), key };
        let back = |key| NameWish::Unpublish { name: "n".into(), key };
        let wish = NameWish::Publish { name: "n".into(), value: "v".into(), key: key(b"x") };
        let mut names = Names::default();
        names.ask(at(0), RANK, wish.clone());
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
            let mut expected: Vec<Output> = asked.map(|(n, wish)| Output::Ask(n, wish)).into();
            expected.push(unknown);
            assert_eq!(outputs(&mut names), expected);
        }
        names.say_again(at(1));
        assert!(outputs(&mut names).contains(&Output::Ask(6, wish)));
    }

    #[test]
    fn who_waits_too_long_is_told_and_nothing_comes_of_it_later() {
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
