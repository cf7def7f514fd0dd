//! Looks at ranks for which merged lines wait: whether they get no CPU.
//!
//! Each manager looks at the ranks of its own host. Before the root splits equal lines because of ranks of other hosts, it
//! asks their managers, through the tree. The answers travel behind the output that was read before the look, so the root
//! has that output when it takes the answer. No rank is stopped for that.

use mpd_sansio::Time;
use mpd_wire::message::{Down, Up};
use mpd_wire::{Rank, RankSet, Stream};

use super::Stdio;
use super::facts::{Facts, Here};
use super::input::{Answer, Look, Why};
use super::output::{Level, Output};
use super::sink::alone;
use super::streams::Streams;
use crate::silence::Task;

/// Questions and answers of this turn.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Ranks here to look at, by stream.
    asked: [RankSet; 2],
    answers: Vec<Answer>,
}

/// Most ranges of ranks in one question or answer, so that a frame holds it. The answer about further ranks is missing.
const MAX_RANGES: usize = 2048;

impl Stdio {
    /// Lets a merger wait for overdue ranks that get no CPU, and for those whose output is still to be read.
    pub(super) fn excuse_starved(&mut self, facts: &Facts<'_>, here: &dyn Here, sink: usize) {
        let now = facts.now;
        let mut others = [Vec::new(), Vec::new()];
        for (stream, rank) in self.outputs.sinks[sink].overdue(now) {
            match self.streams.get(&rank) {
                // A debugger that answers for some ranks shows this, also while others run.
                Some(streams) if streams.is_debugged() => {}
                Some(streams) => {
                    let is_unread = streams.sources[stream.index()].is_unread();
                    let writer = (!is_unread).then(|| here.writer(rank));
                    self.outputs.sinks[sink].excuse(now, (stream, rank), writer.as_deref());
                }
                None => others[stream.index()].push(rank),
            }
        }
        if facts.is_root() && facts.spec.debug.is_none() {
            for stream in Stream::BOTH {
                self.ask_others(facts, (sink, stream), &others[stream.index()]);
            }
        }
    }

    /// Asks the managers of other hosts about overdue ranks, if it is time for a question.
    fn ask_others(&mut self, facts: &Facts<'_>, (sink, stream): (usize, Stream), overdue: &[Rank]) {
        if overdue.is_empty() {
            return;
        }
        // A child that is gone answers nothing.
        let mut elsewhere = RankSet::none();
        for child in self.flows.undrained() {
            elsewhere.join(&facts.hosts().subtree_ranks(child));
        }
        let overdue: Vec<Rank> =
            overdue.iter().copied().filter(|rank| elsewhere.contains(*rank)).collect();
        let asked = self.outputs.sinks[sink].question(facts.now, stream, &overdue);
        self.pass_down(facts, stream, &asked);
    }

    /// Takes a question of the parent about ranks here and in the descendants.
    pub(super) fn take_question(&mut self, facts: &Facts<'_>, stream: Stream, ranks: &RankSet) {
        if !ranks.is_within(&facts.hosts().subtree_ranks(facts.tree_index())) {
            let text = "the parent asks about ranks that do not run here";
            return self.log(Level::Debug, text.to_owned());
        }
        self.looks.asked[stream.index()].join(&ranks.common(ranks_at(facts)));
        self.pass_down(facts, stream, ranks);
    }

    /// Takes an answer of a child. [`Stdio::pass_answers`] handles it after the output that came before.
    pub(super) fn take_answer(&mut self, facts: &Facts<'_>, answer: Answer) {
        let known = answer.child.map(|child| facts.hosts().subtree_ranks(child));
        let is_known = |ranks: &RankSet| known.iter().all(|known| ranks.is_within(known));
        if is_known(&answer.behind) && is_known(&answer.others) {
            self.looks.answers.push(answer);
        } else {
            let text = "a child manager answers about ranks that do not run there";
            self.log(Level::Debug, text.to_owned());
        }
    }

    /// The looks at the ranks here about which the parent has asked. Each is followed by
    /// [`Input::Seen`](super::Input::Seen).
    pub fn asked(&mut self) -> Vec<Look> {
        let mut looks = Vec::new();
        for stream in Stream::BOTH {
            let asked = std::mem::take(&mut self.looks.asked[stream.index()]);
            if asked.is_empty() {
                continue;
            }
            let is_debugged = |rank: &Rank| self.streams.get(rank).is_none_or(Streams::is_debugged);
            let here = asked.ranks().filter(|rank| !is_debugged(rank));
            looks.extend(here.map(|rank| Look { rank, stream, why: Why::Question }));
            let answer = Answer { child: None, stream, behind: RankSet::none(), others: asked };
            self.looks.answers.push(answer);
        }
        looks
    }

    /// Takes the result of a look for the parent: whether a rank here gets no CPU, or has written something that is not
    /// yet read.
    pub(super) fn take_look(&mut self, facts: &Facts<'_>, look: Look, writer: Vec<Task>) {
        let Look { rank, stream, .. } = look;
        let Some(streams) = self.streams.get(&rank) else { return };
        let source = &streams.sources[stream.index()];
        // The root itself may keep this manager from reading, while it waits for the rank.
        if source.blocked {
            return;
        }
        let writer = (!source.is_unread()).then_some(writer);
        let sink = self.outputs.console_sink(stream);
        let is_behind = sink.excuse(facts.now, (stream, rank), writer.as_deref());
        let is_own = |answer: &&mut Answer| answer.child.is_none() && answer.stream == stream;
        if let (true, Some(answer)) = (is_behind, self.looks.answers.iter_mut().find(is_own)) {
            answer.behind.insert(rank);
            answer.others.remove(&alone(rank));
        }
    }

    /// Passes answers to the parent; the root takes them. The output that was read before is on its way.
    pub fn pass_answers(&mut self, facts: &Facts<'_>) {
        for mut answer in std::mem::take(&mut self.looks.answers) {
            self.settle(&mut answer, facts.is_root());
            let Answer { stream, behind, others, .. } = answer;
            if facts.is_root() {
                self.take_looks(facts.now, stream, [(&behind, true), (&others, false)]);
            } else {
                let (behind, others) = (bounded(&behind), bounded(&others));
                self.emit(Output::ToParentIfRoom(Up::Looked { stream, behind, others }));
            }
        }
    }

    /// Ranks with lines in the merger here are behind. If output waits for credit, no rank is: the root may hold that
    /// output back until it has split the line.
    fn settle(&mut self, answer: &mut Answer, is_root: bool) {
        let flow = answer.child.and_then(|child| self.flows.get(child, answer.stream));
        let is_stuck = flow.is_some_and(|flow| !flow.is_empty());
        let sink = self.outputs.console_sink(answer.stream);
        if is_stuck || !(is_root || sink.has_sent()) {
            answer.others.join(&std::mem::take(&mut answer.behind));
        } else if !is_root {
            let waiting = |rank: &Rank| sink.has_waiting(answer.stream, *rank);
            let waiting = answer.others.ranks().filter(waiting).collect();
            answer.others.remove(&waiting);
            answer.behind.join(&waiting);
        }
    }

    fn take_looks(&mut self, now: Time, stream: Stream, looks: [(&RankSet, bool); 2]) {
        let sink = self.outputs.console_sink(stream);
        for (ranks, is_behind) in looks {
            ranks.ranks().for_each(|rank| sink.answer(now, (stream, rank), is_behind));
        }
    }

    /// Passes a question to the children with these ranks.
    fn pass_down(&mut self, facts: &Facts<'_>, stream: Stream, ranks: &RankSet) {
        if ranks.is_empty() {
            return;
        }
        for child in facts.hosts().children(facts.tree_index()) {
            let ranks = bounded(&ranks.common(&facts.hosts().subtree_ranks(child)));
            if !ranks.is_empty() {
                self.emit(Output::ToChild(child, Down::LookAt { stream, ranks }));
            }
        }
    }
}

/// The ranks of the first world on this host.
fn ranks_at<'a>(facts: &Facts<'a>) -> &'a RankSet {
    const NONE: &RankSet = &RankSet::none();
    facts.order.host_slices.get(facts.tree_index()).map_or(NONE, |host_slice| &host_slice.ranks)
}

fn bounded(ranks: &RankSet) -> RankSet {
    ranks.parts(MAX_RANGES).next().unwrap_or_default()
}
