use proptest::prelude::*;

use super::*;
use crate::silence::Task;

/// The output of a merger, which is put into the next one as it would be on a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Out(Vec<(RankSet, Vec<u8>)>);

impl Out {
    fn take(&mut self) -> impl FnMut(&RankSet, &[u8]) {
        |ranks, text| self.0.push((ranks.clone(), text.to_vec()))
    }

    fn text(&self) -> String {
        let lines = self.0.iter().map(|(r, t)| format!("{r}: {}\n", String::from_utf8_lossy(t)));
        lines.collect()
    }

    /// The lines of one rank.
    fn of(&self, rank: u32) -> Vec<Vec<u8>> {
        let its = self.0.iter().filter(|(ranks, _)| ranks.contains(Rank(rank)));
        its.map(|(_, text)| text.clone()).collect()
    }
}

fn one(rank: u32) -> RankSet {
    [Rank(rank)].into_iter().collect()
}

fn line(body: &[u8]) -> Record<'_> {
    Record { begin: true, end: true, head: b"", body }
}

#[test]
fn equal_lines_of_all_ranks_become_one_at_once() {
    let mut merger = Merger::begun(&RankSet::below(3));
    let mut out = Out::default();
    for rank in [2, 0, 1] {
        merger.push(Time::ZERO, &one(rank), line(b"hello\n"), &mut out.take());
    }
    assert_eq!(out.text(), "0-2: hello\n");
    assert_eq!(merger.deadline(), None);
    assert!(merger.texts.is_empty() && merger.gathered == 0, "nothing is kept");
}

#[test]
fn lines_that_differ_stay_apart_and_are_emitted_after_patience() {
    let mut merger = Merger::begun(&RankSet::below(2));
    let mut out = Out::default();
    merger.push(Time::ZERO, &one(0), line(b"a\nsame\n"), &mut out.take());
    merger.push(Time::ZERO, &one(1), line(b"same\n"), &mut out.take());
    assert_eq!(out.text(), "0: a\n0-1: same\n");
    merger.push(Time::ZERO, &one(1), line(b"late\n"), &mut out.take());
    merger.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
    assert_eq!(out.text(), "0: a\n0-1: same\n1: late\n");
}

#[test]
fn lines_wait_a_second_per_level_for_a_rank_that_has_begun_and_only_patience_for_late_ranks() {
    let (begin, second) = (Time::ZERO + PROMPT_PATIENCE * 60, PROMPT_PATIENCE);
    let mut merger = Merger::new(&RankSet::below(2), 1);
    let mut out = Out::default();
    merger.push(Time::ZERO, &one(0), line(b"a\nb\nc\n"), &mut out.take());
    merger.flush(begin, &mut out.take());
    assert!(out.0.is_empty(), "rank 1 has not begun");
    merger.begin(begin, &RankSet::below(2));
    merger.flush(begin + second, &mut out.take());
    merger.push(begin + second, &one(1), line(b"a\n"), &mut out.take());
    merger.flush(begin + second * 5 / 2, &mut out.take());
    assert_eq!(out.text(), "0-1: a\n", "rank 1 spoke a second and a half ago");
    merger.flush(begin + second * 6, &mut out.take());
    assert_eq!(out.text(), "0-1: a\n0: b\n0: c\n", "two seconds: one below may have waited");
    let now = begin + second * 6;
    merger.push(now, &one(0), line(b"d\n"), &mut out.take());
    assert_eq!(merger.deadline(), Some(now + PATIENCE), "rank 1 is late");
    merger.push(now, &one(1), line(b"d\n"), &mut out.take());
    merger.push(now, &one(0), line(b"e\n"), &mut out.take());
    assert_eq!(merger.deadline(), Some(now + 2 * second), "and is no more");
}

#[test]
fn answers_of_asked_ranks_are_emitted_when_all_have_answered_without_waiting_for_others() {
    let mut merger = Merger::begun(&RankSet::below(4));
    let mut out = Out::default();
    let asked = RankSet::from_ranges(vec![(0, 1)]);
    merger.ask(Time::ZERO, &asked);
    merger.push(Time::ZERO, &one(0), line(b"~a\n=1 stopped\n"), &mut out.take());
    assert!(out.0.is_empty(), "rank 1 may say the same");
    merger.push(Time::ZERO, &one(1), line(b"~a\n~b\n=1 stopped\n"), &mut out.take());
    assert_eq!(out.text(), "0-1: ~a\n1: ~b\n0-1: =1 stopped\n");
    // A later line without a question waits a little, because others may write it as well.
    out.0.clear();
    merger.push(Time::ZERO, &one(1), line(b"~late\n"), &mut out.take());
    merger.ask(Time::ZERO, &one(2));
    merger.push(Time::ZERO, &one(2), line(b"=2 idle\n"), &mut out.take());
    assert_eq!(out.text(), "1: ~late\n2: =2 idle\n");
    assert_eq!((merger.asked, merger.gathered), (0, 0));
}

#[test]
fn answers_are_in_the_order_of_the_ranks_and_keep_the_order_of_the_programs_lines() {
    let mut merger = Merger::begun(&RankSet::below(3));
    let mut out = Out::default();
    merger.ask(Time::ZERO, &RankSet::below(3));
    for (rank, text) in [
        (2, "~two\n>late\n~at 2\n~src\n=1 s\n"),
        (1, "~one\n>soon\n~at 1\n"),
        (0, "~zero\n~at 0\n~src\n=1 s\n"),
        (1, "~src\n=1 s\n"),
    ] {
        merger.push(Time::ZERO, &one(rank), line(text.as_bytes()), &mut out.take());
    }
    assert_eq!(
        out.text(),
        "2: ~two\n2: >late\n1: ~one\n2: ~at 2\n1: >soon\n0: ~zero\n0: ~at 0\n1: ~at 1\n\
         0-2: ~src\n0-2: =1 s\n"
    );
}

#[test]
fn equal_lines_after_lines_that_differ_become_one() {
    let mut merger = Merger::begun(&RankSet::below(3));
    let mut out = Out::default();
    merger.ask(Time::ZERO, &RankSet::below(3));
    for (rank, text) in [
        (0, ">zero\n~f (i=0)\n~12 x\n~{\n~1\n~}\n~end\n=1 s\n"),
        (1, ">one\n~f (i=1)\n~12 x\n~{\n~2\n~}\n~end\n=1 s\n"),
        (2, "~f (i=0)\n~9 y\n~9 y\n~end\n=1 s\n"),
    ] {
        merger.push(Time::ZERO, &one(rank), line(text.as_bytes()), &mut out.take());
    }
    assert_eq!(
        out.text(),
        "0: >zero\n0,2: ~f (i=0)\n1: >one\n1: ~f (i=1)\n0-1: ~12 x\n0-1: ~{\n0: ~1\n1: ~2\n0-1: ~}\n\
         2: ~9 y\n2: ~9 y\n0-2: ~end\n0-2: =1 s\n"
    );
}

#[test]
fn equal_answers_are_joined_when_the_other_ranks_are_no_longer_waited_for() {
    let mut merger = Merger::begun(&RankSet::below(3));
    let mut out = Out::default();
    merger.ask(Time::ZERO, &RankSet::below(3));
    for rank in 0..2 {
        let text = format!("~f (i={rank})\n~12 x\n=1 s\n");
        merger.push(Time::ZERO, &one(rank), line(text.as_bytes()), &mut out.take());
    }
    merger.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
    assert_eq!(out.text(), "0: ~f (i=0)\n1: ~f (i=1)\n0-1: ~12 x\n0-1: =1 s\n");
}

#[test]
fn a_rank_that_ended_is_not_waited_for_and_its_end_follows_its_last_line() {
    let mut merger = Merger::begun(&RankSet::below(3));
    let mut out = Out::default();
    merger.push(Time::ZERO, &one(0), line(b"x\n"), &mut out.take());
    merger.end(&one(0), &mut out.take());
    merger.end(&one(1), &mut out.take());
    assert!(out.0.is_empty());
    assert_eq!(merger.take_ended(), one(1), "rank 0 has a line that waits for rank 2");
    merger.end(&one(2), &mut out.take());
    assert_eq!(out.text(), "0: x\n");
    assert_eq!(merger.take_ended().to_string(), "0,2");
    assert_eq!(merger.take_ended(), RankSet::none());
}

#[test]
fn a_line_of_any_length_is_cut_in_the_same_positions_by_parent_and_child() {
    let long = vec![b'x'; 2 * MAX_LINE + 5];
    let (mut children, mut parent) = (Out::default(), Out::default());
    let mut merger = Merger::begun(&one(4));
    for piece in long.chunks(70_000) {
        let record = Record { begin: false, end: false, head: b"", body: piece };
        merger.push(Time::ZERO, &one(4), record, &mut children.take());
    }
    let end = Record { begin: false, end: true, head: b"", body: b"" };
    merger.push(Time::ZERO, &one(4), end, &mut children.take());
    let mut merger = Merger::begun(&one(4));
    for (ranks, text) in &children.0 {
        let text = [&text[..], b"\n"].concat();
        merger.push(Time::ZERO, ranks, line(&text), &mut parent.take());
    }
    assert_eq!(parent, children);
    assert_eq!(children.of(4).concat(), long);
}

#[test]
fn an_entry_that_no_rank_can_join_any_longer_is_emitted_at_once() {
    let mut merger = Merger::begun(&RankSet::below(3));
    let mut out = Out::default();
    for rank in [0, 1, 2, 0] {
        let text = format!("I am {rank}\n");
        merger.push(Time::ZERO, &one(rank), line(text.as_bytes()), &mut out.take());
    }
    assert_eq!(out.text(), "0: I am 0\n1: I am 1\n", "2 and the second 0 may be joined by 1");
}

#[test]
fn a_rank_far_ahead_is_held_back_until_the_others_have_caught_up() {
    let mut merger = Merger::begun(&RankSet::below(2));
    let mut out = Out::default();
    let text: Vec<u8> = (0..9000).flat_map(|n| format!("step {n}\n").into_bytes()).collect();
    let mut pieces = [text.chunks(AT_ONCE), text.chunks(AT_ONCE)];
    while !merger.holds_back(&one(0)) {
        let body = pieces[0].next().unwrap();
        let record = Record { begin: false, end: false, head: b"", body };
        merger.push(Time::ZERO, &one(0), record, &mut out.take());
    }
    assert!(out.0.is_empty() && !merger.holds_back(&one(1)) && merger.deadline().is_some());
    for n in 0..12 {
        let rank = if merger.holds_back(&one(0)) { 1 } else { n % 2 };
        let Some(body) = pieces[rank as usize].next() else { continue };
        let record = Record { begin: false, end: false, head: b"", body };
        merger.push(Time::ZERO, &one(rank), record, &mut out.take());
    }
    assert!(out.0.len() > 1000 && out.0.iter().all(|(ranks, _)| ranks.count() == 2));
}

#[test]
fn lines_wait_for_a_rank_that_gets_no_cpu_but_not_for_one_that_computes_or_sleeps() {
    let task = |ran| vec![Task { id: 7, ran: Duration::from_millis(ran) }];
    // The threads of rank 1 that are ready to run, at each look; the text and the seconds at its end.
    let waited = |looks: &mut dyn FnMut(u64) -> Option<Vec<Task>>| {
        let mut merger = Merger::begun(&RankSet::below(2));
        let mut out = Out::default();
        merger.push(Time::ZERO, &one(0), line(b"x\n"), &mut out.take());
        assert_eq!(merger.overdue(Time::ZERO), []);
        for look in 0.. {
            let Some(now) = merger.deadline() else { break };
            assert_eq!(merger.overdue(now), [Rank(1)]);
            match looks(look) {
                Some(writer) => drop(merger.excuse(now, Rank(1), Some(&writer))),
                None => merger.push(now, &one(1), line(b"x\n"), &mut out.take()),
            }
            merger.flush(now, &mut out.take());
            if !out.text().is_empty() {
                return (out.text(), now.since(Time::ZERO).as_secs());
            }
        }
        panic!("nothing was emitted")
    };
    let (starved, long) = waited(&mut |look| (look < 20).then(|| task(look)));
    assert!(starved == "0-1: x\n" && (5..60).contains(&long), "{starved} {long}");
    assert_eq!(waited(&mut |look| Some(task(60 * look))), ("0: x\n".to_owned(), 1));
    assert_eq!(waited(&mut |_| Some(Vec::new())), ("0: x\n".to_owned(), 1));
    let (ever, long) = waited(&mut |_| Some(task(0)));
    assert!(ever == "0: x\n" && (60..70).contains(&long), "{long}");
}

#[test]
fn a_rank_whose_output_is_still_to_be_read_is_not_late() {
    let mut merger = Merger::begun(&RankSet::below(2));
    let mut out = Out::default();
    merger.push(Time::ZERO, &one(0), line(b"x\n"), &mut out.take());
    let now = merger.deadline().unwrap();
    merger.excuse(now, Rank(1), None);
    merger.flush(now, &mut out.take());
    merger.push(now, &one(1), line(b"x\n"), &mut out.take());
    assert_eq!(out.text(), "0-1: x\n");
}

/// The time of an answer.
const SOON: Duration = Duration::from_millis(200);

/// A merger in which rank 0 has written `x` at the beginning, and its output.
fn with_one_line(ranks: u32) -> (Merger, Out) {
    let (mut merger, mut out) = (Merger::begun(&RankSet::below(ranks)), Out::default());
    merger.push(Time::ZERO, &one(0), line(b"x\n"), &mut out.take());
    (merger, out)
}

/// Calls `turn` at each deadline until something is emitted. Returns that and the time.
fn until_emitted(
    (mut merger, mut out): (Merger, Out),
    mut turn: impl FnMut(&mut Merger, Time),
) -> (String, Duration) {
    for _ in 0..1000 {
        let now = merger.deadline().unwrap();
        turn(&mut merger, now);
        merger.flush(now, &mut out.take());
        if !out.text().is_empty() {
            return (out.text(), now.since(Time::ZERO));
        }
    }
    panic!("nothing was emitted")
}

fn ask(merger: &mut Merger, now: Time) -> RankSet {
    let overdue = merger.overdue(now);
    merger.question(now, &overdue)
}

#[test]
fn lines_wait_for_a_rank_of_another_host_as_long_as_its_manager_answers_that_it_gets_no_cpu() {
    let mut asked = Vec::new();
    let turn = |merger: &mut Merger, now: Time| {
        if ask(merger, now) == one(1) {
            asked.push(now);
            merger.answer(now + SOON, Rank(1), true);
        }
    };
    let (text, took) = until_emitted(with_one_line(2), turn);
    assert!(text == "0: x\n" && (60..70).contains(&took.as_secs()), "{text} {took:?}");
    assert!(asked.windows(2).all(|pair| pair[1].since(pair[0]) >= QUESTION_INTERVAL));
    assert!((5..40).contains(&asked.len()), "{} questions", asked.len());

    let (mut merger, mut out) = with_one_line(2);
    for _ in 0..5 {
        let now = merger.deadline().unwrap();
        assert_eq!(ask(&mut merger, now), one(1));
        merger.flush(now, &mut out.take());
        merger.answer(now + SOON, Rank(1), true);
    }
    let now = merger.deadline().unwrap();
    merger.push(now, &one(1), line(b"x\n"), &mut out.take());
    assert_eq!(out.text(), "0-1: x\n");
    assert!(now.since(Time::ZERO) > 5 * PROMPT_PATIENCE);
}

#[test]
fn a_rank_of_another_host_that_is_not_behind_or_whose_manager_does_not_answer_is_late() {
    let denied = |merger: &mut Merger, now| {
        if !ask(merger, now).is_empty() {
            merger.answer(now, Rank(1), false);
        }
    };
    assert_eq!(until_emitted(with_one_line(2), denied), ("0: x\n".to_owned(), PROMPT_PATIENCE));
    let mut asked = 0;
    let silent = |merger: &mut Merger, now| asked += ask(merger, now).count();
    let took = PROMPT_PATIENCE + ANSWER_TIME;
    assert_eq!(until_emitted(with_one_line(2), silent), ("0: x\n".to_owned(), took));
    assert_eq!(asked, 1, "a manager that does not answer is asked once");
}

#[test]
fn an_answer_without_a_question_changes_nothing() {
    let (mut merger, mut out) = with_one_line(2);
    merger.answer(Time::ZERO, Rank(1), true);
    merger.answer(Time::ZERO, Rank(7), true);
    let now = merger.deadline().unwrap();
    assert_eq!(now, Time::ZERO + PROMPT_PATIENCE);
    merger.answer(now, Rank(1), true);
    assert_eq!(ask(&mut merger, now), one(1));
    merger.flush(now, &mut out.take());
    // The answer comes twice, and says different things.
    merger.answer(now, Rank(1), true);
    let deadline = merger.deadline();
    merger.answer(now, Rank(1), false);
    assert_eq!(merger.deadline(), deadline);
    // The next answer comes too late.
    let now = deadline.unwrap();
    assert_eq!(ask(&mut merger, now), one(1));
    merger.flush(now, &mut out.take());
    merger.flush(now + ANSWER_TIME, &mut out.take());
    assert_eq!(out.text(), "0: x\n");
    merger.answer(now + ANSWER_TIME, Rank(1), true);
    merger.push(now + ANSWER_TIME, &one(0), line(b"y\n"), &mut out.take());
    assert_eq!(merger.deadline(), Some(now + ANSWER_TIME + PATIENCE), "rank 1 stays late");
}

#[test]
fn ranks_that_are_overdue_soon_after_a_question_wait_for_the_next_one() {
    let (mut merger, mut out) = with_one_line(3);
    let now = merger.deadline().unwrap();
    assert_eq!(merger.question(now, &[Rank(1)]), one(1));
    assert_eq!(merger.question(now, &[Rank(2)]), RankSet::none());
    merger.flush(now, &mut out.take());
    let next = now + QUESTION_INTERVAL;
    assert_eq!((merger.deadline(), merger.overdue(next)), (Some(next), vec![Rank(2)]));
    assert_eq!(merger.question(next, &[Rank(1), Rank(2)]), one(2));
    assert_eq!(out.text(), "");
}

#[test]
fn a_rank_has_lines_waiting_until_they_are_emitted() {
    let (mut merger, mut out) = with_one_line(2);
    assert!(merger.has_waiting(Rank(0)) && !merger.has_waiting(Rank(1)));
    merger.push(Time::ZERO, &one(1), line(b"x\n"), &mut out.take());
    assert!(!merger.has_waiting(Rank(0)) && !merger.has_waiting(Rank(1)));
}

#[test]
fn a_rank_that_was_not_read_meanwhile_is_not_late_for_the_lines_after_those_of_a_late_one() {
    let mut merger = Merger::begun(&RankSet::below(3));
    let mut out = Out::default();
    merger.push(Time::ZERO, &one(0), line(b"x\ny\n"), &mut out.take());
    merger.push(Time::ZERO, &one(1), line(b"x\n"), &mut out.take());
    let now = merger.deadline().unwrap();
    assert_eq!(merger.overdue(now), [Rank(1), Rank(2)]);
    merger.excuse(now, Rank(1), None);
    merger.excuse(now, Rank(2), Some(&[]));
    merger.flush(now, &mut out.take());
    assert_eq!(out.text(), "0-1: x\n");
    merger.push(now, &one(1), line(b"y\n"), &mut out.take());
    merger.flush(merger.deadline().unwrap(), &mut out.take());
    assert_eq!(out.text(), "0-1: x\n0-1: y\n");
}

#[test]
fn equal_long_lines_are_merged_in_the_pieces_into_which_they_are_cut() {
    let text = [vec![b'x'; 2 * MAX_LINE + 5], vec![b'\n']].concat();
    let mut merger = Merger::begun(&RankSet::below(3));
    let mut out = Out::default();
    let mut pieces: Vec<_> = (0..3).map(|rank| (rank, text.chunks(AT_ONCE).peekable())).collect();
    while pieces.iter_mut().any(|(_, chunks)| chunks.peek().is_some()) {
        for (rank, chunks) in &mut pieces {
            if !merger.holds_back(&one(*rank))
                && let Some(body) = chunks.next()
            {
                let is_last = chunks.peek().is_none();
                let record = Record { begin: false, end: is_last, head: b"", body };
                merger.push(Time::ZERO, &one(*rank), record, &mut out.take());
            }
        }
    }
    let lengths: Vec<(u32, usize)> =
        out.0.iter().map(|(ranks, text)| (ranks.count(), text.len())).collect();
    assert_eq!(lengths, [(3, MAX_LINE), (3, MAX_LINE), (3, 5)]);
}

#[test]
fn many_ranks_that_write_in_any_order_are_merged() {
    let text: String = (0..10_000).map(|n| format!("{n}\n")).collect();
    let mut merger = Merger::begun(&RankSet::below(256));
    let mut out = Out::default();
    let chunk = |at: usize| text.as_bytes().chunks(AT_ONCE).nth(at);
    let mut next = [0; 256];
    let mut dice = 1_u32;
    while next.iter().any(|&at| chunk(at).is_some()) {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let rank = dice >> 24;
        let at = &mut next[rank as usize];
        if !merger.holds_back(&one(rank))
            && let Some(body) = chunk(*at)
        {
            let record = Record { begin: false, end: false, head: b"", body };
            merger.push(Time::ZERO, &one(rank), record, &mut out.take());
            *at += 1;
        }
    }
    assert!(out.0.iter().all(|(ranks, _)| ranks.count() == 256));
    assert_eq!(out.0.len(), 10_000);
}

#[test]
fn a_rank_that_writes_alone_is_held_back_once() {
    let mut merger = Merger::begun(&RankSet::below(2));
    let mut out = Out::default();
    let text = vec![b'\n'; merger.most / 4];
    merger.push(Time::ZERO, &one(0), line(&text[..2000]), &mut out.take());
    assert!(merger.holds_back(&one(0)));
    merger.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
    merger.push(Time::ZERO, &one(0), line(&text), &mut out.take());
    assert!(!merger.holds_back(&one(0)), "rank 1 is not waited for");
    merger.push(Time::ZERO, &one(1), line(b"\n"), &mut out.take());
    assert!(merger.holds_back(&one(0)), "it says the same again");
}

#[test]
fn lines_of_many_ranks_that_all_differ_are_emitted_quickly() {
    let mut merger = Merger::begun(&RankSet::below(500));
    let mut out = Out::default();
    for step in 0..40 {
        for rank in 0..500 {
            let text = format!("rank {rank} step {step}\n");
            merger.push(Time::ZERO, &one(rank), line(text.as_bytes()), &mut out.take());
        }
    }
    merger.end(&RankSet::below(500), &mut out.take());
    assert_eq!(out.0.len(), 500 * 40);
    assert_eq!(out.of(77)[3], b"rank 77 step 3");
}

/// The host of a rank in the property below.
fn host(rank: u32) -> usize {
    rank as usize % 2
}

/// A merger for each of two hosts and one for their parent.
struct Tree {
    children: [Merger; 2],
    parent: Merger,
}

impl Tree {
    fn new() -> Self {
        let of = |at| (0..5).filter(|&r| host(r) == at).map(Rank).collect::<RankSet>();
        Self {
            children: [Merger::begun(&of(0)), Merger::begun(&of(1))],
            parent: Merger::begun(&RankSet::below(5)),
        }
    }

    fn pass(&mut self, at: usize, up: Out, out: &mut Out) {
        for (ranks, text) in up.0 {
            let text = [&text[..], b"\n"].concat();
            self.parent.push(Time::ZERO, &ranks, line(&text), &mut out.take());
        }
        let ended = self.children[at].take_ended();
        self.parent.end(&ended, &mut out.take());
    }

    fn push(&mut self, rank: u32, text: &str, out: &mut Out) {
        let (mut up, text) = (Out::default(), format!("{text}\n"));
        let children = &mut self.children[host(rank)];
        children.push(Time::ZERO, &one(rank), line(text.as_bytes()), &mut up.take());
        self.pass(host(rank), up, out);
    }

    fn end(&mut self, out: &mut Out) {
        for at in 0..2 {
            let mut up = Out::default();
            self.children[at].end(&RankSet::below(5), &mut up.take());
            self.pass(at, up, out);
        }
    }

    fn flush(&mut self, out: &mut Out) {
        for at in 0..2 {
            let mut up = Out::default();
            self.children[at].flush(Time::ZERO + PROMPT_PATIENCE, &mut up.take());
            self.pass(at, up, out);
        }
        self.parent.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
    }
}

proptest! {
    #[test]
    fn each_rank_reads_its_own_lines_in_order_on_one_level_as_on_two(
        pushes in proptest::collection::vec((0u32..5, 0u8..3, 0u8..9), 0..80),
        early in proptest::collection::vec(0u32..5, 0..3),
    ) {
        let mut flat = Merger::begun(&RankSet::below(5));
        let mut tree = Tree::new();
        let (mut out, mut top) = (Out::default(), Out::default());
        let mut said = vec![Vec::new(); 5];
        let last = |rank| pushes.iter().rposition(|p| p.0 == rank);
        for (i, &(rank, word, flush)) in pushes.iter().enumerate() {
            let text = [b'a' + word, b'\n'];
            said[rank as usize].push(text[..1].to_vec());
            flat.push(Time::ZERO, &one(rank), line(&text), &mut out.take());
            let mut up = Out::default();
            let children = &mut tree.children[host(rank)];
            children.push(Time::ZERO, &one(rank), line(&text), &mut up.take());
            if early.contains(&rank) && last(rank) == Some(i) {
                flat.end(&one(rank), &mut out.take());
                children.end(&one(rank), &mut up.take());
            }
            tree.pass(host(rank), up, &mut top);
            if flush == 0 {
                flat.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
                tree.flush(&mut top);
            }
        }
        flat.end(&RankSet::below(5), &mut out.take());
        for at in 0..2 {
            let mut up = Out::default();
            tree.children[at].end(&RankSet::below(5), &mut up.take());
            tree.pass(at, up, &mut top);
        }
        for rank in 0..5 {
            prop_assert_eq!(&out.of(rank), &said[rank as usize], "rank {} on one level", rank);
            prop_assert_eq!(&top.of(rank), &said[rank as usize], "rank {} on two", rank);
        }
        prop_assert_eq!(flat.take_ended(), RankSet::below(5));
        prop_assert_eq!(tree.parent.take_ended(), RankSet::below(5));
        prop_assert!(tree.parent.gathered == 0 && tree.parent.texts.is_empty());
    }

    #[test]
    fn answers_are_in_order_and_nothing_waits_when_all_have_answered(
        said in proptest::collection::vec(proptest::collection::vec(0u8..6, 0..12), 5),
        turns in proptest::collection::vec(0u32..5, 60),
        others in proptest::collection::vec((0usize..60, 0u8..6), 0..6),
        asked in proptest::collection::btree_set(0u32..5, 1..5),
        flushes in proptest::collection::btree_set(0usize..60, 0..3),
    ) {
        const WORDS: [&str; 6] = ["~a", "~b", ">a", ">b", "+c", "!no"];
        let asked: RankSet = asked.into_iter().map(Rank).collect();
        let unasked = (0..5).find(|rank| !asked.contains(Rank(*rank)));
        let (mut flat, mut tree) = (Merger::begun(&RankSet::below(5)), Tree::new());
        flat.ask(Time::ZERO, &asked);
        tree.parent.ask(Time::ZERO, &asked);
        tree.children.iter_mut().for_each(|children| children.ask(Time::ZERO, &asked));
        let (mut out, mut top) = (Out::default(), Out::default());
        let mut lines: Vec<VecDeque<String>> = vec![VecDeque::new(); 5];
        for rank in asked.ranks() {
            let own = &mut lines[rank.index()];
            own.extend(said[rank.index()].iter().map(|word| WORDS[usize::from(*word)].into()));
            own.push_back("=1 stopped".into());
        }
        let expected: Vec<Vec<String>> = lines.iter().map(|own| own.clone().into()).collect();
        let rest = asked.ranks().flat_map(|rank| vec![rank.0; 14]);
        let mut beside = Vec::new();
        for (i, rank) in turns.iter().copied().chain(rest).enumerate() {
            let word = others.iter().find(|other| other.0 == i);
            if let (Some(rank), Some((_, word))) = (unasked, word) {
                let text = WORDS[usize::from(*word)].to_owned();
                beside.push(text.clone());
                flat.push(Time::ZERO, &one(rank), line((text.clone() + "\n").as_bytes()), &mut out.take());
                tree.push(rank, &text, &mut top);
            }
            if let Some(text) = lines[rank as usize].pop_front() {
                let bytes = format!("{text}\n");
                flat.push(Time::ZERO, &one(rank), line(bytes.as_bytes()), &mut out.take());
                tree.push(rank, &text, &mut top);
            }
            if flushes.contains(&i) {
                flat.flush(Time::ZERO + PROMPT_PATIENCE, &mut out.take());
                tree.flush(&mut top);
            }
        }
        let bytes = |lines: &[String]| -> Vec<Vec<u8>> {
            lines.iter().map(|text| text.as_bytes().to_vec()).collect()
        };
        for rank in asked.ranks() {
            let own = bytes(&expected[rank.index()]);
            prop_assert_eq!(&out.of(rank.0), &own, "rank {} on one level", rank);
            prop_assert_eq!(&top.of(rank.0), &own, "rank {} on two", rank);
        }
        flat.end(&RankSet::below(5), &mut out.take());
        tree.end(&mut top);
        if let Some(rank) = unasked {
            prop_assert_eq!(out.of(rank), bytes(&beside));
            prop_assert_eq!(top.of(rank), bytes(&beside));
        }
        prop_assert!(flat.gathered == 0 && flat.asked == 0 && tree.parent.gathered == 0);
    }
}
