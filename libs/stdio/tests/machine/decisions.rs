//! Decisions of the machine on one host.

use mpd_stdio::machine::{Answer, Input, Output};
use mpd_wire::message::{Down, Up};
use mpd_wire::{RankSet, Stream};

use crate::host::Host;
use crate::job::Job;

fn ranks(text: &str) -> RankSet {
    text.parse().unwrap()
}

/// The second of 18 managers, each with a rank. Rank 17 runs at its child.
fn middle() -> (Job, Host) {
    let hosts: Vec<RankSet> = (0..18).map(|host| ranks(&host.to_string())).collect();
    let job = Job::new(&hosts, |spec| spec.output.merge = true);
    let mut host = Host::new(&job, 1, false);
    host.sent.clear();
    (job, host)
}

/// The answers that a manager sends to its parent.
fn answers(job: &Job, host: &mut Host) -> Vec<(RankSet, RankSet)> {
    host.pass_up(job);
    let answer = |output| match output {
        Output::ToParentIfRoom(Up::Looked { behind, others, .. }) => Some((behind, others)),
        _ => None,
    };
    std::mem::take(&mut host.sent).into_iter().filter_map(answer).collect()
}

#[test]
fn a_question_of_the_parent_goes_to_the_children_whose_ranks_it_is_about() {
    let (job, mut host) = middle();
    host.give(&job, Input::LookAt(Stream::Err, ranks("1,17")));
    let question = Down::LookAt { stream: Stream::Err, ranks: ranks("17") };
    assert_eq!(host.sent, [Output::ToChild(17, question)]);
}

#[test]
fn an_answer_about_ranks_that_do_not_run_at_that_child_is_ignored() {
    let (job, mut host) = middle();
    for (others, is_known) in [("1", false), ("all", false), ("17", true)] {
        let (behind, others) = (RankSet::none(), ranks(others));
        let answer = Answer { child: Some(17), stream: Stream::Out, behind, others };
        host.give(&job, Input::Looked(answer));
        assert_eq!(answers(&job, &mut host).len(), usize::from(is_known));
    }
}

#[test]
fn a_manager_answers_once_about_its_own_ranks_and_ignores_other_questions() {
    let (job, mut host) = middle();
    for asked in ["all", "4", "1"] {
        host.give(&job, Input::LookAt(Stream::Out, ranks(asked)));
    }
    assert_eq!(answers(&job, &mut host), [(RankSet::none(), ranks("1"))]);
    assert_eq!(answers(&job, &mut host), []);
}
