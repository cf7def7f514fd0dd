//! Names that ranks publish and look up: the daemon knows them, and what this host's ranks have published is
//! said again to the next daemon if that one dies.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_proto::manager::Input;
use mpd_proto::message::{ManagerReport, NameAnswer, NameWish};
use mpd_proto::{JobId, Rank, Time};
use pmi_proto::Answer;

use super::{Process, Timer};

/// How long an answer may take: of this host's daemon or the next one, of a ring that is whole or heals.
const PATIENCE: Duration = Duration::from_secs(15);

/// Between two attempts.
const AGAIN: Duration = Duration::from_secs(1);

/// No such name: the word that libraries know.
const UNKNOWN: &str = "service_not_found";

/// What is under way, and what this host's ranks have published.
#[derive(Debug, Default)]
pub(super) struct Names {
    asked: BTreeMap<u32, Asked>,
    last: u32,
    published: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Asked {
    /// Who waits for the answer; nobody for what is said again.
    rank: Option<Rank>,
    wish: NameWish,
    until: Time,
    /// Why it did not work the last time.
    problem: String,
}

impl Process {
    /// A rank wants something about a name, and waits for the answer. Without a rank: something that was
    /// done before is to be done by the next daemon as well.
    pub(super) fn ask_for_name(&mut self, rank: Option<Rank>, wish: NameWish) {
        // What was published here is known here, also while there is no daemon.
        if let (Some(rank), NameWish::Lookup { name }) = (rank, &wish)
            && let Some(value) = self.names.published.get(name)
        {
            let answer = NameAnswer::Value(value.clone());
            return self.answer_name(rank, &wish, &answer);
        }
        self.names.last = self.names.last.wrapping_add(1);
        let (request, until) = (self.names.last, self.now() + PATIENCE);
        let problem = "its daemon does not answer".to_owned();
        self.timers.set(Timer::Name(request), until);
        self.daemon.report(&ManagerReport::Name { request, wish: wish.clone() });
        self.names.asked.insert(request, Asked { rank, wish, until, problem });
    }

    /// The daemon answers.
    pub(super) fn named(&mut self, request: u32, answer: NameAnswer) {
        let now = self.now();
        let Some(asked) = self.names.asked.get_mut(&request) else { return };
        if let NameAnswer::Later(problem) = answer {
            asked.problem = problem;
            self.timers.set(Timer::Name(request), asked.until.min(now + AGAIN));
        } else {
            self.end_asking(request, &answer);
        }
    }

    /// An answer is due, or another attempt.
    pub(super) fn name_is_due(&mut self, request: u32) {
        let now = self.now();
        let Some(asked) = self.names.asked.get(&request) else { return };
        if asked.until <= now {
            let answer = NameAnswer::Failed(asked.problem.clone());
            return self.end_asking(request, &answer);
        }
        self.timers.set(Timer::Name(request), asked.until);
        self.daemon.report(&ManagerReport::Name { request, wish: asked.wish.clone() });
    }

    /// A new daemon knows nothing of what the one before was asked.
    pub(super) fn say_names_again(&mut self) {
        for (&request, asked) in &self.names.asked {
            self.daemon.report(&ManagerReport::Name { request, wish: asked.wish.clone() });
        }
        for (name, value) in self.names.published.clone() {
            self.ask_for_name(None, NameWish::Publish { name, value });
        }
    }

    /// Two halves of a ring met, and each had given that name away.
    pub(super) fn name_lost(&mut self, name: &str, to: &JobId) {
        self.names.published.remove(name);
        self.tell(Input::Notice(format!("the name {name:?} is job {to}'s now, not ours any more")));
    }

    fn end_asking(&mut self, request: u32, answer: &NameAnswer) {
        let Some(Asked { rank, wish, .. }) = self.names.asked.remove(&request) else { return };
        self.timers.stop(Timer::Name(request));
        let (NameWish::Publish { name, .. }
        | NameWish::Lookup { name }
        | NameWish::Unpublish { name }) = &wish;
        match (&wish, answer) {
            (NameWish::Publish { name, value }, NameAnswer::Done) => {
                self.names.published.insert(name.clone(), value.clone());
            }
            (NameWish::Unpublish { name }, _) => drop(self.names.published.remove(name)),
            _ => {}
        }
        let host = &self.order.host;
        let failed = match answer {
            NameAnswer::Failed(problem) => {
                Some(format!("host {host}: the name {name:?} cannot be asked for: {problem}"))
            }
            NameAnswer::Taken if rank.is_none() => Some(format!(
                "host {host}: the name {name:?} is another job's now, not ours any more"
            )),
            _ => None,
        };
        if let Some(text) = failed {
            self.tell(Input::Notice(text));
        }
        if let Some(rank) = rank {
            self.answer_name(rank, &wish, answer);
        }
    }

    fn answer_name(&mut self, rank: Rank, wish: &NameWish, answer: &NameAnswer) {
        let said = match answer {
            NameAnswer::Done => Ok(""),
            NameAnswer::Value(value) => Ok(value.as_str()),
            NameAnswer::Unknown => Err(UNKNOWN),
            NameAnswer::Taken => Err("key_already_present"),
            NameAnswer::Failed(_) | NameAnswer::Later(_) => Err("no_name_service"),
        };
        let Some(client) = self.clients.get_mut(rank) else { return };
        client.pmi.session.answer(match wish {
            NameWish::Publish { .. } => Answer::Published(said.map(drop)),
            NameWish::Lookup { .. } => Answer::Found(said.map(str::as_bytes)),
            NameWish::Unpublish { .. } => Answer::Unpublished(said.map(drop)),
        });
        self.answering.push(rank);
        self.perform_operations(rank);
    }
}
