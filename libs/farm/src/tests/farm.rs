//! The farm alone, with hosts of which the test plays the part.

use std::time::Duration;

use mpd_sansio::{Machine as _, Time};

use crate::halt::{self, Halt};
use crate::{
    Close, End, Farm, HostId, Input, Membership, Options, Outcome, Output, Task, TaskId, Verdict,
};

const SECOND: u64 = 1_000_000;

struct Story {
    farm: Farm,
    now: Time,
}

impl Story {
    fn new(retries: u32, halt: Option<&str>) -> Self {
        let halt: Option<Halt> = halt.and_then(|text| halt::parse(text).unwrap());
        Self { farm: Farm::new(Options { per_task: 1, retries, halt }), now: Time::ZERO }
    }

    /// A story with hosts that have one slot each, and that many tasks.
    fn with(hosts: u32, tasks: u64, retries: u32, halt: Option<&str>) -> Self {
        let mut story = Self::new(retries, halt);
        for host in 0..hosts {
            assert_eq!(
                story.input(Input::Member(HostId(host), Membership::Live)),
                [Output::Start(HostId(host))]
            );
            assert_eq!(story.input(Input::Up(HostId(host), 1)), []);
        }
        (1..=tasks).for_each(|id| assert_eq!(story.input(Input::Task(task(id))), []));
        assert_eq!(story.input(Input::InputEnded), []);
        story
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.farm.poll_output()).collect()
    }

    fn input(&mut self, input: Input) -> Vec<Output> {
        self.farm.handle(self.now, input);
        self.outputs()
    }

    fn turn(&mut self) -> Vec<Output> {
        self.farm.end_turn(self.now);
        self.outputs()
    }

    fn pass(&mut self, time: Duration) -> Vec<Output> {
        self.now = self.now + time;
        self.farm.handle_timeout(self.now);
        self.outputs()
    }

    fn start(&mut self, host: u32, id: u64) {
        assert_eq!(self.input(Input::Started(HostId(host), TaskId(id))), []);
    }

    fn end(&mut self, host: u32, id: u64, outcome: Outcome, took: u64) -> Vec<Output> {
        self.input(Input::Ended(HostId(host), TaskId(id), End { outcome, began: 0, took }))
    }
}

fn task(id: u64) -> Task {
    Task::new(TaskId(id), *b"true")
}

fn give(host: u32, id: u64) -> Output {
    Output::Give(HostId(host), task(id))
}

fn result(host: u32, id: u64, outcome: Outcome) -> Output {
    let verdict = Verdict::Ended(End { outcome, began: 0, took: SECOND });
    Output::Result { task: task(id), host: HostId(host), verdict }
}

const OK: Outcome = Outcome::Exited(0);
const BAD: Outcome = Outcome::Exited(3);

#[test]
fn each_free_slot_gets_a_task_and_the_others_wait() {
    let mut story = Story::with(2, 3, 0, None);
    assert_eq!(story.turn(), [give(0, 1), give(1, 2)]);
    assert_eq!(story.farm.waiting(), 1);
    assert_eq!(story.end(1, 2, OK, SECOND), [result(1, 2, OK)]);
    assert_eq!(story.turn(), [give(1, 3)]);
    assert_eq!(story.end(1, 3, BAD, SECOND), [result(1, 3, BAD)]);
    assert_eq!(story.end(0, 1, OK, SECOND), [result(0, 1, OK)]);
    assert_eq!(story.turn(), [Output::Done(Close::Complete(1))]);
}

#[test]
fn short_tasks_reach_a_host_in_batches() {
    let mut story = Story::with(1, 1000, 0, None);
    story.turn();
    story.end(0, 1, OK, 1000);
    let batch = story.turn().len();
    assert!((200..=300).contains(&batch), "{batch}");
}

#[test]
fn a_free_host_gets_half_of_what_waits_at_another_one() {
    let mut story = Story::with(2, 101, 0, None);
    story.turn();
    // Host 0 says that its tasks are short, and gets a reserve. Then it has a long one.
    story.end(0, 1, OK, 10);
    let reserve: Vec<u64> = given_to(&story.turn(), 0);
    assert_eq!(reserve.len(), 25);
    let mut last = 2;
    loop {
        story.end(1, last, OK, SECOND * 100);
        let outputs = story.turn();
        match given_to(&outputs, 1)[..] {
            [next] => last = next,
            _ => {
                assert_eq!(outputs, [Output::TakeBack(HostId(0), 12)]);
                break;
            }
        }
    }
    assert_eq!(story.farm.waiting(), 0);
    assert_eq!(story.turn(), [], "it was asked already");
    let back: Vec<TaskId> = reserve[13..].iter().map(|id| TaskId(*id)).collect();
    story.input(Input::Returned(HostId(0), back));
    assert_eq!(given_to(&story.turn(), 1).len(), 1);
    assert_eq!(story.farm.waiting(), 11);
}

fn given_to(outputs: &[Output], host: u32) -> Vec<u64> {
    let given = outputs.iter().filter_map(|output| match output {
        Output::Give(to, task) if to.0 == host => Some(task.id.0),
        _ => None,
    });
    given.collect()
}

#[test]
fn a_task_that_failed_is_repeated_on_another_host() {
    let mut story = Story::with(2, 1, 2, None);
    assert_eq!(story.turn(), [give(0, 1)]);
    assert_eq!(story.end(0, 1, BAD, SECOND), [Output::Again(TaskId(1), HostId(0))]);
    assert_eq!(story.turn(), [give(1, 1)]);
    assert_eq!(story.end(1, 1, BAD, SECOND), [Output::Again(TaskId(1), HostId(1))]);
    assert_eq!(story.turn(), [give(0, 1)]);
    assert_eq!(story.end(0, 1, BAD, SECOND), [result(0, 1, BAD)]);
    assert_eq!(story.turn(), [Output::Done(Close::Complete(1))]);
}

#[test]
fn a_task_that_had_not_begun_on_a_lost_host_runs_elsewhere_and_one_that_had_begun_is_lost() {
    let mut story = Story::with(1, 12, 0, None);
    story.turn();
    story.end(0, 1, OK, 50_000);
    // One runs, and five wait there.
    let given = given_to(&story.turn(), 0);
    assert_eq!(given, [2, 3, 4, 5, 6, 7]);
    story.start(0, 2);
    let lost = Output::Result { task: task(2), host: HostId(0), verdict: Verdict::Lost };
    assert_eq!(story.input(Input::Lost(HostId(0))), [lost]);
    assert_eq!(story.turn(), []);
    assert_eq!(story.pass(Duration::from_secs(1)), [Output::Start(HostId(0))]);
    story.input(Input::Up(HostId(0), 1));
    assert_eq!(story.turn(), [give(0, 3)]);
    assert_eq!(story.end(1, 3, OK, SECOND), [], "a host that does not have it");
    assert_eq!(story.end(0, 3, OK, SECOND), [result(0, 3, OK)]);
    assert_eq!(story.end(0, 3, OK, SECOND), [], "the same end again");
}

#[test]
fn a_task_that_may_have_begun_on_a_lost_host_runs_once_without_retries() {
    let mut story = Story::with(2, 1, 0, None);
    assert_eq!(story.turn(), [give(0, 1)]);
    // The host has died with it, and has said nothing.
    let lost = Output::Result { task: task(1), host: HostId(0), verdict: Verdict::Lost };
    assert_eq!(story.input(Input::Lost(HostId(0))), [lost]);
    assert_eq!(story.turn(), [Output::Done(Close::Complete(1))]);
}

#[test]
fn a_line_that_is_no_task_and_a_recorded_failure_count_as_failed() {
    let mut story = Story::with(1, 1, 0, None);
    assert_eq!(story.input(Input::Unfit), []);
    assert_eq!(story.input(Input::FailedBefore), []);
    assert_eq!(story.turn(), [give(0, 1)]);
    assert_eq!(story.end(0, 1, OK, SECOND), [result(0, 1, OK)]);
    assert_eq!(story.turn(), [Output::Done(Close::Complete(2))]);
    let mut story = Story::with(1, 1, 0, Some("soon,fail=1"));
    assert_eq!(
        story.input(Input::FailedBefore),
        [],
        "it was counted by the run that ended with it"
    );
    assert_eq!(story.input(Input::Unfit), []);
    assert_eq!(story.turn(), [Output::Done(Close::Halted(Some(126)))]);
}

#[test]
fn a_task_that_had_begun_on_a_lost_host_is_repeated_if_retries_are_left() {
    let mut story = Story::with(2, 1, 1, None);
    story.turn();
    story.start(0, 1);
    assert_eq!(story.input(Input::Lost(HostId(0))), [Output::Again(TaskId(1), HostId(0))]);
    assert_eq!(story.turn(), [give(1, 1)]);
}

#[test]
fn a_host_that_fails_again_and_again_is_given_up_and_without_a_host_the_farm_ends() {
    let mut story = Story::with(1, 1, 9, None);
    for pause in [1, 2, 4] {
        assert_eq!(story.input(Input::Lost(HostId(0))), []);
        assert_eq!(story.turn(), []);
        assert_eq!(story.pass(Duration::from_millis(pause * 1000 - 1)), []);
        assert_eq!(story.pass(Duration::from_millis(1)), [Output::Start(HostId(0))]);
    }
    assert_eq!(story.input(Input::Lost(HostId(0))), []);
    assert_eq!(story.turn(), [Output::Done(Close::NoHost)]);
}

#[test]
fn a_host_that_has_left_the_ring_gets_a_worker_when_it_comes_back() {
    let mut story = Story::with(2, 3, 0, None);
    story.input(Input::Member(HostId(0), Membership::Absent));
    assert_eq!(story.turn(), [give(0, 1), give(1, 2)], "its worker lives on");
    let lost = Output::Result { task: task(1), host: HostId(0), verdict: Verdict::Lost };
    assert_eq!(story.input(Input::Lost(HostId(0))), [lost]);
    assert_eq!(story.pass(Duration::from_secs(60)), []);
    assert_eq!(story.input(Input::Member(HostId(0), Membership::Live)), [Output::Start(HostId(0))]);
    assert_eq!(story.input(Input::Member(HostId(0), Membership::Live)), []);
}

#[test]
fn a_draining_host_gets_no_further_task() {
    let mut story = Story::with(2, 4, 0, None);
    story.turn();
    let back = story.input(Input::Member(HostId(0), Membership::Draining));
    assert_eq!(back, [Output::TakeBack(HostId(0), 1024)]);
    story.input(Input::Returned(HostId(0), Vec::new()));
    assert_eq!(story.end(0, 1, OK, SECOND), [result(0, 1, OK)]);
    assert_eq!(story.turn(), []);
    story.end(1, 2, OK, SECOND);
    assert_eq!(story.turn(), [give(1, 3)]);
}

#[test]
fn a_host_whose_slots_others_hold_gets_tasks_when_some_are_free() {
    let mut story = Story::new(0, None);
    story.input(Input::Member(HostId(0), Membership::Full));
    story.input(Input::Task(task(1)));
    story.input(Input::Task(task(2)));
    story.input(Input::InputEnded);
    assert_eq!(story.turn(), [], "it waits");
    assert_eq!(story.input(Input::Member(HostId(0), Membership::Live)), [Output::Start(HostId(0))]);
    story.input(Input::Up(HostId(0), 1));
    assert_eq!(story.turn(), [give(0, 1)]);
    assert_eq!(story.input(Input::Slots(HostId(0), 2)), [Output::Slots(HostId(0), 2)]);
    assert_eq!(story.turn(), [give(0, 2)]);
    let back = story.input(Input::Member(HostId(0), Membership::Full));
    assert_eq!(back, [Output::TakeBack(HostId(0), 1024)]);
    story.input(Input::Returned(HostId(0), vec![TaskId(2)]));
    assert_eq!(story.end(0, 1, OK, SECOND), [result(0, 1, OK)]);
    assert_eq!(story.turn(), [], "a task waits");
    assert_eq!(story.input(Input::Member(HostId(0), Membership::Live)), []);
    assert_eq!(story.turn(), [give(0, 2)]);
}

#[test]
fn a_halt_soon_lets_tasks_end_and_a_halt_now_kills_them() {
    let mut story = Story::with(2, 9, 0, Some("soon,fail=1"));
    story.turn();
    let outputs = story.end(0, 1, BAD, SECOND);
    assert_eq!(outputs, [result(0, 1, BAD), Output::TakeBack(HostId(1), 1024)]);
    assert_eq!(story.turn(), []);
    assert_eq!(story.end(1, 2, OK, SECOND), [result(1, 2, OK)]);
    assert_eq!(story.turn(), [Output::Done(Close::Halted(Some(3)))]);

    let mut story = Story::with(2, 9, 0, Some("now,fail=1"));
    story.turn();
    let outputs = story.end(0, 1, BAD, SECOND);
    let expected = [
        result(0, 1, BAD),
        Output::Kill(HostId(0)),
        Output::TakeBack(HostId(1), 1024),
        Output::Kill(HostId(1)),
    ];
    assert_eq!(outputs, expected);
    let cancelled = Output::Result { task: task(2), host: HostId(1), verdict: Verdict::Cancelled };
    assert_eq!(story.end(1, 2, Outcome::Killed(15), SECOND), [cancelled]);
    assert_eq!(story.turn(), [Output::Done(Close::Halted(Some(3)))]);
}

#[test]
fn an_interrupt_kills_what_runs_and_the_second_one_does_not_wait() {
    let mut story = Story::with(1, 2, 5, None);
    story.turn();
    story.start(0, 1);
    let outputs = story.input(Input::Interrupt);
    assert_eq!(outputs, [Output::TakeBack(HostId(0), 1024), Output::Kill(HostId(0))]);
    assert_eq!(story.turn(), []);
    assert_eq!(story.input(Input::Interrupt), [Output::Abandon]);
    let cancelled = Output::Result { task: task(1), host: HostId(0), verdict: Verdict::Cancelled };
    assert_eq!(story.input(Input::Lost(HostId(0))), [cancelled]);
    assert_eq!(story.turn(), [Output::Done(Close::Interrupted)]);
}

#[test]
fn a_farm_whose_hosts_are_too_small_ends() {
    let mut story = Story::with(2, 1, 0, None);
    story.farm = Farm::new(Options { per_task: 2, ..Options::default() });
    for host in [0, 1] {
        story.input(Input::Member(HostId(host), Membership::Live));
        story.input(Input::Up(HostId(host), 1));
    }
    story.input(Input::Task(task(1)));
    assert_eq!(story.turn(), [Output::Done(Close::TooSmall)]);
}
