//! The stacks of all ranks of a running job, taken without a user. Each debugger that has attached
//! gets one request for them, and then leaves its rank at once.
//!
//! The owner drives it like the other machines, by `debugger_line`, `handle_timeout`, `poll_output` and
//! `poll_timeout`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::numbers::Numbers;
use super::prompt::{Content, DebuggerLine, Mark, QUIT_WITHIN, State};
use super::stacks::{self, Stacks};
use mpd_sansio::{Time, UNDRAINED};
use mpd_wire::{Rank, RankSet};

/// If no debugger sends a line for this time, the survey gives up the missing ones.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Serial numbers of the two commands.
const STACKS: u32 = 1;
const QUIT: u32 = 2;

/// An action for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this line to the debuggers of these ranks, by their own numbers.
    Send { ranks: RankSet, line: String },
    /// End the debuggers.
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Attaching,
    Asked,
    Done,
}

/// The module's documentation describes it.
#[derive(Debug)]
pub struct Survey {
    numbers: Numbers,
    stages: BTreeMap<Rank, Stage>,
    stacks: Stacks,
    /// The ranks of which there is a stack.
    seen: RankSet,
    /// The first refusal of each debugger, with its ranks.
    refusals: Vec<(RankSet, String)>,
    refused: RankSet,
    /// The ranks that did not answer in time.
    silent: RankSet,
    /// The time of the last line of a debugger.
    received: Time,
    /// The time at which the last debugger got the command to leave.
    left: Option<Time>,
    outputs: VecDeque<Output>,
}

impl Survey {
    /// A survey of these ranks, whose debuggers will attach next.
    pub fn new(numbers: Numbers, now: Time) -> Self {
        let stages = numbers.everybody().ranks().map(|rank| (rank, Stage::Attaching)).collect();
        Self {
            numbers,
            stages,
            stacks: Stacks::default(),
            seen: RankSet::none(),
            refusals: Vec::new(),
            refused: RankSet::none(),
            silent: RankSet::none(),
            received: now,
            left: None,
            outputs: VecDeque::new(),
        }
    }

    /// A line of the debuggers, without its newline.
    pub fn debugger_line(&mut self, now: Time, line: &[u8]) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        let DebuggerLine { ranks, content } = DebuggerLine::parse(line, &self.numbers);
        match content {
            Content::Stack(stack) => {
                let stack = String::from_utf8_lossy(stack);
                self.stacks.add(&ranks, &stack);
                match stacks::why_unread(&stack) {
                    Some(why) => self.refuse(ranks, format!("thread {why}")),
                    None => self.seen.join(&ranks),
                }
            }
            Content::Refusal(text) => {
                self.refuse(ranks, String::from_utf8_lossy(text).into_owned());
            }
            Content::Mark(mark) => self.mark(now, &ranks, &mark),
            Content::Program(_)
            | Content::Piece(_)
            | Content::Text(_)
            | Content::Completion(_)
            | Content::Foreign(_) => {}
        }
    }

    fn refuse(&mut self, mut ranks: RankSet, why: String) {
        ranks.remove(&self.refused);
        if !ranks.is_empty() {
            self.refused.join(&ranks);
            self.refusals.push((ranks, why));
        }
    }

    fn mark(&mut self, now: Time, ranks: &RankSet, mark: &Mark) {
        self.received = now;
        let (mut ask, mut dismiss) = (RankSet::none(), RankSet::none());
        for rank in ranks.ranks() {
            let Some(stage) = self.stages.get_mut(&rank) else { continue };
            match (*stage, &mark.state) {
                (Stage::Done, _) | (Stage::Attaching, State::Running) => {}
                (Stage::Attaching, State::Stopped(_)) => {
                    *stage = Stage::Asked;
                    ask.insert(rank);
                }
                (Stage::Asked, State::Stopped(_)) if mark.serial < STACKS => {}
                _ => {
                    *stage = Stage::Done;
                    dismiss.insert(rank);
                }
            }
        }
        self.send(&ask, STACKS, "stacks");
        self.dismiss(now, &dismiss);
    }

    fn dismiss(&mut self, now: Time, ranks: &RankSet) {
        self.send(ranks, QUIT, "quit");
        if self.left.is_none() && self.stages.values().all(|stage| *stage == Stage::Done) {
            self.left = Some(now);
        }
    }

    fn send(&mut self, ranks: &RankSet, serial: u32, word: &str) {
        if !ranks.is_empty() {
            let (ranks, line) = (self.numbers.own(ranks), format!("{serial} {word}"));
            self.outputs.push_back(Output::Send { ranks, line });
        }
    }

    /// Does the work that is due.
    pub fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.poll_timeout() > now {
            return;
        }
        if let Some(left) = &mut self.left {
            *left = now;
            return self.outputs.push_back(Output::Kill);
        }
        let mut late = RankSet::none();
        for (rank, stage) in self.stages.iter_mut().filter(|(_, stage)| **stage != Stage::Done) {
            *stage = Stage::Done;
            late.insert(*rank);
        }
        self.silent = late.clone();
        self.dismiss(now, &late);
    }

    /// The time at which [`Survey::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Time {
        self.left.map_or(self.received + ANSWER_WITHIN, |left| left + QUIT_WITHIN)
    }

    /// The next action.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The stacks that were taken.
    pub const fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// Whether a stack was taken.
    pub fn has_stacks(&self) -> bool {
        !self.seen.is_empty()
    }

    /// The ranks whose stacks could not be taken, with the reasons.
    pub fn missing(&self) -> Vec<(RankSet, String)> {
        let mut reasons: BTreeMap<String, RankSet> = BTreeMap::new();
        for rank in self.stages.keys().copied().filter(|rank| !self.seen.contains(*rank)) {
            let refusal = self.refusals.iter().find(|(ranks, _)| ranks.contains(rank));
            let reason = match refusal {
                _ if self.silent.contains(rank) => {
                    format!("its debugger has not answered for {} s", ANSWER_WITHIN.as_secs())
                }
                Some((_, text)) => text.clone(),
                None => "its debugger has not given a reason".to_owned(),
            };
            reasons.entry(reason).or_default().insert(rank);
        }
        let mut missing: Vec<_> = reasons.into_iter().map(|(why, ranks)| (ranks, why)).collect();
        missing.sort_by_key(|(ranks, _)| ranks.ranks().next());
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(ranks: &str) -> Survey {
        Survey::new(Numbers::of_some(&ranks.parse().unwrap()), Time::ZERO)
    }

    /// The commands that it sends because of lines.
    fn reported(survey: &mut Survey, lines: &[&str]) -> Vec<String> {
        let mut all = Vec::new();
        for line in lines {
            survey.debugger_line(Time::ZERO, line.as_bytes());
            all.extend(sent(survey));
        }
        all
    }

    fn sent(survey: &mut Survey) -> Vec<String> {
        let text = |output| match output {
            Output::Send { ranks, line } => format!("{ranks}: {line}"),
            Output::Kill => "kill".to_owned(),
        };
        std::iter::from_fn(|| survey.poll_output()).map(text).collect()
    }

    #[test]
    fn each_rank_is_asked_when_its_debugger_has_attached_and_left_when_it_has_answered() {
        let mut survey = survey("4-6");
        assert_eq!(reported(&mut survey, &["0,2: =0 stopped poll ? ?"]), ["0,2: 1 stacks"]);
        let lines = ["0,2: #main at a.c:3\twork at a.c:1", "2: =1 stopped poll ? ?"];
        assert_eq!(reported(&mut survey, &lines), ["2: 2 quit"]);
        let lines =
            ["1: !ptrace: Operation not permitted.", "1: =0 idle", "0: =1 stopped poll ? ?"];
        assert_eq!(reported(&mut survey, &lines), ["1: 2 quit", "0: 2 quit"]);
        assert_eq!(survey.stacks().text(), "4,6: main at a.c:3\n  4,6: work at a.c:1\n");
        let why = "ptrace: Operation not permitted.".to_owned();
        assert_eq!(survey.missing(), [("5".parse().unwrap(), why)]);
    }

    #[test]
    fn a_rank_is_missing_when_none_of_its_threads_could_be_read() {
        let mut survey = survey("0-1");
        reported(&mut survey, &["0-1: =0 stopped poll ? ?"]);
        let unread = ["?? (thread 1: gone)", "?? (thread 2: no such memory)"];
        reported(&mut survey, &["0: #main at a.c:3", &format!("0-1: #{}", unread[1])]);
        reported(&mut survey, &[&format!("1: #{}", unread[0]), "0-1: =1 stopped poll ? ?"]);
        let expected = format!("0-1: {}\n0: main at a.c:3\n1: {}\n", unread[1], unread[0]);
        assert_eq!(survey.stacks().text(), expected);
        let why = "thread 2: no such memory".to_owned();
        assert_eq!(survey.missing(), [("1".parse().unwrap(), why)]);
    }

    #[test]
    fn a_rank_that_does_not_answer_is_given_up_and_reported() {
        let mut survey = survey("0-1");
        let lines = ["0: =0 stopped poll ? ?", "0: #main at a.c:3", "0: =1 stopped poll ? ?"];
        assert_eq!(reported(&mut survey, &lines).len(), 2);
        let late = Time::ZERO + ANSWER_WITHIN;
        survey.handle_timeout(late);
        assert_eq!(sent(&mut survey), ["1: 2 quit"]);
        assert_eq!(survey.missing().len(), 1);
        survey.handle_timeout(late + QUIT_WITHIN);
        assert_eq!(sent(&mut survey), ["kill"]);
    }
}
