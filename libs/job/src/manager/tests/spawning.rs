//! Spawns from the request to the announcement, at the root of a job of one host.

use mpd_wire::message::Placing;
use pmi_proto::Ticket;

use super::worlds::spawn_plan;
use super::*;
use crate::manager::spawns::order::SpawnOrder;
use crate::manager::spawns::order::tests::small_order;

impl Story {
    /// The spawner of a plan requests its world, or a user does. The turn ends.
    pub(super) fn request(&mut self, plan: &WorldPlan) -> Vec<Output> {
        let size = plan.world.size;
        let order = small_order(size, plan.is_awaited).encode();
        let input = match plan.spawner {
            Some(spawner) => {
                let caller = (spawner, Ticket::FIRST);
                SpawnInput::Asked { caller, order, errors: vec![0; size as usize] }
            }
            None => SpawnInput::Grow(order),
        };
        assert_eq!(self.send(Input::Spawn(input)), []);
        self.end_turn()
    }

    /// The daemon answers the question of that number with the hosts of a plan.
    pub(super) fn placed(&mut self, number: u32, plan: &WorldPlan) -> Vec<Output> {
        let host_slice = |(tree_index, ranks): &(u32, RankSet)| HostSlice {
            member: name(*tree_index as usize),
            manager: Instance::from_bytes([2; 16]),
            addresses: Vec::new(),
            ranks: ranks.ranks().map(|rank| plan.world.own(rank)).collect(),
        };
        let host_slices: Vec<HostSlice> = plan.parts.0.iter().map(host_slice).collect();
        let last = host_slices.last().unwrap().member.clone();
        let placing = Placing::Done { host_slices, last };
        self.send(Input::Spawn(SpawnInput::Placed(number, placing)))
    }

    /// Both. Returns the outputs after the placement.
    pub(super) fn spawn(&mut self, plan: &WorldPlan) -> Vec<Output> {
        let number = question(&self.request(plan));
        self.placed(number, plan)
    }
}

/// The number of the only question.
fn question(outputs: &[Output]) -> u32 {
    match outputs {
        [Output::Spawn(SpawnOutput::Place(number, _))] => *number,
        _ => panic!("{outputs:?}"),
    }
}

/// The preparation of the world of a plan.
pub(super) fn prepared(plan: &WorldPlan) -> Output {
    Output::Prepare(Box::new(Announced {
        world: plan.world,
        parts: plan.parts.clone(),
        order: Some(small_order(plan.world.size, plan.is_awaited)),
    }))
}

/// The answer of success for the spawner of a plan.
pub(super) fn done(plan: &WorldPlan) -> Output {
    let spawned = (plan.kvsname.clone(), vec![0; plan.world.size as usize]);
    Output::Spawn(SpawnOutput::Answer((plan.spawner.unwrap(), Ticket::FIRST), Ok(spawned)))
}

pub(super) fn refused(spawner: u32) -> Output {
    Output::Spawn(SpawnOutput::Answer((Rank(spawner), Ticket::FIRST), Err("cannot_spawn")))
}

#[test]
fn a_spawn_waits_until_all_ranks_run_and_while_they_are_suspended() {
    let plan = spawn_plan(1, 2, 1, 0);
    let mut story = Story::starting(2, OnFailure::End, None);
    assert_eq!(story.request(&plan), []);
    assert_eq!(story.send(Input::Started), []);
    let first = question(&story.end_turn());
    story.send(Input::Suspend);
    assert_eq!(story.placed(first, &plan), [], "it is asked again later");
    assert_eq!(story.end_turn(), []);
    story.send(Input::Resume);
    let second = question(&story.end_turn());
    assert_eq!(story.placed(first, &plan), [], "late");
    assert_eq!(story.placed(second, &plan), [prepared(&plan)]);
}

#[test]
fn nothing_is_started_for_a_spawner_that_has_ended() {
    let mut story = Story::with(2, OnFailure::Continue, None);
    let plan = spawn_plan(1, 2, 1, 0);
    let number = question(&story.request(&plan));
    story.exit(0, 7);
    assert_eq!(story.placed(number, &plan), []);
}

#[test]
fn a_spawn_waits_while_the_job_ends() {
    let mut story = Story::of(2);
    story.exit(1, 7);
    assert_eq!(story.request(&spawn_plan(1, 2, 1, 0)), []);
    assert_eq!(story.end_turn(), []);
}

#[test]
fn a_spawn_that_no_host_takes_is_refused_with_the_reason() {
    let mut story = Story::of(2);
    let number = question(&story.request(&spawn_plan(1, 2, 1, 1)));
    let failed = Placing::Failed("the host h9 is unknown".to_owned());
    let outputs = story.send(Input::Spawn(SpawnInput::Placed(number, failed)));
    let text = "spawn by rank 1: the host h9 is unknown".to_owned();
    assert_eq!(outputs, [Output::ReportNotice(text), refused(1)]);
}

#[test]
fn a_spawn_without_room_is_asked_for_again_when_a_rank_has_ended() {
    let mut story = Story::of(2);
    let number = question(&story.request(&spawn_plan(1, 2, 1, 0)));
    assert_eq!(story.send(Input::Spawn(SpawnInput::Placed(number, Placing::Full))), []);
    assert_eq!(story.end_turn(), []);
    story.exit(1, 0);
    assert_eq!(question(&story.end_turn()), number + 1);
}

#[test]
fn the_next_daemon_is_asked_again_and_a_spawn_without_an_answer_is_refused() {
    let mut story = Story::of(2);
    let number = question(&story.request(&spawn_plan(1, 2, 1, 0)));
    assert_eq!(question(&story.send(Input::Registered)), number);
    let until = story.manager.machine().poll_timeout().unwrap();
    let outputs = story.after(until - story.now);
    let text = "spawn by rank 0: the daemon here does not answer".to_owned();
    assert_eq!(outputs, [Output::ReportNotice(text), refused(0)]);
}

#[test]
fn a_restart_forgets_the_spawns_of_the_run_before() {
    let config = Config { debugged: true, ..config(&host_slices(1, 2), 2) };
    let mut story = Story::running(&config);
    let number = question(&story.request(&spawn_plan(1, 2, 1, 0)));
    assert_eq!(story.send(Input::Restart), [Output::Restart]);
    assert_eq!(story.send(Input::Restarted), [Output::ReportRestarted]);
    assert_eq!(story.placed(number, &spawn_plan(1, 2, 1, 0)), []);
    assert_eq!(story.manager.machine().poll_timeout(), None);
    let next = question(&story.request(&spawn_plan(1, 2, 1, 0)));
    assert_eq!(story.placed(next, &spawn_plan(1, 2, 1, 0)), [prepared(&spawn_plan(1, 2, 1, 0))]);
}

#[test]
fn an_order_that_cannot_be_read_refuses_its_spawn() {
    let mut story = Story::of(1);
    let caller = (Rank(0), Ticket::FIRST);
    let asked = SpawnInput::Asked { caller, order: b"??".to_vec(), errors: Vec::new() };
    let outputs = story.send(Input::Spawn(asked));
    let problem = SpawnOrder::decode(b"??").unwrap_err();
    let text = format!("spawn by rank 0: {problem}");
    assert!(text.starts_with("spawn by rank 0: malformed order"), "{text}");
    assert_eq!(outputs, [Output::ReportNotice(text), refused(0)]);
}
