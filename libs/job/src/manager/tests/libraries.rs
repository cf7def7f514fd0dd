//! Stories of ranks with different MPI libraries.

use mpd_wire::job::MpiLibrary::{Intel, LateMpich, LikeMpich, Mpich, OpenMpi4, OpenMpi5};

use super::tree::{Post, to_parent};
use super::*;

#[test]
fn ranks_of_one_world_with_two_mpi_libraries_end_the_job_with_125() {
    let mut story = Story::of(3);
    assert_eq!(story.send(Input::Uses(Rank(0), Mpich)), []);
    assert_eq!(story.send(Input::Uses(Rank(1), Mpich)), []);
    let failure = Failure::TwoLibraries {
        rank: Rank(2),
        library: OpenMpi5,
        other: Rank(0),
        other_library: Mpich,
    };
    let text = failure.to_string();
    assert!(text.contains("rank 2 uses Open MPI 5 or later, and rank 0 uses MPICH 4.1"), "{text}");
    let outputs = story.send(Input::Uses(Rank(2), OpenMpi5));
    assert!(outputs.contains(&reported(failure)), "{outputs:?}");
    assert_eq!(story.manager.machine().exit_code(), 125);
}

#[test]
fn two_versions_of_a_library_end_the_job_and_relatives_of_an_unclear_version_do_not() {
    for (one, other) in [(OpenMpi4, OpenMpi5), (LateMpich, LikeMpich), (LateMpich, Intel)] {
        let mut story = Story::of(2);
        assert_eq!(story.send(Input::Uses(Rank(0), one)), []);
        let outputs = story.send(Input::Uses(Rank(1), other));
        assert!(matches!(outputs[0], Output::ReportFailed { .. }), "{one} {other}: {outputs:?}");
    }
    let mut story = Story::of(3);
    assert_eq!(story.send(Input::Uses(Rank(0), LikeMpich)), []);
    assert_eq!(story.send(Input::Uses(Rank(1), Intel)), []);
    assert!(!story.send(Input::Uses(Rank(2), Mpich)).is_empty(), "now it is known exactly");
}

#[test]
fn a_manager_reports_one_rank_of_each_library_to_its_parent() {
    let mut inner = Post::inner_running();
    let uses = |rank: u32, library| Up::Uses { rank: Rank(rank), library };
    assert_eq!(inner.send(Input::Uses(Rank(2), Mpich)), [to_parent(uses(2, Mpich))]);
    assert_eq!(inner.send(Input::Uses(Rank(3), Mpich)), []);
    assert_eq!(inner.receive(uses(34, Mpich)), []);
    assert_eq!(inner.receive(uses(35, OpenMpi5)), [to_parent(uses(35, OpenMpi5))]);
}
