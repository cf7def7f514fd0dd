//! Processes of a job that are kept still for a moment, so that they can be examined before a signal ends them; or until
//! the user continues them.
//!
//! The freezer of a control group does that with one write for all its processes, and they do not notice it. Processes
//! outside the group, and all processes of a job without a group, get SIGSTOP.
//!
//! A process may fork until it is still. So its children are looked up when it is still, once. Its orphans become
//! children of the manager, which are looked up each time.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use mpd_wire::Pid;

use crate::input::Answer;
use crate::output::Question;
use crate::signal_target::SignalTarget;

/// Only every so many looks ask in `/proc` for children that the kernel does not report as still: other processes may
/// trace them. That costs twenty times as much.
const LOOKS_PER_TRACED: u32 = 4;

/// The processes that are to be kept still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    /// Those that this signal will end.
    Affected(i32, SignalTarget),
}

/// The control group.
#[derive(Debug, Default)]
enum Group {
    /// There is none, or it cannot be frozen.
    #[default]
    None,
    /// It is frozen at the next look.
    ToFreeze,
    /// It was ordered to freeze. Its processes, as soon as all are frozen.
    Freezing(Option<BTreeSet<Pid>>),
}

/// Processes that are still, or will be.
#[derive(Debug, Default)]
pub(crate) struct Still {
    group: Group,
    /// The processes to stop.
    seen: BTreeSet<Pid>,
    /// Those that were not stopped before.
    ours: BTreeSet<Pid>,
    /// Those that may not be still.
    moving: Vec<Pid>,
    unwanted: BTreeSet<Pid>,
    looks: u32,
    look: Option<Look>,
}

/// A look at the processes, which continues with each answer.
#[derive(Debug)]
struct Look {
    wanted: Wanted,
    /// Stopped processes that may not be still.
    to_check: VecDeque<Pid>,
    /// Processes to be judged.
    found: VecDeque<Pid>,
    also_traced: bool,
    awaits: Awaits,
}

/// The question that a look has asked.
#[derive(Clone, Copy, Debug)]
enum Awaits {
    Children,
    Freeze,
    IsFrozen,
    Members,
    IsStill(Pid),
    ChildrenOf(Pid),
    Rank(Pid),
    Effect(Pid),
    Stop(Pid, WasStopped),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WasStopped {
    Yes,
    /// Unknown counts as running.
    No,
}

/// The next part of a look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Ask(Question),
    /// It has ended. Whether all are still, and none can be missing. Otherwise another look is needed, after a pause.
    Done(bool),
}

impl Still {
    /// Nothing is still before the first look.
    pub(crate) fn begin(has_group: bool) -> Self {
        let group = if has_group { Group::ToFreeze } else { Group::None };
        Self { group, ..Self::default() }
    }

    /// Begins a look. It freezes the group, if there is one and the manager has children at all. It stops the descendants
    /// outside the group that are `wanted`, but none below an unwanted one. Each is judged once.
    pub(crate) fn look(&mut self, wanted: Wanted) -> Question {
        self.look = Some(Look {
            wanted,
            to_check: VecDeque::new(),
            found: VecDeque::new(),
            also_traced: false,
            awaits: Awaits::Children,
        });
        Question::Children
    }

    /// Continues the look with the answer to its question.
    pub(crate) fn take(&mut self, answer: Answer) -> Progress {
        let Some(mut look) = self.look.take() else { return Progress::Done(self.is_complete()) };
        let next = match (look.awaits, answer) {
            (Awaits::Children, Answer::Pids(children)) => {
                look.found = children.into();
                self.with_children(&look)
            }
            (Awaits::Freeze, Answer::Is(true)) => {
                self.group = Group::Freezing(None);
                Next::Ask(Awaits::IsFrozen)
            }
            (Awaits::Freeze, Answer::Is(false)) => {
                self.group = Group::None;
                Next::Check
            }
            (Awaits::IsFrozen, Answer::Is(true)) => Next::Ask(Awaits::Members),
            (Awaits::IsFrozen, Answer::Is(false)) | (Awaits::Members, Answer::Members(None)) => {
                return Progress::Done(false);
            }
            (Awaits::Members, Answer::Members(members)) => {
                self.group = Group::Freezing(members);
                Next::Check
            }
            (Awaits::IsStill(pid), Answer::Is(true)) => Next::Ask(Awaits::ChildrenOf(pid)),
            (Awaits::IsStill(pid), Answer::Is(false)) => {
                self.moving.push(pid);
                Next::Judge
            }
            (Awaits::ChildrenOf(_), Answer::Pids(children)) => {
                look.found.extend(children);
                Next::Judge
            }
            (Awaits::Rank(pid), Answer::Rank(rank)) => match &look.wanted {
                Wanted::Affected(_, target) if rank.is_some_and(|rank| target.means(rank)) => {
                    Next::Ask(Awaits::Effect(pid))
                }
                Wanted::All | Wanted::Affected(..) => self.refuse(pid),
            },
            (Awaits::Effect(pid), Answer::Effect { takes: true, was_stopped }) => {
                let was_stopped = if was_stopped { WasStopped::Yes } else { WasStopped::No };
                Next::Ask(Awaits::Stop(pid, was_stopped))
            }
            (Awaits::Effect(pid), Answer::Effect { takes: false, .. }) => self.refuse(pid),
            (Awaits::Stop(pid, was_stopped), Answer::Is(is_sent)) => {
                self.add(pid, is_sent && was_stopped == WasStopped::No)
            }
            (awaits, answer) => unreachable!("{answer:?} does not answer {awaits:?}"),
        };
        self.go_on(look, next)
    }

    fn with_children(&mut self, look: &Look) -> Next {
        match &self.group {
            Group::None | Group::Freezing(Some(_)) => Next::Check,
            Group::Freezing(None) => Next::Ask(Awaits::IsFrozen),
            Group::ToFreeze if look.found.is_empty() => {
                self.group = Group::None;
                Next::Check
            }
            Group::ToFreeze => Next::Ask(Awaits::Freeze),
        }
    }

    /// Asks the next question of the look, if it has one.
    fn go_on(&mut self, mut look: Look, next: Next) -> Progress {
        let awaits = match next {
            Next::Ask(awaits) => Some(awaits),
            Next::Check => {
                self.looks = self.looks.wrapping_add(1);
                look.also_traced = self.looks.is_multiple_of(LOOKS_PER_TRACED);
                look.to_check = mem::take(&mut self.moving).into();
                self.judge(&mut look)
            }
            Next::Judge => self.judge(&mut look),
        };
        let Some(awaits) = awaits else { return Progress::Done(self.moving.is_empty()) };
        look.awaits = awaits;
        let question = look.question();
        self.look = Some(look);
        Progress::Ask(question)
    }

    /// Finds the next process about which something is to be asked.
    fn judge(&mut self, look: &mut Look) -> Option<Awaits> {
        if let Some(pid) = look.to_check.pop_front() {
            return Some(Awaits::IsStill(pid));
        }
        while let Some(pid) = look.found.pop_front() {
            if self.seen.contains(&pid) || self.unwanted.contains(&pid) {
                continue;
            }
            if matches!(&self.group, Group::Freezing(Some(members)) if members.contains(&pid)) {
                self.unwanted.insert(pid);
                continue;
            }
            return Some(match look.wanted {
                Wanted::All => Awaits::Stop(pid, WasStopped::No),
                Wanted::Affected(..) => Awaits::Rank(pid),
            });
        }
        None
    }

    fn refuse(&mut self, pid: Pid) -> Next {
        self.unwanted.insert(pid);
        Next::Judge
    }

    fn add(&mut self, pid: Pid, is_ours: bool) -> Next {
        if is_ours {
            self.ours.insert(pid);
        }
        self.seen.insert(pid);
        self.moving.push(pid);
        Next::Judge
    }

    /// Judges the unwanted descendants again, for another purpose. Those below processes that are still are among them.
    pub(crate) fn judge_again(&mut self) {
        self.unwanted.clear();
        self.moving = self.seen.iter().copied().collect();
    }

    /// Whether all are still, as the last look ended.
    pub(crate) const fn is_complete(&self) -> bool {
        !matches!(self.group, Group::Freezing(None)) && self.moving.is_empty()
    }

    /// Whether there is nothing to wait for: no group, and no wanted descendant.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_frozen() && self.seen.is_empty()
    }

    /// Whether the group is frozen, or about to be.
    pub(crate) const fn is_frozen(&self) -> bool {
        matches!(self.group, Group::Freezing(_))
    }

    /// All processes that are known.
    pub(crate) fn pids(&self) -> VecDeque<Pid> {
        let members = match &self.group {
            Group::Freezing(Some(members)) => Some(members),
            Group::None | Group::ToFreeze | Group::Freezing(None) => None,
        };
        members.into_iter().flatten().chain(&self.seen).copied().collect()
    }

    /// Removes a process that was reaped: its number may be reused.
    pub(crate) fn forget(&mut self, pid: Pid) {
        if let Group::Freezing(Some(members)) = &mut self.group {
            members.remove(&pid);
        }
        self.seen.remove(&pid);
        self.ours.remove(&pid);
        self.unwanted.remove(&pid);
    }

    /// Those that got SIGSTOP, and did not have it before.
    pub(crate) fn into_ours(self) -> BTreeSet<Pid> {
        self.ours
    }
}

/// The next part of a look after an answer.
enum Next {
    Ask(Awaits),
    /// Check which stopped processes are still, then judge those that were found.
    Check,
    Judge,
}

impl Look {
    fn question(&self) -> Question {
        let (signal, whole_group) = match &self.wanted {
            Wanted::All => (0, false),
            Wanted::Affected(signal, target) => (*signal, target.means_groups()),
        };
        match self.awaits {
            Awaits::Children => Question::Children,
            Awaits::Freeze => Question::Freeze,
            Awaits::IsFrozen => Question::IsFrozen,
            Awaits::Members => Question::Members,
            Awaits::IsStill(pid) => Question::IsStill(pid, self.also_traced),
            Awaits::ChildrenOf(pid) => Question::ChildrenOf(pid),
            Awaits::Rank(pid) => Question::RankOf(pid, whole_group),
            Awaits::Effect(pid) => Question::Effect(pid, signal),
            Awaits::Stop(pid, _) => Question::Stop(pid),
        }
    }
}
