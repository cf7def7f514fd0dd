//! The worker alone.

use std::time::Duration;

use mpd_sansio::{Machine as _, Time};

use crate::{Order, Outcome, Setup, Task, TaskId, Worker, WorkerInput};

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn worker(slots: u32, per_task: u32, limit_ms: Option<u64>) -> Worker {
    Worker::new(Setup { slots, per_task, limit: limit_ms.map(Duration::from_millis) })
}

fn task(id: u64) -> Task {
    Task::new(TaskId(id), *b"true")
}

fn step(worker: &mut Worker, now: Time, input: WorkerInput) -> Vec<Order> {
    worker.handle(now, input);
    std::iter::from_fn(|| worker.poll_output()).collect()
}

fn turn(worker: &mut Worker, now: Time) -> Vec<Order> {
    worker.end_turn(now);
    std::iter::from_fn(|| worker.poll_output()).collect()
}

#[test]
fn as_many_tasks_run_as_fit_into_the_slots() {
    let mut worker = worker(5, 2, None);
    let mut said = Vec::new();
    for id in 1..=3 {
        said.extend(step(&mut worker, at(0), WorkerInput::Task(task(id))));
    }
    assert_eq!(said, [Order::Announce(TaskId(1)), Order::Announce(TaskId(2))]);
    assert_eq!(turn(&mut worker, at(0)), [Order::Send]);
    let started = step(&mut worker, at(0), WorkerInput::Sent);
    assert_eq!(started, [Order::Start(task(1)), Order::Start(task(2))]);
    let ended = step(&mut worker, at(1), WorkerInput::Ended(TaskId(2), Outcome::Exited(1)));
    let expected = [Order::Report(TaskId(2), Outcome::Exited(1)), Order::Announce(TaskId(3))];
    assert_eq!(ended, expected);
}

#[test]
fn a_task_starts_after_its_begin_was_sent() {
    let mut worker = worker(1, 1, None);
    step(&mut worker, at(0), WorkerInput::Task(task(1)));
    // The farm reads nothing.
    assert_eq!(turn(&mut worker, at(0)), [Order::Send]);
    assert_eq!(turn(&mut worker, at(5000)), [Order::Send]);
    assert_eq!(step(&mut worker, at(9000), WorkerInput::Sent), [Order::Start(task(1))]);
    assert_eq!(turn(&mut worker, at(9000)), []);
}

#[test]
fn with_fewer_slots_fewer_tasks_start_and_those_that_run_continue() {
    let mut worker = worker(2, 1, None);
    (1..=5).for_each(|id| drop(step(&mut worker, at(0), WorkerInput::Task(task(id)))));
    step(&mut worker, at(0), WorkerInput::Sent);
    assert_eq!(step(&mut worker, at(0), WorkerInput::Slots(1)), []);
    let mut end = |id| step(&mut worker, at(1), WorkerInput::Ended(TaskId(id), Outcome::Exited(0)));
    assert_eq!(end(1).len(), 1, "only the report");
    assert_eq!(end(2)[1], Order::Announce(TaskId(3)));
    let more = step(&mut worker, at(1), WorkerInput::Slots(3));
    assert_eq!(more, [Order::Announce(TaskId(4)), Order::Announce(TaskId(5))]);
}

#[test]
fn tasks_that_have_not_begun_are_returned_from_the_end() {
    let mut worker = worker(1, 1, None);
    (1..=4).for_each(|id| drop(step(&mut worker, at(0), WorkerInput::Task(task(id)))));
    let back = step(&mut worker, at(0), WorkerInput::TakeBack(2));
    assert_eq!(back, [Order::Return(vec![TaskId(3), TaskId(4)]), Order::Send]);
    let back = step(&mut worker, at(0), WorkerInput::TakeBack(9));
    assert_eq!(back, [Order::Return(vec![TaskId(2)]), Order::Send]);
}

#[test]
fn a_task_over_its_time_limit_gets_two_signals() {
    let mut worker = worker(1, 1, Some(100));
    step(&mut worker, at(0), WorkerInput::Task(task(1)));
    assert_eq!(step(&mut worker, at(0), WorkerInput::Sent), [Order::Start(task(1))]);
    let mut orders = |now: u64| {
        worker.handle_timeout(at(now));
        std::iter::from_fn(|| worker.poll_output()).collect::<Vec<_>>()
    };
    assert_eq!(orders(99), []);
    assert_eq!(orders(100), [Order::End(TaskId(1), false)]);
    assert_eq!(orders(2099), []);
    assert_eq!(orders(2100), [Order::End(TaskId(1), true)]);
    let ended = step(&mut worker, at(2101), WorkerInput::Ended(TaskId(1), Outcome::Exited(0)));
    assert_eq!(ended, [Order::Report(TaskId(1), Outcome::TimedOut(9))]);
}

#[test]
fn a_kill_ends_what_runs_and_nothing_starts_afterwards() {
    let mut worker = worker(2, 1, None);
    step(&mut worker, at(0), WorkerInput::Task(task(1)));
    step(&mut worker, at(0), WorkerInput::Sent);
    (2..=3).for_each(|id| drop(step(&mut worker, at(0), WorkerInput::Task(task(id)))));
    let killed = step(&mut worker, at(1), WorkerInput::Kill);
    let back = Order::Return(vec![TaskId(2)]);
    assert_eq!(killed, [back, Order::Send, Order::End(TaskId(1), false)]);
    let ended = step(&mut worker, at(2), WorkerInput::Ended(TaskId(1), Outcome::Killed(15)));
    assert_eq!(ended, [Order::Report(TaskId(1), Outcome::Killed(15))]);
    assert_eq!(step(&mut worker, at(2), WorkerInput::Sent), []);
}
