//! Fences of groups: the ranks that wait for each other, and the messages in the tree.

use super::tree::{Post, exited, ranks, to_parent};
use super::*;
use mpd_wire::message::{FenceGroup, FenceMembers};

fn group(members: &str, tag: i32) -> FenceGroup {
    let members = match members {
        "world" => FenceMembers::World,
        "here" => FenceMembers::TreeIndex(0),
        list => FenceMembers::Ranks(ranks(list)),
    };
    FenceGroup { members, tag, name: String::new() }
}

/// A rank enters the fence of a group.
fn enters(rank: u32, group: &FenceGroup) -> Input {
    Input::EnteredGroup(Rank(rank), group.clone())
}

fn release(group: &FenceGroup) -> Output {
    Output::ReleaseGroup(Rank(0), group.clone())
}

#[test]
fn the_fence_of_a_group_is_released_when_all_members_wait_and_can_be_used_again() {
    let mut story = Story::of(4);
    for group in [group("1,3", 0), group("0-1,3", 0), group("world", 5), group("here", 5)] {
        let mut members: Vec<u32> = match &group.members {
            FenceMembers::Ranks(ranks) => ranks.ranks().map(|rank| rank.0).collect(),
            FenceMembers::World | FenceMembers::TreeIndex(_) => (0..4).collect(),
        };
        let last = members.pop().unwrap();
        for _ in 0..2 {
            for &rank in &members {
                assert_eq!(story.send(enters(rank, &group)), []);
                assert_eq!(story.send(enters(rank, &group)), [], "a second entry counts once");
            }
            assert_eq!(story.send(enters(last, &group)), [release(&group)]);
        }
    }
}

#[test]
fn a_rank_waits_in_several_fences_at_once() {
    let mut story = Story::of(3);
    let (low, high, tagged) = (group("0-1", 0), group("1-2", 0), group("0-1", 1));
    for fence in [&low, &high, &tagged] {
        assert_eq!(story.send(enters(1, fence)), []);
    }
    assert_eq!(story.send(Input::EnteredFence(Rank(1))), []);
    assert_eq!(story.send(enters(0, &tagged)), [release(&tagged)]);
    assert_eq!(story.send(enters(2, &high)), [release(&high)]);
    assert_eq!(story.send(Input::EnteredFence(Rank(0))), []);
    assert_eq!(story.send(Input::EnteredFence(Rank(2))), [Output::ReleaseFence(Rank(0))]);
    assert_eq!(story.send(enters(0, &low)), [release(&low)]);
}

#[test]
fn a_rank_outside_the_group_is_not_counted_and_a_group_of_another_world_is_invalid() {
    let mut story = Story::of(3);
    let pair = group("0,2", 0);
    story.send(enters(0, &pair));
    assert_eq!(story.send(enters(1, &pair)), []);
    assert_eq!(story.send(enters(2, &pair)), [release(&pair)]);
    for foreign in [group("2-3", 0), group("none", 0), group("all", 0)] {
        assert_eq!(story.send(enters(2, &foreign)), [], "{foreign:?}");
    }
    let members = FenceMembers::TreeIndex(7);
    let tree_index = FenceGroup { members, tag: 0, name: String::new() };
    assert_eq!(story.send(enters(2, &tree_index)), []);
}

#[test]
fn leaving_the_members_of_a_group_waiting_ends_the_job_and_leaving_others_does_not() {
    let left = reported(Failure::LeftOthersWaiting { rank: Rank(1) });
    let pair = group("0-1", 0);
    let mut story = Story::of(3);
    story.send(enters(0, &pair));
    assert_eq!(story.exit(2, 0), [], "it is no member");
    assert_eq!(story.exit(1, 0)[0], left);
    let mut story = Story::of(3);
    assert_eq!(story.exit(1, 0), []);
    assert_eq!(story.send(enters(0, &pair))[0], left);
}

#[test]
fn with_continue_a_group_does_not_wait_for_its_dead() {
    let mut story = Story::with(3, OnFailure::Continue, None);
    let (early, late) = (group("0-1", 0), group("1-2", 0));
    story.send(enters(0, &early));
    assert!(story.exit(1, 3).contains(&release(&early)));
    assert_eq!(story.send(enters(2, &late)), [release(&late)], "it died before the first entry");
}

#[test]
fn entries_of_a_turn_go_up_together_and_a_release_goes_to_all_with_a_part_in_the_world() {
    let mut inner = Post::inner_running();
    let pair = group("2-3,34", 9);
    inner.send(enters(2, &pair));
    inner.send(enters(3, &pair));
    inner.receive(Up::EnteredGroup { group: pair.clone(), ranks: ranks("34") });
    inner.receive(Up::EnteredGroup { group: pair.clone(), ranks: ranks("0") });
    let entered = Up::EnteredGroup { group: pair.clone(), ranks: ranks("2-3,34") };
    assert_eq!(inner.flush(), [to_parent(entered)], "rank 0 is not of those below");
    assert_eq!(inner.flush(), []);
    let down = Down::ReleaseGroup { first: Rank(0), group: pair.clone() };
    assert_eq!(inner.obey(down.clone()), [Output::ToSome(vec![17], down), release(&pair)]);
}

/// A group with a name, whose members may belong to several worlds.
fn named(members: &str, name: &str) -> FenceGroup {
    FenceGroup { members: FenceMembers::Ranks(ranks(members)), tag: 0, name: name.to_owned() }
}

#[test]
fn groups_with_other_names_do_not_meet() {
    let mut story = Story::of(2);
    let (fence, connect) = (named("0-1", "fence"), named("0-1", "connect"));
    assert_eq!(story.send(enters(0, &fence)), []);
    assert_eq!(story.send(enters(1, &connect)), []);
    assert_eq!(story.send(enters(1, &fence)), [release(&fence)]);
    assert_eq!(story.send(enters(0, &connect)), [release(&connect)]);
}

#[test]
fn a_group_with_a_name_does_not_wait_for_ranks_that_the_job_does_not_have() {
    let mut story = Story::with(2, OnFailure::Continue, None);
    let group = named("0-1,77", "fence");
    assert_eq!(story.send(enters(0, &group)), []);
    assert_eq!(story.send(enters(1, &group)), [release(&group)]);
}

#[test]
fn a_named_group_is_released_on_the_hosts_of_its_members_only() {
    let mut root = Post::root_running(OnFailure::End);
    let (own, both) = (named("0-1", "fence"), named("1-2", "fence"));
    root.send(enters(0, &own));
    assert_eq!(root.send(enters(1, &own)), [release(&own)]);
    root.send(enters(1, &both));
    let down = Down::ReleaseGroup { first: Rank(0), group: both.clone() };
    let released = root.receive(Up::EnteredGroup { group: both.clone(), ranks: ranks("2") });
    assert_eq!(released, [Output::ToSome(vec![1], down), release(&both)]);
}

#[test]
fn a_group_over_two_hosts_is_released_on_both() {
    let mut root = Post::root_running(OnFailure::End);
    let pair = group("1-2", 0);
    assert_eq!(root.receive(Up::EnteredGroup { group: pair.clone(), ranks: ranks("2") }), []);
    root.receive(exited(3, 0));
    let down = Down::ReleaseGroup { first: Rank(0), group: pair.clone() };
    assert_eq!(root.send(enters(1, &pair)), [Output::ToSome(vec![1], down), release(&pair)]);
}

#[test]
fn a_group_that_meets_other_jobs_waits_for_them() {
    let mut story = Story::of(3);
    let name = format!("{}connect 1f", FenceGroup::ACROSS_JOBS);
    let group = FenceGroup { members: FenceMembers::Ranks("0,2".parse().unwrap()), tag: 0, name };
    assert_eq!(story.send(Input::EnteredGroup(Rank(0), group.clone())), []);
    let assembled = story.send(Input::EnteredGroup(Rank(2), group.clone()));
    assert_eq!(assembled, [Output::Assembled(Rank(0), group.clone())]);
    let released = story.send(Input::Met(Rank(0), group.clone()));
    assert_eq!(released, [Output::ReleaseGroup(Rank(0), group)]);
}

#[test]
fn the_failure_of_a_connected_job_ends_a_job_that_asks_for_it_while_its_ranks_run() {
    let story = |abort_scope| {
        let on_failure = OnFailure::Continue;
        Story::running(&Config { on_failure, abort_scope, ..config(&host_slices(1, 2), 2) })
    };
    let (job, problem): (JobId, _) = ("7@h1".parse().unwrap(), "rank 1: aborted".to_owned());
    let failed = || Input::ConnectedFailed { job: job.clone(), code: 9, problem: problem.clone() };
    assert_eq!(story(AbortScope::Job).send(failed()), []);
    let mut ends = story(AbortScope::Connected);
    let (job, problem) = (job.clone(), problem.clone());
    let failure = Failure::ConnectedJob { job, code: 9, problem };
    assert_eq!(ends.send(failed()), [reported_of_job(failure), Output::SignalRanks(SIGTERM)]);
    assert_eq!(ends.manager.machine().exit_code(), 9);
    let mut over = story(AbortScope::Connected);
    over.exit(0, 0);
    over.exit(1, 0);
    assert_eq!(over.send(failed()), [], "all its ranks have ended");
    assert_eq!(over.finish().last(), Some(&Output::Finish(0)));
}
