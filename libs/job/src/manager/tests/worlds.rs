//! Stories of spawned worlds, on one host.

use super::spawning::{done, prepared, refused};
use super::*;
use crate::manager::rank_table::RankTable;
use mpd_wire::job::{Parts, World};
use mpd_wire::message::{FenceGroup, FenceMembers};

/// A world of `size` ranks on the only host.
pub(super) fn spawn_plan(number: u32, first: u32, size: u32, spawner: u32) -> WorldPlan {
    let world = World { number, first: Rank(first), size };
    WorldPlan {
        world,
        parts: Parts(vec![(0, world.ranks())]),
        spawner: Some(Rank(spawner)),
        kvsname: format!("kvs_{number}"),
        joining: Vec::new(),
        is_awaited: false,
    }
}

/// A job whose rank 0 has spawned a world that runs.
fn with_world(job: u32, number: u32, first: u32, size: u32) -> Story {
    let mut story = Story::of(job);
    spawn(&mut story, spawn_plan(number, first, size, 0));
    story
}

fn spawn(story: &mut Story, plan: WorldPlan) {
    let first = plan.world.first;
    assert_eq!(story.spawn(&plan), [prepared(&plan)]);
    assert_eq!(story.send(Input::Prepared(first)), [Output::StartWorld(first)]);
    assert_eq!(story.send(Input::WorldStarted(first)), [done(&plan)]);
}

#[test]
fn a_job_is_over_when_all_its_worlds_are_and_an_ended_one_is_forgotten() {
    let mut story = with_world(1, 1, 1, 2);
    assert_eq!(story.exit(0, 0), []);
    assert_eq!(story.exit(2, 0), []);
    assert_eq!(story.exit(1, 0), [Output::ForgetWorld(Rank(1)), Output::KillTree]);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(0)]);
}

/// The worlds and the ends of their ranks, in the order of the reports.
fn ended(story: &Story) -> Vec<(u32, Vec<RankEnd>)> {
    story.ended.iter().map(|ended| (ended.world.number, ended.ends.clone())).collect()
}

#[test]
fn the_ends_of_the_ranks_of_a_world_are_reported_when_it_has_ended() {
    let mut story = with_world(1, 1, 1, 2);
    spawn(&mut story, spawn_plan(2, 3, 1, 0));
    story.send(Input::WorldConnection { from: Rank(1), number: 0, joined: false });
    story.exit(2, 0);
    assert_eq!(ended(&story), []);
    let killed = RankEnd::Signaled { signal: SIGKILL, core: false };
    story.send(Input::Exited(Rank(1), killed));
    assert_eq!(ended(&story), [(1, vec![killed, RankEnd::Exited(0)])]);
    story.exit(3, 0);
    story.exit(0, 0);
    story.finish();
    assert_eq!(ended(&story)[1..], [(2, vec![RankEnd::Exited(0)])], "once");
}

#[test]
fn a_world_that_was_still_being_started_when_the_job_ended_is_reported_at_the_end() {
    let mut story = Story::of(1);
    story.spawn(&spawn_plan(1, 1, 2, 0));
    story.send(Input::Prepared(Rank(1)));
    story.send(Input::Exited(Rank(1), RankEnd::Exited(0)));
    story.exit(0, 3);
    story.after(FAILURE_GRACE);
    assert_eq!(ended(&story), []);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(3)]);
    assert_eq!(ended(&story), [(1, vec![RankEnd::Exited(0), RankEnd::NotStarted])]);
    assert_eq!(story.ended[0].unreported(), [Rank(2)]);
}

#[test]
fn a_failure_in_a_world_ends_all_and_is_reported_with_the_worlds_own_numbers() {
    let mut story = with_world(1, 1, 1, 2);
    let end = RankEnd::Exited(3);
    let failure = Box::new(Failure::Rank { rank: Rank(1), end });
    let reported = reported(Failure::InWorld { number: 1, failure });
    assert_eq!(story.exit(2, 3), [reported, Output::SignalRanks(SIGTERM)]);
    assert_eq!(story.after(FAILURE_GRACE), [Output::KillTree]);
    assert_eq!(story.finish().last(), Some(&Output::Finish(3)));
}

#[test]
fn a_rank_for_whose_init_its_spawner_waits_ends_the_job_if_it_ends_without() {
    for on_failure in [OnFailure::End, OnFailure::Continue] {
        let mut story = Story::with(1, on_failure, None);
        spawn(&mut story, WorldPlan { is_awaited: true, ..spawn_plan(1, 1, 1, 0) });
        let failure = Box::new(Failure::NotInitialized { rank: Rank(0) });
        assert_eq!(story.exit(1, 0)[0], reported(Failure::InWorld { number: 1, failure }));
        story.after(FAILURE_GRACE);
        assert_eq!(story.finish().last(), Some(&Output::Finish(1)));
    }
}

#[test]
fn worlds_have_fences_of_their_own() {
    let mut story = with_world(2, 1, 2, 2);
    assert_eq!(story.send(Input::EnteredFence(Rank(0))), []);
    assert_eq!(story.send(Input::EnteredFence(Rank(2))), []);
    assert_eq!(story.send(Input::EnteredFence(Rank(3))), [Output::ReleaseFence(Rank(2))]);
    assert_eq!(story.send(Input::EnteredFence(Rank(1))), [Output::ReleaseFence(Rank(0))]);
}

#[test]
fn ranks_of_two_worlds_meet_in_a_group_with_a_name() {
    let mut story = with_world(2, 1, 2, 2);
    let members = FenceMembers::Ranks("0-3".parse().unwrap());
    let group = FenceGroup { members, tag: 0, name: "connect".to_owned() };
    for rank in 0..3 {
        assert_eq!(story.send(Input::EnteredGroup(Rank(rank), group.clone())), []);
    }
    let released = story.send(Input::EnteredGroup(Rank(3), group.clone()));
    assert!(matches!(&released[..], [Output::ReleaseGroup(_, of)] if *of == group), "{released:?}");
}

#[test]
fn a_world_that_cannot_be_started_ends_alone_and_its_spawner_gets_the_number_of_the_failed_rank() {
    let mut story = Story::of(1);
    let plan = spawn_plan(1, 1, 2, 0);
    let first = plan.world.first;
    story.spawn(&plan);
    let failure = Failure::CannotExecute {
        rank: Rank(1),
        program: "./b".to_owned(),
        problem: "No such file or directory".to_owned(),
        missing: true,
    };
    assert_eq!(story.send(Input::WorldFailed(first, failure)), []);
    assert_eq!(story.send(Input::Prepared(first)), [Output::EndWorld(first)]);
    assert_eq!(story.send(Input::Exited(Rank(1), RankEnd::NotStarted)), []);
    let outputs = story.send(Input::Exited(Rank(2), RankEnd::NotStarted));
    let text = "spawn by rank 0: host h0: cannot execute \"./b\": No such file or directory";
    assert_eq!(
        outputs,
        [Output::ForgetWorld(first), Output::ReportNotice(text.to_owned()), refused(0),]
    );
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(0)]);
}

#[test]
fn a_world_whose_start_fails_ends_alone_although_its_ranks_wait_in_a_fence() {
    let mut story = Story::of(1);
    let plan = spawn_plan(1, 1, 2, 0);
    let first = plan.world.first;
    story.spawn(&plan);
    assert_eq!(story.send(Input::Prepared(first)), [Output::StartWorld(first)]);
    assert_eq!(story.send(Input::EnteredFence(Rank(1))), []);
    let failure = Failure::Suite { problem: "no process".to_owned() };
    assert_eq!(story.send(Input::WorldFailed(first, failure)), []);
    assert_eq!(story.send(Input::WorldStarted(first)), [Output::EndWorld(first)]);
    assert_eq!(story.send(Input::Exited(Rank(2), RankEnd::NotStarted)), []);
    let killed = RankEnd::Signaled { signal: 9, core: false };
    let text = "spawn by rank 0: host h0: no process".to_owned();
    assert_eq!(
        story.send(Input::Exited(Rank(1), killed)),
        [Output::ForgetWorld(first), Output::ReportNotice(text), refused(0)]
    );
}

#[test]
fn worlds_that_have_parted_end_each_on_its_own() {
    let mut story = with_world(1, 1, 1, 2);
    let world_connection = |joined| Input::WorldConnection { from: Rank(1), number: 0, joined };
    assert_eq!(story.send(world_connection(false)), []);
    let outputs = story.exit(2, 7);
    assert!(matches!(outputs[..], [Output::ReportFailed { .. }, Output::EndWorld(Rank(1))]));
    let killed = RankEnd::Signaled { signal: SIGKILL, core: false };
    let outputs = story.send(Input::Exited(Rank(1), killed));
    assert_eq!(outputs, [Output::ForgetWorld(Rank(1))]);
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(7)], "the first failure counts");

    let mut story = with_world(1, 1, 1, 2);
    story.send(world_connection(false));
    story.send(world_connection(true));
    assert_eq!(story.exit(2, 7).last(), Some(&Output::SignalRanks(SIGTERM)), "joined again");
}

#[test]
fn with_the_scope_world_a_spawned_world_and_its_spawner_end_each_on_its_own_unless_they_connect() {
    let story = || {
        let abort_scope = AbortScope::World;
        let mut story = Story::running(&Config { abort_scope, ..config(&host_slices(1, 1), 1) });
        spawn(&mut story, spawn_plan(1, 1, 2, 0));
        story
    };
    let outputs = story().exit(2, 7);
    assert!(matches!(outputs[..], [Output::ReportFailed { .. }, Output::EndWorld(Rank(1))]));
    let mut connected = story();
    connected.send(Input::WorldConnection { from: Rank(1), number: 0, joined: true });
    assert_eq!(connected.exit(2, 7).last(), Some(&Output::SignalRanks(SIGTERM)));
}

#[test]
fn what_an_ended_world_has_joined_stays_joined() {
    let mut story = with_world(1, 1, 1, 1);
    spawn(&mut story, spawn_plan(2, 2, 1, 1));
    assert_eq!(story.exit(1, 0), [Output::ForgetWorld(Rank(1))]);
    assert!(story.exit(2, 7).contains(&Output::SignalRanks(SIGTERM)));
}

#[test]
fn a_world_that_is_being_started_while_its_part_ends_is_ended_after_its_preparation() {
    let mut story = with_world(1, 1, 1, 1);
    story.send(Input::WorldConnection { from: Rank(1), number: 0, joined: false });
    let grandchild = spawn_plan(2, 2, 1, 1);
    let first = grandchild.world.first;
    story.spawn(&grandchild);
    let outputs = story.exit(1, 7);
    assert!(matches!(outputs[0], Output::ReportFailed { .. }));
    assert!(!outputs.contains(&Output::EndWorld(first)), "{outputs:?}");
    assert_eq!(story.send(Input::Prepared(first)), [Output::EndWorld(first)]);
    let outputs = story.send(Input::Exited(Rank(2), RankEnd::NotStarted));
    assert_eq!(outputs, [Output::ForgetWorld(first)]);
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
}

#[test]
fn a_rank_is_signaled_only_for_a_peer_of_its_world() {
    let mut story = with_world(2, 1, 2, 1);
    let interrupt =
        |from, rank| Input::InterruptRank { from: Rank(from), rank: Rank(rank), signal: 10 };
    assert_eq!(story.send(interrupt(0, 1)), [Output::Interrupt(Rank(1), 10)]);
    assert_eq!(story.send(interrupt(0, 2)), []);
    story.exit(1, 0);
    assert_eq!(story.send(interrupt(0, 1)), []);
}

fn rank_table(story: &Story) -> &RankTable {
    &story.manager.machine().job().unwrap().rank_table
}

/// The blocked ranks, and whether every world has one, if these ranks wait for a spawn.
fn blocked(story: &Story, waiting: &[u32]) -> (Vec<u32>, bool) {
    let blocked = rank_table(story).blocked(waiting.iter().map(|&rank| Rank(rank)));
    let count: u32 = blocked.at.iter().map(|(_, count)| count).sum();
    assert_eq!(count as usize, blocked.ranks.len());
    (blocked.ranks.iter().map(|rank| rank.0).collect(), blocked.everywhere)
}

#[test]
fn a_rank_is_blocked_while_it_waits_for_a_spawn_and_while_connected_children_live() {
    let mut story = with_world(2, 1, 2, 1);
    spawn(&mut story, spawn_plan(2, 3, 1, 2));
    assert_eq!(blocked(&story, &[]), (vec![0, 2], false), "rank 3 works");
    assert_eq!(blocked(&story, &[3]), (vec![0, 2, 3], true), "rank 1 may wait for rank 0");
    let before = rank_table(&story).freed();
    story.send(Input::WorldConnection { from: Rank(3), number: 1, joined: false });
    assert_eq!(blocked(&story, &[]), (vec![0], false));
    assert!(rank_table(&story).freed() > before);
    story.exit(2, 0);
    assert_eq!(blocked(&story, &[1, 2]), (vec![1], false), "rank 2 has ended");
}

#[test]
fn a_world_that_is_being_started_blocks_its_spawner_until_its_start_has_failed() {
    let mut story = Story::of(1);
    story.spawn(&spawn_plan(1, 1, 1, 0));
    assert_eq!(blocked(&story, &[]), (vec![0], false));
    let failure = Failure::Suite { problem: "no more processes".to_owned() };
    story.send(Input::WorldFailed(Rank(1), failure));
    story.send(Input::Prepared(Rank(1)));
    story.send(Input::Exited(Rank(1), RankEnd::NotStarted));
    assert_eq!(blocked(&story, &[]), (vec![], false));
    assert_eq!(blocked(&story, &[0]), (vec![0], true));
}

#[test]
fn a_world_that_a_user_has_requested_has_no_parent_and_blocks_no_rank() {
    let mut story = Story::of(1);
    let plan = WorldPlan { spawner: None, ..spawn_plan(1, 1, 2, 0) };
    story.spawn(&plan);
    assert_eq!(story.send(Input::Prepared(Rank(1))), [Output::StartWorld(Rank(1))]);
    assert_eq!(story.send(Input::WorldStarted(Rank(1))), []);
    assert_eq!(blocked(&story, &[]), (vec![], false));
    assert_eq!(story.exit(0, 0), []);
    assert_eq!(story.exit(1, 0), []);
    assert_eq!(story.exit(2, 0), [Output::ForgetWorld(Rank(1)), Output::KillTree]);
}

#[test]
fn ranks_that_wait_for_one_of_another_world_do_not_outlive_it() {
    let name = "connect".to_owned();
    let members = FenceMembers::Ranks("0,2".parse().unwrap());
    let group = FenceGroup { members, tag: 0, name };
    let waits = Input::EnteredGroup(Rank(2), group);
    let left = reported(Failure::LeftOthersWaiting { rank: Rank(0) });
    let story = || {
        let mut story = Story::of(2);
        let plan = WorldPlan { spawner: None, ..spawn_plan(1, 2, 1, 0) };
        story.spawn(&plan);
        story.send(Input::Prepared(Rank(2)));
        story.send(Input::WorldStarted(Rank(2)));
        story
    };
    let ended = [left, Output::EndWorld(Rank(0)), Output::SignalRanks(SIGTERM)];
    let mut late = story();
    assert_eq!(late.exit(0, 0), []);
    assert_eq!(late.send(waits.clone()), ended);
    let mut early = story();
    assert_eq!(early.send(waits), []);
    assert_eq!(early.exit(0, 0), ended);
}

#[test]
fn in_an_elastic_job_a_rank_may_end_with_0_without_finalize() {
    let mut story = Story::running(&Config { elastic: true, ..config(&host_slices(1, 2), 2) });
    story.send(Input::Initialized(Rank(0)));
    story.send(Input::Initialized(Rank(1)));
    assert_eq!(story.send(Input::EnteredFence(Rank(0))), []);
    assert_eq!(story.exit(1, 0), [Output::ReleaseFence(Rank(0))]);
    assert!(matches!(&story.exit(0, 3)[..], [Output::ReportFailed { .. }, ..]), "a failure");
}
