//! The state of each rank's debugger: its last command, and its last answer.

use std::collections::BTreeMap;

use crate::prompt::debugger_line::{Mark, State};
use mpd_wire::{Rank, RankSet};

#[derive(Clone, Debug)]
struct Course {
    /// Serial of the last command that is answered by a mark.
    asked: u32,
    /// Serial of the last mark; `None` before the debugger's first mark.
    answered: Option<u32>,
    state: State,
    /// Its program was started since the job began, or since the last restart.
    ran: bool,
    /// The rank was spawned by a program. It ends with its program.
    spawned: bool,
}

impl Course {
    const fn new(spawned: bool) -> Self {
        Self { asked: 0, answered: None, state: State::Idle, ran: false, spawned }
    }

    fn is_ready(&self) -> bool {
        self.answered.is_some_and(|serial| serial >= self.asked)
    }

    fn is_live(&self) -> bool {
        self.state != State::Ended
    }
}

/// The debuggers of all ranks.
#[derive(Debug)]
pub(super) struct Ranks(BTreeMap<Rank, Course>);

impl Ranks {
    pub(super) fn new(ranks: &RankSet) -> Self {
        Self(ranks.ranks().map(|rank| (rank, Course::new(false))).collect())
    }

    /// All ranks: those of the job, and spawned ones that have not ended.
    pub(super) fn everybody(&self) -> RankSet {
        self.0.keys().copied().collect()
    }

    /// Adds spawned ranks. Returns those that are new.
    pub(super) fn add(&mut self, ranks: &RankSet) -> RankSet {
        let new: RankSet = ranks.ranks().filter(|rank| !self.0.contains_key(rank)).collect();
        self.0.extend(new.ranks().map(|rank| (rank, Course::new(true))));
        new
    }

    /// No spawned rank is left.
    pub(super) fn remove_spawned(&mut self) {
        self.0.retain(|_, course| !course.spawned);
    }

    fn each(&mut self, ranks: &RankSet, mut change: impl FnMut(&mut Course)) {
        for rank in ranks.ranks() {
            if let Some(course) = self.0.get_mut(&rank) {
                change(course);
            }
        }
    }

    /// Those of `ranks` for which `is_so` is true. `ranks` belong to this job.
    fn filter(&self, ranks: &RankSet, is_so: impl Fn(&Course) -> bool) -> RankSet {
        ranks.ranks().filter(|rank| self.0.get(rank).is_some_and(&is_so)).collect()
    }

    /// The ranks whose debugger has not ended.
    pub(super) fn live(&self, ranks: &RankSet) -> RankSet {
        self.filter(ranks, Course::is_live)
    }

    /// The ranks that have answered everything, with the program in any state.
    pub(super) fn ready(&self, ranks: &RankSet) -> RankSet {
        self.filter(ranks, |course| course.is_live() && course.is_ready())
    }

    /// The ranks that have not answered their last command.
    pub(super) fn busy(&self, ranks: &RankSet) -> RankSet {
        self.filter(ranks, |course| {
            course.is_live() && course.answered.is_some() && !course.is_ready()
        })
    }

    /// The ranks whose programs run, as far as known: in the background, or because of a command.
    pub(super) fn running(&self, ranks: &RankSet) -> RankSet {
        let runs = |course: &Course| !course.is_ready() || course.state == State::Running;
        self.filter(ranks, |course| course.is_live() && course.answered.is_some() && runs(course))
    }

    /// Whether no answer of these ranks is missing.
    pub(super) fn are_ready(&self, ranks: &RankSet) -> bool {
        let is_waited_for = |course: &Course| !course.is_ready() && course.is_live();
        self.filter(ranks, is_waited_for).is_empty()
    }

    /// Whether one of the debuggers has sent a mark.
    pub(super) fn have_begun(&self) -> bool {
        self.0.iter().any(|(_, course)| course.answered.is_some())
    }

    /// Whether the program of one of these ranks was started.
    pub(super) fn have_run(&self, ranks: &RankSet) -> bool {
        !self.filter(ranks, |course| course.ran).is_empty()
    }

    /// A command with this serial goes to these ranks.
    pub(super) fn ask(&mut self, ranks: &RankSet, serial: u32) {
        self.each(ranks, |course| course.asked = serial);
    }

    /// The programs of these ranks are started.
    pub(super) fn start(&mut self, ranks: &RankSet) {
        self.each(ranks, |course| course.ran = true);
    }

    /// All programs count as not started.
    pub(super) fn renew(&mut self) {
        self.0.values_mut().for_each(|course| course.ran = false);
    }

    /// Takes a mark of these ranks. Returns the ranks of the job whose debugger has just ended.
    pub(super) fn answer(&mut self, ranks: &RankSet, mark: &Mark) -> RankSet {
        let ended = match mark.state {
            State::Ended => self.filter(ranks, |course| course.is_live() && !course.spawned),
            _ => RankSet::none(),
        };
        if matches!(mark.state, State::Ended | State::Exited(_) | State::Died(_)) {
            self.0.retain(|rank, course| !(course.spawned && ranks.contains(*rank)));
        }
        self.each(ranks, |course| {
            course.answered = Some(mark.serial.max(course.answered.unwrap_or(0)));
            course.state = mark.state.clone();
            // The program may also have been started by a script of gdb.
            course.ran |= !matches!(mark.state, State::Idle | State::Ended);
        });
        ended
    }

    /// The ranks in groups of equal state, the lowest ranks first.
    pub(super) fn groups(&self) -> Vec<(RankSet, String)> {
        let mut groups: BTreeMap<(bool, &State), Vec<(u32, u32)>> = BTreeMap::new();
        for (Rank(rank), course) in &self.0 {
            let is_busy = course.is_live() && !course.is_ready();
            let state = if is_busy { &State::Running } else { &course.state };
            let is_new = course.is_live() && course.answered.is_none();
            groups.entry((is_new, state)).or_default().push((*rank, *rank));
        }
        let reported = |((is_new, state), ranks): ((bool, &State), Vec<_>)| {
            let text = if is_new { "its debugger starts".into() } else { state.to_string() };
            (RankSet::from_ranges(ranks), text)
        };
        let mut groups: Vec<_> = groups.into_iter().map(reported).collect();
        groups.sort_by_key(|(ranks, _)| ranks.ranks().next().map(|Rank(rank)| rank));
        groups
    }
}
