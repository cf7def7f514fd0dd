//! Stories of hosts whose managers have ended, and of the causes that their daemons send.

use super::tree::{Post, to_parent};
use super::*;

const CLOSED: &str = "its manager closed the link";
const KILLED: ManagerEnd = ManagerEnd::Signaled { signal: 9, core: false };

/// The manager of host 1 has closed its link.
fn closed() -> Input {
    Input::ChildClosed(1, CLOSED.to_owned())
}

/// The daemon of that host says how.
fn cause(end: ManagerEnd) -> Input {
    Input::ManagerEnded(name(1), end)
}

/// The report of the loss of host 1.
fn lost(problem: impl ToString) -> Output {
    let failure = Failure::HostLost { host: "h1".into(), problem: problem.to_string() };
    Output::ReportFailed { host: Some(name(1)), failure }
}

/// A root that has detected a closed link and has ended its ranks. Only the clean-up of this host is left.
fn root_that_cleans_up() -> Post {
    let mut root = Post::root_running(OnFailure::End);
    assert_eq!(root.send(closed()), [Output::SignalRanks(SIGTERM)], "the end begins at once");
    for rank in [0, 1] {
        root.send(Input::Exited(Rank(rank), RankEnd::Exited(143)));
    }
    assert_eq!(root.send(Input::TreeGone), [Output::Drain]);
    assert_eq!(root.send(Input::Drained), [Output::CleanUp]);
    root
}

#[test]
fn the_cause_words_the_failure_of_a_closed_link_and_the_end_is_not_delayed() {
    for end in [KILLED, ManagerEnd::OutOfMemory, ManagerEnd::Exited(101)] {
        let mut root = root_that_cleans_up();
        assert_eq!(root.send(cause(end)), [lost(end)]);
        assert_eq!(root.send(Input::CleanedUp), [Output::Finish(125)]);
        assert_eq!(root.after(CAUSE_PATIENCE), [], "it is reported once");
    }
}

#[test]
fn without_a_cause_the_closed_link_is_reported_after_a_second_and_the_end_waits_for_that() {
    let mut root = root_that_cleans_up();
    assert_eq!(root.send(Input::CleanedUp), []);
    assert_eq!(root.after(CAUSE_PATIENCE - Duration::from_millis(1)), []);
    let outputs = root.after(Duration::from_millis(1));
    assert_eq!(outputs, [lost(CLOSED), Output::Finish(125)]);
    assert_eq!(root.send(cause(KILLED)), [], "too late");
}

#[test]
fn a_cause_ends_the_wait_of_a_job_that_is_cleaned_up() {
    let mut root = root_that_cleans_up();
    assert_eq!(root.send(Input::CleanedUp), []);
    assert_eq!(root.send(cause(KILLED)), [lost(KILLED), Output::Finish(125)]);
}

#[test]
fn a_cause_that_comes_before_the_loss_words_the_failure_at_once() {
    for loss in [closed(), Input::ChildLost(1, "silent for 8 s".to_owned())] {
        let mut root = Post::root_running(OnFailure::End);
        assert_eq!(root.send(cause(KILLED)), [], "the host is not lost");
        assert_eq!(root.send(loss), [lost(KILLED), Output::SignalRanks(SIGTERM)]);
    }
}

#[test]
fn causes_of_healthy_or_unknown_hosts_change_nothing() {
    let mut root = Post::root_running(OnFailure::End);
    assert_eq!(root.send(cause(KILLED)), []);
    assert_eq!(root.send(Input::ManagerEnded(name(7), KILLED)), []);
    let mut root = root_that_cleans_up();
    assert_eq!(root.send(Input::ManagerEnded(name(0), KILLED)), [], "another host is lost");
    assert_eq!(root.send(cause(ManagerEnd::OutOfMemory)), [lost(ManagerEnd::OutOfMemory)]);
    let mut inner = Post::inner_running();
    assert_eq!(inner.send(Input::ManagerEnded(name(17), KILLED)), [], "only the root needs them");
}

#[test]
fn a_loss_after_another_failure_waits_for_no_cause() {
    let mut root = Post::root_running(OnFailure::End);
    let outputs = root.send(Input::Exited(Rank(0), RankEnd::Exited(3)));
    assert_eq!(outputs[0], rank_failed(0, 3));
    root.send(closed());
    root.send(Input::Exited(Rank(1), RankEnd::Exited(143)));
    root.send(Input::TreeGone);
    root.send(Input::Drained);
    assert_eq!(root.send(Input::CleanedUp), [Output::Finish(3)]);
}

#[test]
fn processes_that_cannot_be_killed_are_the_failure_after_the_lost_host() {
    let mut root = Post::root_running(OnFailure::End);
    root.send(closed());
    let outputs = root.send(Input::LeftRunning("process 7 of user x".to_owned()));
    assert_eq!(outputs[0], lost(CLOSED));
    assert!(matches!(outputs[1], Output::ReportNotice(_)), "{outputs:?}");
    assert_eq!(root.send(cause(KILLED)), []);
}

#[test]
fn an_inner_manager_tells_the_root_that_a_link_was_closed() {
    let mut inner = Post::inner_running();
    let outputs = inner.send(Input::ChildClosed(17, CLOSED.to_owned()));
    let (member, problem) = (name(17), CLOSED.to_owned());
    assert_eq!(outputs, [to_parent(Up::Lost { member, problem, closed: true })]);
}
