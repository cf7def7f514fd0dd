//! The ends of ranks and jobs: their exit codes and texts.

use mpd_wire::Rank;
use mpd_wire::job::{Failure, ManagerEnd, MpiLibrary, RankEnd, World};

#[test]
fn every_way_to_end_has_its_documented_code() {
    let rank = Rank(3);
    let ended = |end| Failure::Rank { rank, end }.exit_code();
    for code in 1..=255 {
        assert_eq!(ended(RankEnd::Exited(code)), code);
    }
    for signal in 1..=31 {
        assert_eq!(ended(RankEnd::Signaled { signal, core: false }), 128 + signal);
    }
    assert_eq!([RankEnd::NotStarted, RankEnd::Lost].map(ended), [125, 125]);
    let abort = |code| Failure::Aborted { rank, code, message: String::new() }.exit_code();
    assert_eq!([abort(7), abort(0), abort(256), abort(-1), abort(257)], [7, 1, 1, 255, 1]);
    let cannot = |missing| {
        Failure::CannotExecute { rank, program: "p".into(), problem: "x".into(), missing }
            .exit_code()
    };
    assert_eq!([cannot(true), cannot(false)], [127, 126]);
    assert_eq!(Failure::NotFinalized { rank }.exit_code(), 1);
    assert_eq!(Failure::LeftOthersWaiting { rank }.exit_code(), 1);
    let two = Failure::TwoLibraries {
        rank,
        library: MpiLibrary::OpenMpi5,
        other: rank,
        other_library: MpiLibrary::Mpich,
    };
    assert_eq!(two.exit_code(), 125);
    assert_eq!(Failure::RanAlone { rank, library: String::new() }.exit_code(), 1);
    assert_eq!(Failure::OutputClosed.exit_code(), 141);
    assert_eq!(Failure::TimedOut { limit_ms: 1 }.exit_code(), 124);
    assert_eq!(Failure::Suite { problem: String::new() }.exit_code(), 125);
    let connected = |code| {
        let job = "7@h1".parse().unwrap();
        Failure::ConnectedJob { job, code, problem: String::new() }.exit_code()
    };
    assert_eq!([connected(7), connected(125), connected(0)], [7, 125, 1]);
}

#[test]
fn a_failure_in_a_spawned_world_names_it_and_has_the_same_code() {
    let world = World { number: 2, first: Rank(10), size: 3 };
    let failure = Failure::Rank { rank: Rank(12), end: RankEnd::Exited(3) }.in_world(&world);
    assert_eq!(failure.to_string(), "world 2: rank 2: exited with code 3");
    assert_eq!(failure.exit_code(), 3);
    assert_eq!(Failure::Killed.in_world(&world), Failure::Killed);
}

#[test]
fn a_signal_is_printed_with_number_and_name() {
    let end = RankEnd::Signaled { signal: 11, core: true };
    let failure = Failure::Rank { rank: Rank(2), end };
    assert_eq!(
        failure.to_string(),
        "rank 2: killed by signal 11 (Segmentation fault, core dumped)"
    );
}

#[test]
fn a_lost_host_is_named_with_the_end_of_its_manager() {
    let text = |end: ManagerEnd| {
        Failure::HostLost { host: "h3".into(), problem: end.to_string() }.to_string()
    };
    assert_eq!(
        text(ManagerEnd::OutOfMemory),
        "host h3 is lost: memory ran out: the kernel has killed its manager; the job was ended"
    );
    assert_eq!(
        text(ManagerEnd::Signaled { signal: 9, core: false }),
        "host h3 is lost: its manager was killed by signal 9 (Killed); the job was ended"
    );
    assert_eq!(
        text(ManagerEnd::Exited(101)),
        "host h3 is lost: its manager exited with code 101; the job was ended"
    );
}
