//! How far each rank's debugger is: what it was asked last, and what it answered.

use std::collections::BTreeMap;

use crate::debug::front::said::{Mark, State};
use crate::id::Rank;
use crate::rankset::RankSet;

#[derive(Clone, Debug)]
struct Course {
    /// Serial of the last command that is answered by a mark.
    asked: u32,
    /// That of the last mark; none before the debugger's first word.
    answered: Option<u32>,
    state: State,
    /// Its program was started since the job began or was started again.
    ran: bool,
}

impl Course {
    fn is_ready(&self) -> bool {
        self.answered.is_some_and(|serial| serial >= self.asked)
    }

    fn is_live(&self) -> bool {
        self.state != State::Ended
    }
}

/// The debuggers of all ranks.
#[derive(Debug)]
pub(super) struct Ranks(Vec<Course>);

impl Ranks {
    pub(super) fn new(size: u32) -> Self {
        let course = Course { asked: 0, answered: None, state: State::Idle, ran: false };
        Self(vec![course; size as usize])
    }

    /// Those of `ranks` for which `is_so` holds. `ranks` are of this job.
    fn filter(&self, ranks: &RankSet, is_so: impl Fn(&Course) -> bool) -> RankSet {
        ranks.ranks().filter(|rank| is_so(&self.0[rank.0 as usize])).collect()
    }

    /// Those whose debugger has not ended.
    pub(super) fn live(&self, ranks: &RankSet) -> RankSet {
        self.filter(ranks, Course::is_live)
    }

    /// Those that have answered everything, in whatever state.
    pub(super) fn ready(&self, ranks: &RankSet) -> RankSet {
        self.filter(ranks, |course| course.is_live() && course.is_ready())
    }

    /// Those that have not answered their last command.
    pub(super) fn busy(&self, ranks: &RankSet) -> RankSet {
        self.filter(ranks, |course| {
            course.is_live() && course.answered.is_some() && !course.is_ready()
        })
    }

    /// Those whose programs run, as far as that is known: in the background, or because of a command.
    pub(super) fn running(&self, ranks: &RankSet) -> RankSet {
        let runs = |course: &Course| !course.is_ready() || course.state == State::Running;
        self.filter(ranks, |course| course.is_live() && course.answered.is_some() && runs(course))
    }

    /// Whether none of them is waited for.
    pub(super) fn are_ready(&self, ranks: &RankSet) -> bool {
        ranks.ranks().all(|rank| {
            let course = &self.0[rank.0 as usize];
            course.is_ready() || !course.is_live()
        })
    }

    /// Whether one of the debuggers was heard.
    pub(super) fn have_begun(&self) -> bool {
        self.0.iter().any(|course| course.answered.is_some())
    }

    /// Whether the program of one of them was started.
    pub(super) fn have_run(&self, ranks: &RankSet) -> bool {
        ranks.ranks().any(|rank| self.0[rank.0 as usize].ran)
    }

    /// A command with this serial goes to them.
    pub(super) fn ask(&mut self, ranks: &RankSet, serial: u32) {
        ranks.ranks().for_each(|rank| self.0[rank.0 as usize].asked = serial);
    }

    /// Their programs are started.
    pub(super) fn start(&mut self, ranks: &RankSet) {
        ranks.ranks().for_each(|rank| self.0[rank.0 as usize].ran = true);
    }

    /// No program was started any more.
    pub(super) fn renew(&mut self) {
        self.0.iter_mut().for_each(|course| course.ran = false);
    }

    /// They have answered; returns those whose debugger has just ended.
    pub(super) fn answer(&mut self, ranks: &RankSet, mark: &Mark) -> RankSet {
        let ended = match mark.state {
            State::Ended => self.live(ranks),
            _ => RankSet::none(),
        };
        for rank in ranks.ranks() {
            let course = &mut self.0[rank.0 as usize];
            course.answered = Some(mark.serial.max(course.answered.unwrap_or(0)));
            course.state = mark.state.clone();
        }
        ended
    }

    /// Who does what, the lowest ranks first.
    pub(super) fn groups(&self) -> Vec<(RankSet, String)> {
        let mut groups: BTreeMap<(bool, &State), Vec<(u32, u32)>> = BTreeMap::new();
        for (rank, course) in (0..).zip(&self.0) {
            let is_busy = course.is_live() && !course.is_ready();
            let state = if is_busy { &State::Running } else { &course.state };
            let is_new = course.is_live() && course.answered.is_none();
            groups.entry((is_new, state)).or_default().push((rank, rank));
        }
        let told = |((is_new, state), ranks): ((bool, &State), Vec<_>)| {
            let text = if is_new { "its debugger starts".into() } else { state.to_string() };
            (RankSet::from_ranges(ranks), text)
        };
        let mut groups: Vec<_> = groups.into_iter().map(told).collect();
        groups.sort_by_key(|(ranks, _)| ranks.ranks().next().map(|Rank(rank)| rank));
        groups
    }
}
