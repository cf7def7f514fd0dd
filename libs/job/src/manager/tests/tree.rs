//! Stories of one manager of a tree, and of the root of several hosts.

use super::dice::Dice;
use super::*;

const RELEASE: Down = Down::Release { first: Rank(0) };
use mpd_wire::Stream;
use mpd_wire::message::{FenceMembers, MAX_LISTED};

/// One manager of a job, with two ranks on each host.
pub(super) struct Post {
    manager: Manager,
    now: Time,
}

impl Post {
    fn at(tree_index: usize, hosts: usize) -> Self {
        Self::with(tree_index, hosts, OnFailure::End)
    }

    fn with(tree_index: usize, hosts: usize, on_failure: OnFailure) -> Self {
        let size = u32::try_from(hosts).unwrap() * 2;
        let host_slices = host_slices(hosts, 2);
        let config = Config { tree_index, on_failure, ..config(&host_slices, size) };
        Self { manager: Manager::new(&config), now: Time::ZERO }
    }

    /// The root of two hosts, both running.
    pub(super) fn root_running(on_failure: OnFailure) -> Self {
        let mut root = Self::with(0, 2, on_failure);
        root.send(Input::Ready);
        root.receive(Up::Ready);
        root.send(Input::Started);
        assert_eq!(root.receive(Up::Started), []);
        root
    }

    /// The root of two hosts whose ranks exited with 0, with no process left on either.
    fn root_of_ended_ranks() -> Self {
        let mut root = Self::root_running(OnFailure::End);
        for rank in [0, 1] {
            root.send(Input::Exited(Rank(rank), RankEnd::Exited(0)));
        }
        root.receive(exited(2, 0));
        root.receive(exited(3, 0));
        root.send(Input::TreeGone);
        root.receive(Up::Gone);
        root
    }

    /// The parent of one manager and child of the root. Its two ranks and those of tree index 17 run.
    pub(super) fn inner_running() -> Self {
        let mut inner = Self::at(1, 18);
        inner.send(Input::FromParent(Down::Go));
        inner
    }

    pub(super) fn send(&mut self, input: Input) -> Vec<Output> {
        self.manager.handle(self.now, input);
        self.outputs()
    }

    pub(super) fn obey(&mut self, down: Down) -> Vec<Output> {
        self.send(Input::FromParent(down))
    }

    /// Hands in a report of the first child.
    pub(super) fn receive(&mut self, up: Up) -> Vec<Output> {
        let tree_index = if self.manager.branch.is_root() { 1 } else { 17 };
        self.send(Input::FromChild(tree_index, up))
    }

    pub(super) fn flush(&mut self) -> Vec<Output> {
        self.manager.end_turn(self.now);
        self.outputs()
    }

    pub(super) fn after(&mut self, wait: Duration) -> Vec<Output> {
        self.now = self.now + wait;
        self.manager.handle_timeout(self.now);
        let mut outputs = self.outputs();
        outputs.extend(self.flush());
        outputs
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.manager.poll_output()).collect()
    }
}

fn to_children(down: Down) -> Output {
    Output::ToChildren(down)
}

pub(super) fn to_parent(up: Up) -> Output {
    Output::ToParent(up)
}

pub(super) fn ranks(text: &str) -> RankSet {
    text.parse().unwrap()
}

pub(super) fn exited(rank: u32, code: u8) -> Up {
    Up::Exited { ends: vec![(Rank(rank), RankEnd::Exited(code))] }
}

#[test]
fn ranks_start_when_all_hosts_are_ready_and_not_before() {
    let mut root = Post::at(0, 2);
    assert_eq!(root.send(Input::Ready), []);
    assert_eq!(root.receive(Up::Ready), [Output::ReportStarted, to_children(Down::Go), Output::Go]);
    let mut inner = Post::at(1, 18);
    assert_eq!(inner.receive(Up::Ready), []);
    assert_eq!(inner.send(Input::Ready), [to_parent(Up::Ready)]);
    assert_eq!(inner.obey(Down::Go), [to_children(Down::Go), Output::Go]);
}

#[test]
fn a_root_cut_off_from_managers_that_have_not_connected_withdraws_the_job() {
    let mut root = Post::at(0, 2);
    root.send(Input::Ready);
    assert_eq!(root.send(Input::CutOff), [to_children(Down::Kill), Output::KillTree]);
    assert_eq!(root.send(Input::ChildLost(1, "not connected".into())), [], "it is no failure");
    assert_eq!(root.send(Input::TreeGone), [Output::Drain]);
    assert_eq!(root.send(Input::Drained), [Output::CleanUp]);
    assert_eq!(root.send(Input::CleanedUp), [Output::Withdraw]);
}

#[test]
fn a_job_with_the_command_to_start_is_never_withdrawn() {
    let mut root = Post::root_running(OnFailure::End);
    assert_eq!(root.send(Input::CutOff), []);
    let mut starting = Post::at(0, 2);
    starting.send(Input::Ready);
    starting.receive(Up::Ready);
    assert_eq!(starting.send(Input::CutOff), []);
}

#[test]
fn a_failed_check_on_one_host_ends_the_start_on_all_and_names_the_host() {
    let mut root = Post::at(0, 2);
    root.send(Input::Ready);
    let failure = Failure::Suite { problem: "no such directory".into() };
    let reported = Output::ReportFailed { host: Some(name(1)), failure: failure.clone() };
    assert_eq!(
        root.receive(Up::StartFailed { member: name(1), failure }),
        [reported, to_children(Down::Kill), Output::KillTree]
    );
    assert_eq!(root.receive(Up::Ready), [], "too late");
}

#[test]
fn inner_managers_pass_a_failed_check_to_the_root() {
    let mut inner = Post::at(1, 18);
    let failure = Failure::Suite { problem: "x".into() };
    let report = Up::StartFailed { member: name(17), failure };
    assert_eq!(inner.receive(report.clone()), [to_parent(report)]);
    assert_eq!(inner.obey(Down::Kill), [to_children(Down::Kill), Output::KillTree]);
    assert_eq!(inner.obey(Down::Go), [], "nobody starts after that");
}

#[test]
fn a_job_of_two_hosts_ends_when_both_are_done_with_each_step() {
    let mut root = Post::root_running(OnFailure::End);
    for rank in [0, 1] {
        assert_eq!(root.send(Input::Exited(Rank(rank), RankEnd::Exited(0))), []);
    }
    root.receive(exited(2, 0));
    assert_eq!(root.receive(exited(3, 0)), [to_children(Down::Kill), Output::KillTree]);
    assert_eq!(root.send(Input::TreeGone), []);
    assert_eq!(root.receive(Up::Gone), [to_children(Down::Drain)], "first the output from below");
    assert_eq!(root.receive(Up::Drained), [Output::Drain]);
    assert_eq!(root.send(Input::Drained), [to_children(Down::CleanUp), Output::CleanUp]);
    assert_eq!(root.send(Input::CleanedUp), []);
    assert_eq!(root.receive(Up::CleanedUp), [Output::Finish(0)]);
}

#[test]
fn a_manager_leaves_when_nothing_is_left_here_and_below() {
    let mut inner = Post::inner_running();
    assert_eq!(inner.obey(Down::Kill), [to_children(Down::Kill), Output::KillTree]);
    assert_eq!(inner.send(Input::TreeGone), []);
    assert_eq!(inner.receive(Up::Gone), [to_parent(Up::Gone)]);
    assert_eq!(inner.obey(Down::Drain), [to_children(Down::Drain)]);
    assert_eq!(inner.send(Input::Drained), [], "more comes from below");
    assert_eq!(inner.receive(Up::Drained), [Output::Drain]);
    assert_eq!(inner.send(Input::Drained), [to_parent(Up::Drained)]);
    assert_eq!(inner.obey(Down::CleanUp), [to_children(Down::CleanUp), Output::CleanUp]);
    assert_eq!(inner.receive(Up::CleanedUp), []);
    assert_eq!(inner.send(Input::ChildLost(17, "closed".into())), [], "it has left");
    assert_eq!(inner.send(Input::CleanedUp), [to_parent(Up::CleanedUp), Output::Leave]);
}

#[test]
fn a_link_that_breaks_after_its_host_has_reported_everything_costs_the_job_nothing() {
    let mut root = Post::with(0, 3, OnFailure::End);
    root.send(Input::Ready);
    for tree_index in [1, 2] {
        root.send(Input::FromChild(tree_index, Up::Ready));
    }
    root.send(Input::Started);
    for tree_index in [1, 2] {
        root.send(Input::FromChild(tree_index, Up::Started));
    }
    for rank in [0, 1] {
        root.send(Input::Exited(Rank(rank), RankEnd::Exited(0)));
    }
    root.receive(exited(2, 0));
    root.receive(exited(3, 0));
    root.send(Input::FromChild(2, exited(4, 0)));
    root.send(Input::FromChild(2, exited(5, 0)));
    root.send(Input::TreeGone);
    root.receive(Up::Gone);
    assert_eq!(root.send(Input::FromChild(2, Up::Gone)), [to_children(Down::Drain)]);
    assert_eq!(root.receive(Up::Drained), []);
    assert_eq!(root.send(Input::ChildLost(1, "closed".into())), [], "nothing of it is missing");
    assert_eq!(root.send(Input::FromChild(2, Up::Drained)), [Output::Drain]);
    assert_eq!(root.send(Input::Drained), [to_children(Down::CleanUp), Output::CleanUp]);
    assert_eq!(root.send(Input::ChildLost(2, "closed".into())), []);
    assert_eq!(root.send(Input::CleanedUp), [Output::Finish(0)]);
}

#[test]
fn a_link_that_breaks_while_output_may_be_missing_fails_the_job() {
    let mut root = Post::root_of_ended_ranks();
    let failure = Failure::HostLost { host: "h1".into(), problem: "closed".into() };
    let reported = Output::ReportFailed { host: Some(name(1)), failure };
    let outputs = root.send(Input::ChildLost(1, "closed".into()));
    assert!(outputs.contains(&reported), "{outputs:?}");
}

#[test]
fn an_inner_manager_does_not_report_a_link_that_broke_after_its_host_had_reported_everything() {
    let mut inner = Post::inner_running();
    inner.obey(Down::Kill);
    inner.send(Input::TreeGone);
    inner.receive(Up::Gone);
    inner.obey(Down::Drain);
    assert_eq!(inner.receive(Up::Drained), [Output::Drain]);
    assert_eq!(inner.send(Input::ChildLost(17, "closed".into())), []);
    assert_eq!(inner.send(Input::Drained), [to_parent(Up::Drained)]);
}

#[test]
fn reports_of_one_turn_go_up_as_one_message_of_each_kind_in_order() {
    let mut inner = Post::inner_running();
    for rank in [Rank(2), Rank(3)] {
        assert_eq!(inner.send(Input::Initialized(rank)), []);
        assert_eq!(inner.send(Input::Finalized(rank)), []);
        assert_eq!(inner.send(Input::Exited(rank, RankEnd::Exited(0))), []);
    }
    assert_eq!(inner.receive(Up::Initialized { ranks: ranks("34-35") }), []);
    let ends = [2, 3].map(|rank| (Rank(rank), RankEnd::Exited(0))).to_vec();
    assert_eq!(
        inner.flush(),
        [
            to_parent(Up::Initialized { ranks: ranks("2-3,34-35") }),
            to_parent(Up::Finalized { ranks: ranks("2-3") }),
            to_parent(Up::Exited { ends }),
        ]
    );
    assert_eq!(inner.flush(), []);
}

#[test]
fn an_init_after_a_finalize_of_the_same_turn_is_sent_after_it() {
    let mut inner = Post::inner_running();
    inner.send(Input::Finalized(Rank(2)));
    let finalized = to_parent(Up::Finalized { ranks: ranks("2") });
    assert_eq!(inner.send(Input::Initialized(Rank(2))), [finalized]);
    assert_eq!(inner.flush(), [to_parent(Up::Initialized { ranks: ranks("2") })]);
}

#[test]
fn an_urgent_message_follows_the_earlier_reports() {
    let mut inner = Post::inner_running();
    inner.send(Input::Exited(Rank(3), RankEnd::Exited(4)));
    let aborted = Up::Aborted { rank: Rank(2), code: 1, message: String::new() };
    assert_eq!(
        inner.send(Input::Aborted(Rank(2), 1, String::new())),
        [to_parent(exited(3, 4)), to_parent(aborted)]
    );
}

#[test]
fn many_ends_are_sent_in_messages_of_bounded_size() {
    let size = 3 * u32::try_from(MAX_LISTED).unwrap();
    let host_slices = host_slices(2, size / 2);
    let config = Config { tree_index: 1, ..config(&host_slices, size) };
    let mut manager = Pump::new(Manager::new(&config));
    manager.post(Input::FromParent(Down::Go));
    for rank in (size / 2..size).map(Rank) {
        manager.post(Input::Exited(rank, RankEnd::Exited(0)));
    }
    while manager.next(Time::ZERO).is_some() {}
    manager.end_turn(Time::ZERO);
    let outputs = std::iter::from_fn(|| manager.next(Time::ZERO));
    let reported = outputs.filter_map(|output| match output {
        Output::ToParent(Up::Exited { ends }) => Some(ends.len()),
        _ => None,
    });
    assert_eq!(reported.collect::<Vec<_>>(), [MAX_LISTED, MAX_LISTED / 2]);
}

#[test]
fn entries_wait_for_the_others_below_but_not_for_ever() {
    let mut inner = Post::inner_running();
    inner.send(Input::EnteredFence(Rank(2)));
    inner.receive(Up::Entered { ranks: ranks("34-35") });
    assert_eq!(inner.flush(), []);
    assert_eq!(inner.after(FENCE_HOLD), [to_parent(Up::Entered { ranks: ranks("2,34-35") })]);
    inner.send(Input::EnteredFence(Rank(3)));
    assert_eq!(
        inner.flush(),
        [to_parent(Up::Entered { ranks: ranks("3") })],
        "from then on at once"
    );
    assert_eq!(
        inner.obey(RELEASE),
        [Output::ToSome(vec![17], RELEASE), Output::ReleaseFence(Rank(0))]
    );
    inner.send(Input::EnteredFence(Rank(2)));
    assert_eq!(inner.flush(), [], "the next fence waits again");
}

#[test]
fn ranks_that_ended_are_not_waited_for_below() {
    let mut inner = Post::inner_running();
    inner.send(Input::EnteredFence(Rank(2)));
    inner.receive(Up::Entered { ranks: ranks("34-35") });
    inner.send(Input::Exited(Rank(3), RankEnd::Exited(1)));
    assert_eq!(
        inner.flush(),
        [to_parent(exited(3, 1)), to_parent(Up::Entered { ranks: ranks("2,34-35") })]
    );
}

#[test]
fn leaving_ranks_of_another_host_waiting_ends_the_job_and_names_the_host() {
    let mut root = Post::root_running(OnFailure::End);
    root.receive(exited(3, 0));
    let failure = Failure::LeftOthersWaiting { rank: Rank(3) };
    assert_eq!(
        root.send(Input::EnteredFence(Rank(0)))[0],
        Output::ReportFailed { host: Some(name(1)), failure }
    );
}

#[test]
fn everything_is_stopped_when_all_have_answered_the_last_command_to_stop() {
    let mut root = Post::root_running(OnFailure::End);
    root.send(Input::Suspend);
    assert_eq!(root.after(STOP_GRACE), [to_children(Down::Stop { round: 1 }), Output::StopTree]);
    assert_eq!(root.send(Input::Resume), [to_children(Down::Continue), Output::ContinueTree]);
    root.send(Input::Suspend);
    assert_eq!(root.after(STOP_GRACE), [to_children(Down::Stop { round: 2 }), Output::StopTree]);
    assert_eq!(root.send(Input::TreeStopped), []);
    assert_eq!(root.receive(Up::Stopped { round: 1 }), [], "an answer to the first");
    assert_eq!(root.receive(Up::Stopped { round: 2 }), [Output::ReportSuspended]);
}

#[test]
fn a_tree_that_stops_after_the_command_to_continue_is_continued_again() {
    let mut inner = Post::inner_running();
    inner.obey(Down::Stop { round: 1 });
    inner.obey(Down::Continue);
    assert_eq!(inner.send(Input::TreeStopped), [Output::ContinueTree]);
}

#[test]
fn processes_that_are_being_killed_need_not_be_stopped() {
    let mut leaf = Post::at(1, 2);
    leaf.obey(Down::Go);
    leaf.send(Input::Kill);
    assert_eq!(leaf.obey(Down::Stop { round: 3 }), [to_parent(Up::Stopped { round: 3 })]);
}

#[test]
fn commands_that_make_no_sense_now_are_ignored() {
    let mut leaf = Post::at(1, 2);
    let stages = [
        (vec![RELEASE, Down::Drain, Down::CleanUp, Down::Signal { signal: 1 }], Down::Go),
        (vec![Down::Go, Down::Drain, Down::CleanUp], Down::Kill),
        (vec![Down::Go, Down::Kill, Down::Continue, RELEASE, Down::Drain], Down::Discard),
    ];
    for (senseless, next) in stages {
        for down in senseless {
            assert_eq!(leaf.obey(down.clone()), [], "{down:?} before {next:?}");
        }
        assert_ne!(leaf.obey(next), []);
    }
    assert_eq!(leaf.send(Input::TreeGone), [to_parent(Up::Gone)]);
    assert_eq!(leaf.obey(Down::Kill), []);
    assert_eq!(leaf.obey(Down::Drain), [Output::Drain]);
    assert_eq!(leaf.obey(Down::Drain), [], "once is enough");
}

#[test]
fn a_lost_host_ends_the_job_even_if_failures_of_ranks_do_not() {
    let mut root = Post::root_running(OnFailure::Continue);
    let problem = "silent for 8 s".to_owned();
    let failure = Failure::HostLost { host: "h1".into(), problem: problem.clone() };
    let outputs = root.send(Input::ChildLost(1, problem));
    let reported = Output::ReportFailed { host: Some(name(1)), failure };
    assert_eq!(outputs, [reported, Output::SignalRanks(SIGTERM)]);
    assert_eq!([2, 3].map(|rank| root.manager.end_of(Rank(rank))), [RankEnd::Lost; 2]);
    root.send(Input::Exited(Rank(0), RankEnd::Exited(0)));
    assert_eq!(
        root.send(Input::Exited(Rank(1), RankEnd::Exited(0))),
        [Output::KillTree],
        "nobody else is waited for"
    );
    assert_eq!(root.send(Input::TreeGone), [Output::Drain]);
    assert_eq!(root.send(Input::Drained), [Output::CleanUp]);
    assert_eq!(root.send(Input::CleanedUp), [Output::Finish(125)]);
}

#[test]
fn when_the_last_ranks_are_lost_with_their_host_there_is_no_grace() {
    let mut root = Post::root_running(OnFailure::End);
    for rank in [0, 1] {
        root.send(Input::Exited(Rank(rank), RankEnd::Exited(0)));
    }
    let outputs = root.send(Input::ChildLost(1, "closed".into()));
    assert_eq!(outputs.last(), Some(&Output::KillTree));
}

#[test]
fn a_host_lost_while_it_cleans_up_is_no_failure() {
    let mut root = Post::root_of_ended_ranks();
    root.receive(Up::Drained);
    root.send(Input::Drained);
    root.send(Input::CleanedUp);
    assert_eq!(root.send(Input::ChildLost(1, "closed".into())), [Output::Finish(0)]);
}

#[test]
fn ranks_of_a_host_lost_before_the_start_were_not_started() {
    let mut root = Post::at(0, 2);
    root.send(Input::Ready);
    let outputs = root.send(Input::ChildLost(1, "closed".into()));
    assert!(matches!(&outputs[..], [Output::ReportFailed { .. }, Output::KillTree]));
    assert_eq!(root.manager.end_of(Rank(2)), RankEnd::NotStarted);
}

#[test]
fn a_lost_host_counts_as_having_answered_every_question() {
    let lost = to_parent(Up::Lost { member: name(17), problem: "closed".into(), closed: false });
    let asked = [
        (Down::Stop { round: 7 }, Input::TreeStopped, Up::Stopped { round: 7 }),
        (Down::Kill, Input::TreeGone, Up::Gone),
    ];
    for (down, input, answer) in asked {
        let mut inner = Post::inner_running();
        inner.obey(down);
        assert_eq!(inner.send(input), []);
        let outputs = inner.send(Input::ChildLost(17, "closed".into()));
        assert_eq!(outputs, [lost.clone(), to_parent(answer)]);
    }
    let mut inner = Post::inner_running();
    inner.send(Input::Started);
    let outputs = inner.send(Input::ChildLost(17, "closed".into()));
    assert_eq!(outputs, [lost], "its ranks have not started");
}

#[test]
fn a_manager_that_loses_its_parent_kills_at_once_cleans_up_and_ends() {
    let mut inner = Post::inner_running();
    assert_eq!(
        inner.send(Input::ParentLost("closed".into())),
        [
            to_children(Down::Discard),
            Output::DiscardOutput,
            to_children(Down::Kill),
            Output::KillTree
        ]
    );
    assert_eq!(inner.send(Input::TreeGone), []);
    assert_eq!(inner.receive(Up::Gone), [to_children(Down::CleanUp), Output::CleanUp]);
    assert_eq!(inner.receive(Up::CleanedUp), []);
    assert_eq!(inner.send(Input::CleanedUp), [Output::Leave]);
}

#[test]
fn a_manager_that_loses_its_parent_while_draining_does_not_wait_for_a_reader() {
    let mut leaf = Post::at(1, 2);
    leaf.obey(Down::Go);
    leaf.obey(Down::Kill);
    leaf.send(Input::TreeGone);
    assert_eq!(leaf.obey(Down::Drain), [Output::Drain]);
    assert_eq!(
        leaf.send(Input::ParentLost("closed".into())),
        [Output::DiscardOutput, Output::CleanUp]
    );
    assert_eq!(leaf.send(Input::Drained), []);
    assert_eq!(leaf.send(Input::CleanedUp), [Output::Leave]);
}

#[test]
fn a_request_to_kill_at_any_host_ends_the_job_as_killed() {
    let mut leaf = Post::at(1, 2);
    leaf.obey(Down::Go);
    let report = Up::Failed { member: name(1), failure: Failure::Killed };
    assert_eq!(leaf.send(Input::Kill), [to_parent(report.clone()), Output::KillTree]);
    let end = RankEnd::Signaled { signal: SIGKILL, core: false };
    leaf.send(Input::Exited(Rank(2), end));
    leaf.send(Input::TreeGone);
    assert_eq!(
        leaf.obey(Down::Kill),
        [to_parent(Up::Exited { ends: vec![(Rank(2), end)] }), to_parent(Up::Gone)],
        "done already"
    );
    let mut root = Post::root_running(OnFailure::Continue);
    let reported = Output::ReportFailed { host: Some(name(1)), failure: Failure::Killed };
    assert_eq!(root.receive(report), [reported, to_children(Down::Kill), Output::KillTree]);
}

#[test]
fn a_host_that_did_not_receive_the_job_ends_its_start() {
    let mut root = Post::at(0, 18);
    let missing = |tree_index| Input::Missing(vec![(name(tree_index), "unreachable".to_owned())]);
    root.send(Input::FromChild(2, Up::Ready));
    assert_eq!(root.send(missing(2)), [], "it is there, whatever was heard");
    let outputs = root.send(missing(17));
    assert!(
        matches!(&outputs[0], Output::ReportFailed { host: Some(host), .. } if *host == name(17))
    );
    assert_eq!(outputs[1..], [to_children(Down::Kill), Output::KillTree]);
    let mut root = Post::at(0, 18);
    let outputs = root.send(missing(3));
    assert_eq!(outputs[0], Output::GiveUp(3), "nobody waits for its link or its output");
    assert_eq!(outputs[2..], [to_children(Down::Kill), Output::KillTree]);
}

#[test]
fn output_of_other_hosts_is_waited_for_as_long_as_it_flows() {
    let mut root = Post::root_running(OnFailure::End);
    root.send(Input::Interrupt);
    root.send(Input::Interrupt);
    root.send(Input::TreeGone);
    assert_eq!(root.receive(Up::Gone), [to_children(Down::Drain)]);
    assert_eq!(root.after(DRAIN_GRACE / 2), []);
    root.send(Input::DrainGoesOn);
    assert_eq!(root.after(DRAIN_GRACE / 2), []);
    let interrupted = Failure::Interrupted { signal: SIGINT };
    assert_eq!(
        root.after(DRAIN_GRACE / 2),
        [
            Output::ReportFailed { host: None, failure: interrupted },
            to_children(Down::Discard),
            Output::DiscardOutput,
            to_children(Down::CleanUp),
            Output::CleanUp
        ]
    );
}

#[test]
fn lines_for_the_user_and_process_ids_reach_the_root() {
    let mut inner = Post::inner_running();
    let pids = vec![(Rank(34), 7001)];
    let notice = Up::Notice { text: "rank 34: odd".into() };
    assert_eq!(inner.receive(Up::Pids { pids: pids.clone() }), []);
    assert_eq!(
        inner.receive(notice.clone()),
        [to_parent(Up::Pids { pids: pids.clone() }), to_parent(notice)]
    );
    let mut root = Post::at(0, 18);
    let up = Up::Pids { pids: pids.clone() };
    assert_eq!(root.send(Input::FromChild(1, up)), [Output::Pids(pids)]);
    assert_eq!(root.send(Input::Notice("x".into())), [Output::ReportNotice("x".into())]);
}

#[test]
fn the_places_of_directories_are_reported_in_one_line_when_all_hosts_are_ready() {
    let (mut root, [place, problem]) = (Post::at(0, 2), ["/tmp", "/a: no"].map(str::to_owned));
    let up = Up::Elsewhere { member: name(1), place: place.clone(), problem: problem.clone() };
    assert_eq!(root.receive(up.clone()), [], "it waits for all hosts");
    assert_eq!(root.send(Input::Elsewhere(place, problem)), []);
    root.send(Input::Ready);
    let outputs = root.receive(Up::Ready);
    let Output::ReportNotice(line) = &outputs[1] else { panic!("{outputs:?}") };
    assert!(line.contains("on hosts h1, h0 is in /tmp"), "{line}");
    assert_eq!(root.receive(up), [], "the reason is known");
}

#[test]
fn messages_about_ranks_and_hosts_that_are_not_below_are_ignored() {
    let mut root = Post::root_running(OnFailure::End);
    let foreign = [
        exited(0, 9),
        exited(4_000_000_000, 9),
        Up::Entered { ranks: RankSet::all() },
        Up::Finalized { ranks: ranks("0-3") },
        Up::Aborted { rank: Rank(1), code: 1, message: String::new() },
        Up::Lost { member: name(0), problem: String::new(), closed: false },
        Up::Failed { member: name(9), failure: Failure::Killed },
        Up::Gone,
        Up::CleanedUp,
        Up::Stopped { round: 0 },
    ];
    for up in foreign {
        assert_eq!(root.receive(up.clone()), [], "{up:?}");
    }
    assert_eq!(root.send(Input::FromChild(0, exited(0, 9))), []);
    assert_eq!(root.send(Input::FromChild(usize::MAX, exited(2, 9))), []);
    assert_eq!(root.send(Input::FromParent(Down::Kill)), [], "nobody is above the root");
}

/// Any group, including some with ranks and tree indices that do not exist.
fn some_group(dice: &mut Dice) -> FenceGroup {
    let low = u32::try_from(dice.below(50)).unwrap();
    let members = [
        FenceMembers::World,
        FenceMembers::TreeIndex(low),
        FenceMembers::Ranks(RankSet::from_ranges(vec![(low, low + 1)])),
        FenceMembers::Ranks(RankSet::all()),
        FenceMembers::Ranks(RankSet::none()),
    ];
    let members = members[dice.below(members.len())].clone();
    FenceGroup { members, tag: 0, name: String::new() }
}

/// Any command, including some that no manager would send.
fn some_down(dice: &mut Dice) -> Down {
    let downs = [
        Down::Go,
        Down::Signal { signal: 15 },
        Down::SignalProcesses { signal: 10 },
        Down::Resize { columns: 90, lines: 25 },
        Down::Stop { round: 1 },
        Down::Continue,
        Down::Kill,
        RELEASE,
        Down::ReleaseGroup { first: Rank(0), group: some_group(dice) },
        Down::Drain,
        Down::Discard,
        Down::CleanUp,
        Down::LookAt { stream: Stream::Err, ranks: RankSet::all() },
        Down::Pulse,
    ];
    downs[dice.below(downs.len())].clone()
}

/// Any report, about ranks and hosts that may not exist.
fn some_up(dice: &mut Dice) -> Up {
    let member = name(dice.below(20));
    let low = u32::try_from(dice.below(50)).unwrap();
    let some = [
        RankSet::all(),
        RankSet::none(),
        RankSet::from_ranges(vec![(low, low + 1), (u32::MAX - 1, u32::MAX)]),
        RankSet::from_ranges(vec![(low, low + 1)]),
    ];
    let ranks = some[dice.below(some.len())].clone();
    let rank = Rank(low);
    let ups = [
        Up::Ready,
        Up::StartFailed { member: member.clone(), failure: Failure::NotFinalized { rank } },
        Up::Failed { member: member.clone(), failure: Failure::LeftOthersWaiting { rank } },
        Up::Pids { pids: vec![(rank, 1)] },
        Up::Started,
        exited(low, 0),
        exited(u32::MAX, 0),
        Up::Initialized { ranks: ranks.clone() },
        Up::Finalized { ranks: ranks.clone() },
        Up::Entered { ranks: ranks.clone() },
        Up::Entered { ranks: ranks.clone() },
        Up::EnteredGroup { group: some_group(dice), ranks },
        Up::Aborted { rank, code: 0, message: String::new() },
        Up::BrokeProtocol { rank, problem: String::new() },
        Up::Stopped { round: 1 },
        Up::Gone,
        Up::Drained,
        Up::CleanedUp,
        Up::Lost { member, problem: String::new(), closed: dice.below(2) == 0 },
        Up::StdinUnwanted { switches: 0 },
        Up::Looked { stream: Stream::Out, behind: RankSet::all(), others: RankSet::none() },
    ];
    ups[dice.below(ups.len())].clone()
}

#[test]
fn no_message_of_another_manager_makes_a_manager_panic() {
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let tree_index = [0, 1, 17][dice.below(3)];
        let mut post = Post::at(tree_index, 18);
        for _ in 0..60 {
            let input = match dice.below(6) {
                0 | 1 => Input::FromParent(some_down(&mut dice)),
                2 => Input::Ready,
                3 => Input::TreeGone,
                _ => Input::FromChild(dice.below(20), some_up(&mut dice)),
            };
            post.send(input);
            post.after(Duration::from_millis(30));
        }
    }
}
