//! Stories of jobs that a user makes smaller.

use super::tree::{Post, ranks};
use super::worlds::spawn_plan;
use super::*;

const BY_SIGTERM: RankEnd = RankEnd::Signaled { signal: SIGTERM, core: false };

fn retired(text: &str) -> Output {
    Output::Retire(ranks(text))
}

fn refused(outputs: &[Output]) -> &str {
    let [Output::ReportNotice(text)] = outputs else { panic!("{outputs:?}") };
    text
}

#[test]
fn the_highest_running_ranks_are_retired_and_may_end_by_sigterm_or_with_0() {
    let mut story = Story::of(5);
    assert_eq!(story.exit(3, 0), []);
    assert_eq!(story.send(Input::Retire(2)), [retired("2,4")]);
    assert_eq!(story.send(Input::Exited(Rank(4), BY_SIGTERM)), []);
    assert_eq!(story.exit(2, 0), []);
    assert_eq!(story.exit(1, 0), []);
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(0)]);
}

#[test]
fn any_other_end_of_a_retired_rank_is_a_failure_and_so_is_sigterm_for_another_rank() {
    let mut story = Story::of(3);
    story.send(Input::Retire(1));
    assert_eq!(story.exit(2, 7), [rank_failed(2, 7), Output::SignalRanks(SIGTERM)]);
    let mut story = Story::of(3);
    story.send(Input::Retire(1));
    let outputs = story.send(Input::Exited(Rank(1), BY_SIGTERM));
    let failure = Failure::Rank { rank: Rank(1), end: BY_SIGTERM };
    assert_eq!(outputs, [reported(failure), Output::SignalRanks(SIGTERM)]);
}

#[test]
fn a_retired_rank_is_not_retired_twice_and_one_rank_remains() {
    let mut story = Story::of(4);
    assert_eq!(story.send(Input::Retire(1)), [retired("3")]);
    assert_eq!(story.manager.machine().job().unwrap().running(), 3);
    assert!(refused(&story.send(Input::Retire(3))).contains("mpdkilljob ends the job"));
    assert!(refused(&story.send(Input::Retire(9))).contains("only 3 ranks of the job run"));
    assert_eq!(story.send(Input::Retire(2)), [retired("1-2")]);
    assert!(refused(&story.send(Input::Retire(1))).contains("only one rank of the job runs"));
}

#[test]
fn ranks_of_later_worlds_are_higher_and_those_that_have_not_started_are_not_meant() {
    let mut story = Story::of(2);
    let first = WorldPlan { spawner: None, ..spawn_plan(1, 2, 2, 0) };
    story.spawn(&first);
    story.send(Input::Prepared(Rank(2)));
    story.send(Input::WorldStarted(Rank(2)));
    let second = WorldPlan { spawner: None, ..spawn_plan(2, 4, 3, 0) };
    story.spawn(&second);
    assert_eq!(story.send(Input::Retire(3)), [retired("1-3")]);
    assert_eq!(story.send(Input::Exited(Rank(3), BY_SIGTERM)), []);
    let outputs = story.send(Input::Exited(Rank(2), BY_SIGTERM));
    assert_eq!(outputs, [Output::ForgetWorld(Rank(2))]);
}

#[test]
fn a_retired_rank_leaves_a_fence_to_the_others_without_finalize() {
    let mut story = Story::of(3);
    (0..3).for_each(|rank| drop(story.send(Input::Initialized(Rank(rank)))));
    assert_eq!(story.send(Input::EnteredFence(Rank(0))), []);
    assert_eq!(story.send(Input::EnteredFence(Rank(2))), []);
    story.send(Input::Retire(1));
    assert_eq!(story.send(Input::Exited(Rank(2), BY_SIGTERM)), []);
    assert_eq!(story.send(Input::EnteredFence(Rank(1))), [Output::ReleaseFence(Rank(0))]);
    // A rank that was not retired deserts the others.
    story.send(Input::Finalized(Rank(1)));
    story.exit(1, 0);
    let outputs = story.send(Input::EnteredFence(Rank(0)));
    assert_eq!(outputs[0], reported(Failure::LeftOthersWaiting { rank: Rank(1) }));
}

#[test]
fn no_rank_is_retired_before_the_start_is_complete_or_while_the_job_ends() {
    let mut story = Story::starting(3, OnFailure::End, None);
    assert!(refused(&story.send(Input::Retire(1))).contains("try again"));
    story.send(Input::Started);
    story.exit(0, 5);
    assert!(refused(&story.send(Input::Retire(1))).contains("the job is ending"));
}

#[test]
fn the_managers_of_retired_ranks_signal_their_own() {
    let to_first = |ranks| Output::ToSome(vec![1], Down::Retire { ranks });
    let mut root = Post::root_running(OnFailure::End);
    assert_eq!(root.send(Input::Retire(1)), [to_first(ranks("3"))]);
    assert_eq!(root.send(Input::Retire(2)), [to_first(ranks("1-2")), retired("1")]);
    let mut inner = Post::inner_running();
    let both = Down::Retire { ranks: ranks("3-34") };
    let to_child = Output::ToSome(vec![17], both.clone());
    assert_eq!(inner.obey(both), [to_child, retired("3")]);
    assert_eq!(inner.obey(Down::Retire { ranks: ranks("0-1") }), []);
}
