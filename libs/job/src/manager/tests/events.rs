//! Stories of the events of a job.

use mpd_wire::message::{HostTurn, JobChange};

use super::tree::Post;
use super::*;

fn changes(outputs: Vec<Output>) -> Vec<JobChange> {
    let events = outputs.into_iter().filter_map(|output| match output {
        Output::Events(events) => Some(events),
        _ => None,
    });
    events.flatten().map(|event| event.change).collect()
}

fn started(rank: u32, pid: u32) -> JobChange {
    JobChange::Started { rank: Rank(rank), pid, host: name(rank as usize / 2) }
}

fn ended(rank: u32, end: RankEnd) -> JobChange {
    JobChange::Exited { rank: Rank(rank), host: name(rank as usize / 2), end }
}

fn host(index: usize, to: HostTurn) -> HostChange {
    HostChange { host: name(index), to }
}

fn changed(change: HostChange) -> Input {
    Input::HostsChanged { changes: vec![change], found: Vec::new() }
}

#[test]
fn events_of_a_job_have_the_order_in_which_its_root_learns_of_them() {
    let mut root = Post::root_running(OnFailure::Continue);
    root.receive(Up::Pids { pids: vec![(Rank(2), 12), (Rank(3), 13)] });
    root.send(Input::Pids(vec![(Rank(0), 10), (Rank(1), 11)]));
    root.send(Input::Exited(Rank(1), RankEnd::Exited(7)));
    assert_eq!(changes(root.flush()), [], "there is no subscriber");
    root.send(Input::ReportEvents);
    let exited = |rank, code| ended(rank, RankEnd::Exited(code));
    let first = [started(2, 12), started(3, 13), started(0, 10), started(1, 11), exited(1, 7)];
    assert_eq!(changes(root.flush()), first);
    root.send(changed(host(5, HostTurn::Added)));
    root.receive(Up::Exited { ends: vec![(Rank(3), RankEnd::Exited(0))] });
    // A report that comes twice is one event.
    root.receive(Up::Pids { pids: vec![(Rank(2), 12)] });
    let next = [JobChange::Host(host(5, HostTurn::Added)), exited(3, 0)];
    assert_eq!(changes(root.flush()), next);
    root.send(Input::Registered);
    assert_eq!(changes(root.flush()), [&first[..], &next].concat(), "a new daemon gets all");
}

#[test]
fn events_of_a_job_name_a_lost_host_once_and_before_the_ends_of_its_ranks() {
    for ring_is_first in [true, false] {
        let mut root = Post::root_running(OnFailure::End);
        root.send(Input::ReportEvents);
        root.receive(Up::Pids { pids: vec![(Rank(2), 12), (Rank(3), 13)] });
        let losses =
            [changed(host(1, HostTurn::Lost)), Input::ChildLost(1, "no answer".to_owned())];
        let mut losses = Vec::from(losses);
        if !ring_is_first {
            losses.reverse();
        }
        let mut outputs = Vec::new();
        for loss in losses {
            outputs.extend(root.send(loss));
            outputs.extend(root.flush());
        }
        let lost = |rank| ended(rank, RankEnd::Lost);
        let loss = JobChange::Host(host(1, HostTurn::Lost));
        let all = [started(2, 12), started(3, 13), loss, lost(2), lost(3)];
        assert_eq!(changes(outputs), all);
    }
}

#[test]
fn events_of_a_job_end_before_the_job_does() {
    let mut story = Story::starting(2, OnFailure::Continue, None);
    story.send(Input::ReportEvents);
    // Rank 0 has ended before its process id is reported.
    story.exit(0, 3);
    story.send(Input::Pids(vec![(Rank(0), 10), (Rank(1), 11)]));
    story.send(Input::Started);
    story.exit(1, 0);
    let outputs = story.finish();
    let Some([Output::Events(events), Output::Finish(3)]) = outputs.last_chunk() else {
        panic!("{outputs:?}");
    };
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let host = name(0);
    let of = |rank, pid| JobChange::Started { rank: Rank(rank), pid, host: host.clone() };
    let end = |rank, code| JobChange::Exited {
        rank: Rank(rank),
        host: host.clone(),
        end: RankEnd::Exited(code),
    };
    let expected = [of(0, 10), end(0, 3), of(1, 11), end(1, 0), JobChange::JobEnded { code: 3 }];
    let changes: Vec<JobChange> = events.iter().map(|event| event.change.clone()).collect();
    assert_eq!(changes, expected);
}
