//! The first phase of a start, before a process runs.

use mpd_wire::job::Failure;

use super::*;
use crate::manager::context::Common;
use crate::manager::fixture;

/// The inputs after the checks of a job that runs `program`.
fn checked(program: &str, problem: Option<&str>) -> (Vec<Input>, Ranks, Common) {
    let mut common = fixture::common(program);
    let (groups, daemon) = (Rc::default(), Pid::parent());
    let place = Place { cgroup: None, readiness: None, groups, daemon };
    let mut ranks = Ranks::new(place, None).unwrap();
    ranks.get_ready(&mut common.turn(), problem.map(str::to_owned), None);
    (fixture::inputs(&mut common), ranks, common)
}

#[test]
fn ranks_are_ready_when_all_checks_have_passed_and_start_at_the_command() {
    let (inputs, mut ranks, mut common) = checked("true", None);
    assert_eq!(inputs, [Input::Ready]);
    assert!(!ranks.is_any_starting());
    ranks.start_world(Rank(0));
    assert!(ranks.is_any_starting());
    ranks.start_some(&mut common.turn(), true);
    assert!(ranks.is_any_starting(), "no rank starts while everything is stopped");
    assert_eq!(ranks.table.children(), 0);
}

#[test]
fn a_missing_program_fails_the_start_and_names_the_rank() {
    let (inputs, ..) = checked("no-such-program", None);
    let [Input::StartFailed(Failure::CannotExecute { rank, program, missing, .. })] = &inputs[..]
    else {
        panic!("{inputs:?}");
    };
    assert_eq!((*rank, program.as_str(), *missing), (Rank(0), "no-such-program", true));
}

#[test]
fn a_problem_of_the_host_fails_the_start() {
    let (inputs, ..) = checked("true", Some("no space"));
    let failure = Failure::Suite { problem: "no space".to_owned() };
    assert_eq!(inputs, [Input::StartFailed(failure)]);
}

#[test]
fn ranks_of_a_world_that_ends_before_its_start_are_reported_as_not_started() {
    let (_, mut ranks, mut common) = checked("true", None);
    ranks.start_world(Rank(0));
    ranks.end_world(&mut common.turn(), Rank(0));
    let not_started = |rank| Input::Exited(Rank(rank), RankEnd::NotStarted);
    assert_eq!(fixture::inputs(&mut common), [not_started(0), not_started(1)]);
    assert!(!ranks.is_any_starting());
}

#[test]
fn a_token_of_no_rank_is_of_no_rank() {
    let (_, ranks, _) = checked("true", None);
    assert_eq!(ranks.of_token(FIRST_RANK), None);
    assert_eq!(ranks.of_pid(Pid::this()), None);
}
