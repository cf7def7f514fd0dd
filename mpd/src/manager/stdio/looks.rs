//! Looks at ranks for which merged lines wait: whether they get no CPU.
//!
//! Each manager looks at the ranks of its own host. Before the root splits equal lines because of ranks of other hosts, it
//! asks their managers, through the tree. The answers travel behind the output that was read before the look, so the root
//! has that output when it takes the answer. No rank is stopped for that.

use mpd_sansio::Time;
use mpd_wire::message::{Down, Up};
use mpd_wire::{Rank, RankSet, Stream};

use super::Stdio;
use super::answer::Answer;
use crate::manager::context::{Job, Turn};
use crate::manager::event::{Event, ForLinks};

/// Most ranges of ranks in one question or answer, so that a frame holds it. The answer about further ranks is missing.
const MAX_RANGES: usize = 2048;

impl Stdio {
    /// Lets a merger wait for overdue ranks that get no CPU, and for those whose output is still to be read.
    pub(super) fn excuse_starved(&mut self, turn: &mut Turn<'_>, sink: usize) {
        let now = turn.now();
        let mut others = [Vec::new(), Vec::new()];
        for (stream, rank) in self.outputs.sinks[sink].overdue(now) {
            match self.pipes.get(&rank) {
                // A debugger that answers for some ranks shows this, also while others run.
                Some(pipes) if pipes.is_debugged() => {}
                Some(pipes) => {
                    let is_unread = pipes.sources[stream.index()].is_unread();
                    let writer = (!is_unread).then(|| pipes.writer());
                    self.outputs.sinks[sink].excuse(now, (stream, rank), writer.as_deref());
                }
                None => others[stream.index()].push(rank),
            }
        }
        if turn.job.is_root() && turn.job.spec.debug.is_none() {
            for stream in Stream::BOTH {
                self.ask_others(turn, (sink, stream), &others[stream.index()]);
            }
        }
    }

    /// Asks the managers of other hosts about overdue ranks, if it is time for a question.
    fn ask_others(
        &mut self,
        turn: &mut Turn<'_>,
        (sink, stream): (usize, Stream),
        overdue: &[Rank],
    ) {
        if overdue.is_empty() {
            return;
        }
        // A child that is gone answers nothing.
        let mut elsewhere = RankSet::none();
        for child in self.flows.undrained() {
            elsewhere.join(&turn.job.order.host_slices.subtree_ranks(child));
        }
        let overdue: Vec<Rank> =
            overdue.iter().copied().filter(|rank| elsewhere.contains(*rank)).collect();
        let asked = self.outputs.sinks[sink].question(turn.now(), stream, &overdue);
        pass_down(turn, stream, &asked);
    }

    /// Takes a question of the parent about ranks here and in the descendants.
    pub(in crate::manager) fn take_question(
        &mut self,
        turn: &mut Turn<'_>,
        stream: Stream,
        ranks: &RankSet,
    ) {
        let job = turn.job;
        if !ranks.is_within(&job.order.host_slices.subtree_ranks(job.tree_index())) {
            return log::debug!("the parent asks about ranks that do not run here");
        }
        self.looks.asked[stream.index()].join(&ranks.common(ranks_at(job)));
        pass_down(turn, stream, ranks);
    }

    /// Takes an answer of a child. [`Stdio::pass_answers`] handles it after the output that came before.
    pub(in crate::manager) fn take_answer(&mut self, job: &Job, answer: Answer) {
        let known = answer.child.map(|child| job.order.host_slices.subtree_ranks(child));
        let is_known = |ranks: &RankSet| known.iter().all(|known| ranks.is_within(known));
        if is_known(&answer.behind) && is_known(&answer.others) {
            self.looks.answers.push(answer);
        } else {
            log::debug!("a child manager answers about ranks that do not run there");
        }
    }

    /// Looks at the ranks here about which the parent has asked.
    pub(super) fn look_at_asked(&mut self, turn: &mut Turn<'_>) {
        for stream in Stream::BOTH {
            let asked = std::mem::take(&mut self.looks.asked[stream.index()]);
            if asked.is_empty() {
                continue;
            }
            let mut answer =
                Answer { child: None, stream, behind: RankSet::none(), others: asked.clone() };
            let behind = asked.ranks().filter(|rank| self.is_behind(turn, *rank, stream));
            answer.behind = behind.collect();
            answer.others.remove(&answer.behind);
            self.looks.answers.push(answer);
        }
    }

    /// Whether a rank here gets no CPU, or has written something that is not yet read. The pipe is read after the look at
    /// the writer: the rank is silent if it waited then and had written nothing.
    fn is_behind(&mut self, turn: &mut Turn<'_>, rank: Rank, stream: Stream) -> bool {
        let Some(pipes) = self.pipes.get_mut(&rank).filter(|pipes| !pipes.is_debugged()) else {
            return false;
        };
        let writer = pipes.writer();
        pipes.source(stream).ready = true;
        self.serve_source(turn, rank, stream);
        let Some(pipes) = self.pipes.get(&rank) else { return false };
        let source = &pipes.sources[stream.index()];
        // The root itself may keep this manager from reading, while it waits for the rank.
        if source.blocked {
            return false;
        }
        let writer = (!source.is_unread()).then_some(writer);
        let sink = self.outputs.console_sink(stream);
        sink.excuse(turn.now(), (stream, rank), writer.as_deref())
    }

    /// Passes answers to the parent; the root takes them. The output that was read before is on its way.
    pub(super) fn pass_answers(&mut self, turn: &mut Turn<'_>) {
        for mut answer in std::mem::take(&mut self.looks.answers) {
            self.settle(&mut answer, turn.job.is_root());
            let Answer { stream, behind, others, .. } = answer;
            if turn.job.is_root() {
                self.take_looks(turn.now(), stream, [(&behind, true), (&others, false)]);
            } else {
                let (behind, others) = (bounded(&behind), bounded(&others));
                turn.report(Event::UpIfRoom(Up::Looked { stream, behind, others }));
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
}

/// Passes a question to the children with these ranks.
fn pass_down(turn: &mut Turn<'_>, stream: Stream, ranks: &RankSet) {
    let job = turn.job;
    if ranks.is_empty() {
        return;
    }
    for child in job.order.host_slices.children(job.tree_index()) {
        let ranks = bounded(&ranks.common(&job.order.host_slices.subtree_ranks(child)));
        if !ranks.is_empty() {
            turn.report(ForLinks::Down(child, Down::LookAt { stream, ranks }));
        }
    }
}

/// The ranks of the first world on this host.
fn ranks_at(job: &Job) -> &RankSet {
    const NONE: &RankSet = &RankSet::none();
    job.order.host_slices.get(job.tree_index()).map_or(NONE, |host_slice| &host_slice.ranks)
}

fn bounded(ranks: &RankSet) -> RankSet {
    ranks.parts(MAX_RANGES).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use mpd_wire::job::{HostSlice, HostSlices};
    use mpd_wire::{DaemonName, Instance};

    use super::*;
    use crate::manager::context::Common;
    use crate::manager::event::Event;
    use crate::manager::fixture;

    /// The manager at a tree index of a job of three hosts, two ranks on each.
    fn manager(tree_index: u32) -> (Common, Stdio) {
        let host_slice = |host: u32| HostSlice {
            member: DaemonName::new(&format!("h{host}")).unwrap(),
            manager: Instance::from_bytes([3; 16]),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(2 * host, 2 * host + 1)]),
        };
        let host_slices = HostSlices::new((0..3).map(host_slice).collect(), 6).unwrap();
        let common = fixture::common_on("true", host_slices, tree_index);
        let (stdio, _) = Stdio::new(common.node.job(), None).unwrap();
        (common, stdio)
    }

    fn ranks(text: &str) -> RankSet {
        text.parse().unwrap()
    }

    #[test]
    fn a_question_goes_to_the_children_whose_ranks_it_is_about() {
        let (mut common, _) = manager(0);
        pass_down(&mut common.turn(), Stream::Err, &ranks("0-1,4"));
        let sent: Vec<String> =
            fixture::events(&mut common).iter().map(|event| format!("{event:?}")).collect();
        let down = ForLinks::Down(2, Down::LookAt { stream: Stream::Err, ranks: ranks("4") });
        assert_eq!(sent, [format!("{:?}", Event::from(down))]);
    }

    #[test]
    fn an_answer_about_ranks_that_do_not_run_at_that_child_is_ignored() {
        let (common, mut stdio) = manager(0);
        let (stream, others) = (Stream::Out, RankSet::none());
        for (behind, known) in [("0", 0), ("2,4", 0), ("all", 0), ("2-3", 1)] {
            let (behind, others) = (ranks(behind), others.clone());
            stdio.take_answer(common.node.job(), Answer { child: Some(1), stream, behind, others });
            assert_eq!(stdio.looks.answers.len(), known);
        }
    }

    #[test]
    fn a_manager_answers_once_about_its_own_ranks_and_ignores_other_questions() {
        let (mut common, mut stdio) = manager(1);
        for asked in ["all", "4", "3"] {
            stdio.take_question(&mut common.turn(), Stream::Out, &ranks(asked));
        }
        stdio.pass_up(&mut common.turn());
        stdio.pass_up(&mut common.turn());
        let sent: Vec<String> =
            fixture::events(&mut common).iter().map(|event| format!("{event:?}")).collect();
        let (behind, others) = (RankSet::none(), ranks("3"));
        let up = Event::UpIfRoom(Up::Looked { stream: Stream::Out, behind, others });
        assert_eq!(sent, [format!("{:?}", up)]);
    }
}
