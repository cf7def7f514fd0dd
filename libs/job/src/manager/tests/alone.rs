//! Stories of ranks that use an MPI library which does not speak PMI.

use super::*;

const LIBRARY: &str = "/usr/lib/libmpi.so.40";

fn seen(rank: u32) -> Input {
    Input::Alone(Rank(rank), LIBRARY.to_owned())
}

fn ran_alone(rank: u32) -> Failure {
    Failure::RanAlone { rank: Rank(rank), library: LIBRARY.to_owned() }
}

#[test]
fn a_job_whose_ranks_each_ran_alone_ends_with_1_and_names_the_first() {
    let mut story = Story::of(3);
    assert_eq!(story.send(seen(1)), []);
    assert_eq!(story.send(seen(0)), []);
    assert_eq!(story.send(seen(2)), [], "nothing is ended for that");
    assert_eq!([story.exit(2, 0), story.exit(0, 0)], [[], []]);
    assert_eq!(story.exit(1, 0), [Output::KillTree]);
    let failure = ran_alone(0);
    let text = failure.to_string();
    assert!(text.contains(LIBRARY) && text.contains("-allow-alone"), "{text}");
    assert_eq!(story.finish(), [reported(failure), Output::Drain, Output::Finish(1)]);
}

#[test]
fn ranks_did_not_run_alone_if_one_of_them_spoke_pmi() {
    for speaks_first in [true, false] {
        let mut story = Story::of(2);
        let mut reports = [seen(0), Input::Initialized(Rank(1))];
        if speaks_first {
            reports.reverse();
        }
        reports.into_iter().for_each(|report| assert_eq!(story.send(report), []));
        story.send(Input::Finalized(Rank(1)));
        story.exit(0, 0);
        story.exit(1, 0);
        assert_eq!(story.finish(), [Output::Drain, Output::Finish(0)]);
    }
}

#[test]
fn the_failure_of_a_rank_that_ran_alone_gives_the_code() {
    for on_failure in [OnFailure::End, OnFailure::Continue] {
        let mut story = Story::with(2, on_failure, None);
        story.send(seen(0));
        assert_eq!(story.exit(1, 7)[0], rank_failed(1, 7));
        story.exit(0, 0);
        assert_eq!(story.finish(), [Output::Drain, Output::Finish(7)]);
    }
}

#[test]
fn a_rank_that_ran_alone_on_another_host_is_reported_with_that_host() {
    let host_slices = host_slices(2, 1);
    let manager = Pump::new(Manager::new(&config(&host_slices, 2)));
    let mut story = Story { manager, now: Time::ZERO, ended: Vec::new() };
    story.send(Input::Ready);
    story.send(Input::FromChild(1, Up::Ready));
    story.send(Input::Started);
    story.send(Input::FromChild(1, Up::Started));
    let alone = |rank| Up::Alone { rank: Rank(rank), library: LIBRARY.to_owned() };
    story.send(Input::FromChild(1, alone(0)));
    story.send(Input::FromChild(1, alone(1)));
    story.exit(0, 0);
    story.send(Input::FromChild(1, Up::Exited { ends: vec![(Rank(1), RankEnd::Exited(0))] }));
    story.send(Input::TreeGone);
    let outputs = story.send(Input::FromChild(1, Up::Gone));
    let reported = Output::ReportFailed { host: Some(name(1)), failure: ran_alone(1) };
    assert!(outputs.contains(&reported), "a host speaks of its own ranks alone: {outputs:?}");
    assert_eq!(story.manager.machine().exit_code(), 1);
}
