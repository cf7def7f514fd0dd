//! Stories of jobs whose ranks are debuggers.

use super::*;
use crate::manager::tests::worlds::spawn_plan;

fn debugged(hosts: usize, size: u32, tree_index: usize) -> Manager {
    let host_slices = host_slices(hosts, size / u32::try_from(hosts).unwrap());
    Manager::new(&Config { tree_index, debugged: true, ..config(&host_slices, size) })
}

fn running(size: u32) -> Story {
    let mut story =
        Story { manager: Pump::new(debugged(1, size, 0)), now: Time::ZERO, ended: Vec::new() };
    assert_eq!(story.send(Input::Ready), [Output::ReportStarted, Output::Go]);
    assert_eq!(story.send(Input::Started), []);
    story
}

#[test]
fn an_abort_or_a_broken_protocol_under_a_debugger_is_reported_and_ends_no_rank() {
    let mut story = running(3);
    story.send(Input::Initialized(Rank(0)));
    let aborted = story.send(Input::Aborted(Rank(1), 3, "why".into()));
    assert!(
        matches!(&aborted[..], [Output::ReportNotice(text), Output::Debug(ranks, line)]
            if text.contains("why") && ranks.contains(Rank(1)) && line == "0 interrupt"),
        "{aborted:?}"
    );
    let broke = story.send(Input::BrokeProtocol(Rank(1), "odd".into()));
    assert!(matches!(&broke[..], [Output::ReportNotice(text)] if text.contains("odd")));
    assert_eq!(story.send(Input::EnteredFence(Rank(0))), []);
    // The user has ended a debugger while other ranks wait in a fence.
    assert_eq!(story.exit(1, 0), []);
    assert_eq!(story.exit(2, 7), [rank_failed(2, 7), Output::ReleaseFence(Rank(0))]);
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(7)]);
}

#[test]
fn a_restart_empties_the_fence_and_ends_what_was_spawned() {
    let mut story = running(2);
    let plan = spawn_plan(1, 2, 1, 0);
    story.spawn(&plan);
    story.send(Input::Prepared(Rank(2)));
    story.send(Input::WorldStarted(Rank(2)));
    assert_eq!(story.send(Input::EnteredFence(Rank(0))), []);
    assert_eq!(story.send(Input::Restart), [Output::EndWorld(Rank(2)), Output::Restart]);
    assert_eq!(story.send(Input::EnteredFence(Rank(1))), [], "late, of the run before");
    assert_eq!(story.send(Input::Restarted), [Output::ReportRestarted]);
    let killed = RankEnd::Signaled { signal: 9, core: false };
    let gone = story.send(Input::Exited(Rank(2), killed));
    assert_eq!(gone, [Output::ForgetWorld(Rank(2))], "nobody calls that a failure");
    assert_eq!(story.send(Input::EnteredFence(Rank(1))), [], "rank 0 is outside again");
    assert_eq!(story.send(Input::EnteredFence(Rank(0))), [Output::ReleaseFence(Rank(0))]);
}

#[test]
fn a_job_that_is_not_debugged_is_not_restarted() {
    let mut story = Story::of(1);
    assert_eq!(story.send(Input::Restart), []);
    assert_eq!(story.send(Input::Debug(RankSet::all(), "1 cli next".into())), []);
}

#[test]
fn commands_go_where_their_ranks_are_and_a_restart_is_answered_when_all_have() {
    let mut root = debugged(2, 4, 0);
    let mut send = |input| {
        root.handle(Time::ZERO, input);
        std::iter::from_fn(|| root.poll_output()).collect::<Vec<_>>()
    };
    send(Input::Ready);
    send(Input::FromChild(1, Up::Ready));
    send(Input::Started);
    send(Input::FromChild(1, Up::Started));
    let (ranks, line) = (one(Rank(1)), "1 cli next".to_owned());
    let command = |ranks: &RankSet| Input::Debug(ranks.clone(), line.clone());
    assert_eq!(send(command(&ranks)), [Output::Debug(ranks, line.clone())]);
    let ranks = one(Rank(3));
    let down = Down::Debug { ranks: ranks.clone(), line: line.clone() };
    let both = [Output::Debug(ranks.clone(), line.clone()), Output::ToSome(vec![1], down)];
    assert_eq!(send(command(&ranks)), both);
    // A spawned rank may be on any host.
    let ranks = one(Rank(9));
    let down = Down::Debug { ranks: ranks.clone(), line: line.clone() };
    let all = [Output::Debug(ranks.clone(), line.clone()), Output::ToSome(vec![1], down)];
    assert_eq!(send(command(&ranks)), all);
    assert_eq!(send(Input::Restart), [Output::ToChildren(Down::Restart), Output::Restart]);
    assert_eq!(send(Input::Restarted), []);
    assert_eq!(send(Input::FromChild(1, Up::Restarted)), [Output::ReportRestarted]);
}
