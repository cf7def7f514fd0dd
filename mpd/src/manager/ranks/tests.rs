//! The checks before a process runs.

use mpd_wire::job::Failure;

use super::*;
use crate::manager::fixture;

/// The inputs of the job after the checks of one that runs `program`.
fn checked(program: &str) -> (Vec<JobInput>, Ranks) {
    let mut common = fixture::common(program);
    let (groups, daemon) = (Rc::default(), Pid::parent());
    let place = Place { cgroup: None, readiness: None, groups, daemon };
    let mut ranks = Ranks::new(place, None).unwrap();
    ranks.check(&mut common.turn(), None, None);
    (fixture::inputs(&mut common), ranks)
}

#[test]
fn ranks_are_ready_when_all_checks_have_passed() {
    let (inputs, ranks) = checked("true");
    assert_eq!(inputs, [JobInput::Ready]);
    assert!(ranks.prepared.contains_key(&Rank(0)) && !ranks.is_any_starting());
}

#[test]
fn a_missing_program_fails_the_start_and_names_the_rank() {
    let (inputs, _) = checked("no-such-program");
    let [JobInput::StartFailed(Failure::CannotExecute { rank, program, missing, .. })] =
        &inputs[..]
    else {
        panic!("{inputs:?}");
    };
    assert_eq!((*rank, program.as_str(), *missing), (Rank(0), "no-such-program", true));
}
