//! The stories of a manager among others, and of the root of several.

use super::dice::Dice;
use super::*;

const RELEASE: Down = Down::Release { first: Rank(0) };
use mpd_wire::message::{FenceMembers, MAX_LISTED};

/// One manager of a job, with two ranks on each host.
pub(super) struct Post {
    manager: Manager,
    now: Time,
}

impl Post {
    fn at(place: usize, hosts: usize) -> Self {
        Self::with(place, hosts, OnFailure::End)
    }

    fn with(place: usize, hosts: usize, on_failure: OnFailure) -> Self {
        let size = u32::try_from(hosts).unwrap() * 2;
        let shares = shares(hosts, 2);
        let config =
            Config { shares: &shares, place, size, on_failure, limit: None, debugged: false };
        Self { manager: Manager::new(config), now: Time::ZERO }
    }

    /// The root of two hosts, both running.
    pub(super) fn root_running(on_failure: OnFailure) -> Self {
        let mut root = Self::with(0, 2, on_failure);
        root.tell(Input::Ready);
        root.hear(Up::Ready);
        root.tell(Input::Started);
        assert_eq!(root.hear(Up::Started), []);
        root
    }

    /// The root of two hosts whose ranks exited with 0, with no process left on either.
    fn root_of_ended_ranks() -> Self {
        let mut root = Self::root_running(OnFailure::End);
        for rank in [0, 1] {
            root.tell(Input::Exited(Rank(rank), RankEnd::Exited(0)));
        }
        root.hear(exited(2, 0));
        root.hear(exited(3, 0));
        root.tell(Input::TreeGone);
        root.hear(Up::Gone);
        root
    }

    /// The parent of one manager and child of the root. Its two ranks and those of place 17 run.
    pub(super) fn inner_running() -> Self {
        let mut inner = Self::at(1, 18);
        inner.tell(Input::FromParent(Down::Go));
        inner
    }

    pub(super) fn tell(&mut self, input: Input) -> Vec<Output> {
        self.manager.handle(self.now, input);
        self.outputs()
    }

    pub(super) fn obey(&mut self, down: Down) -> Vec<Output> {
        self.tell(Input::FromParent(down))
    }

    /// From the first manager below.
    pub(super) fn hear(&mut self, up: Up) -> Vec<Output> {
        let place = if self.manager.branch.is_root() { 1 } else { 17 };
        self.tell(Input::FromChild(place, up))
    }

    pub(super) fn flush(&mut self) -> Vec<Output> {
        self.manager.flush(self.now);
        self.outputs()
    }

    fn after(&mut self, wait: Duration) -> Vec<Output> {
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

fn below(down: Down) -> Output {
    Output::ToChildren(down)
}

pub(super) fn above(up: Up) -> Output {
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
    assert_eq!(root.tell(Input::Ready), []);
    assert_eq!(root.hear(Up::Ready), [Output::TellStarted, below(Down::Go), Output::Go]);
    let mut inner = Post::at(1, 18);
    assert_eq!(inner.hear(Up::Ready), []);
    assert_eq!(inner.tell(Input::Ready), [above(Up::Ready)]);
    assert_eq!(inner.obey(Down::Go), [below(Down::Go), Output::Go]);
}

#[test]
fn a_root_cut_off_from_managers_that_have_not_connected_withdraws_the_job() {
    let mut root = Post::at(0, 2);
    root.tell(Input::Ready);
    assert_eq!(root.tell(Input::CutOff), [below(Down::Kill), Output::KillTree]);
    assert_eq!(root.tell(Input::ChildLost(1, "not connected".into())), [], "it is no failure");
    assert_eq!(root.tell(Input::TreeGone), [Output::Drain]);
    assert_eq!(root.tell(Input::Drained), [Output::Tidy]);
    assert_eq!(root.tell(Input::Tidied), [Output::Withdraw]);
}

#[test]
fn a_job_with_the_command_to_start_is_never_withdrawn() {
    let mut root = Post::root_running(OnFailure::End);
    assert_eq!(root.tell(Input::CutOff), []);
    let mut starting = Post::at(0, 2);
    starting.tell(Input::Ready);
    starting.hear(Up::Ready);
    assert_eq!(starting.tell(Input::CutOff), []);
}

#[test]
fn a_failed_check_on_one_host_ends_the_start_on_all_and_names_the_host() {
    let mut root = Post::at(0, 2);
    root.tell(Input::Ready);
    let failure = Failure::Suite { problem: "no such directory".into() };
    let told = Output::TellFailed { host: Some(name(1)), failure: failure.clone() };
    assert_eq!(
        root.hear(Up::StartFailed { member: name(1), failure }),
        [told, below(Down::Kill), Output::KillTree]
    );
    assert_eq!(root.hear(Up::Ready), [], "too late");
}

#[test]
fn inner_managers_pass_a_failed_check_to_the_root() {
    let mut inner = Post::at(1, 18);
    let failure = Failure::Suite { problem: "x".into() };
    let word = Up::StartFailed { member: name(17), failure };
    assert_eq!(inner.hear(word.clone()), [above(word)]);
    assert_eq!(inner.obey(Down::Kill), [below(Down::Kill), Output::KillTree]);
    assert_eq!(inner.obey(Down::Go), [], "nobody starts after that");
}

#[test]
fn a_job_of_two_hosts_ends_when_both_are_done_with_each_step() {
    let mut root = Post::root_running(OnFailure::End);
    for rank in [0, 1] {
        assert_eq!(root.tell(Input::Exited(Rank(rank), RankEnd::Exited(0))), []);
    }
    root.hear(exited(2, 0));
    assert_eq!(root.hear(exited(3, 0)), [below(Down::Kill), Output::KillTree]);
    assert_eq!(root.tell(Input::TreeGone), []);
    assert_eq!(root.hear(Up::Gone), [below(Down::Drain)], "first the output from below");
    assert_eq!(root.hear(Up::Drained), [Output::Drain]);
    assert_eq!(root.tell(Input::Drained), [below(Down::Tidy), Output::Tidy]);
    assert_eq!(root.tell(Input::Tidied), []);
    assert_eq!(root.hear(Up::Tidied), [Output::Finish(0)]);
}

#[test]
fn a_manager_leaves_when_nothing_is_left_here_and_below() {
    let mut inner = Post::inner_running();
    assert_eq!(inner.obey(Down::Kill), [below(Down::Kill), Output::KillTree]);
    assert_eq!(inner.tell(Input::TreeGone), []);
    assert_eq!(inner.hear(Up::Gone), [above(Up::Gone)]);
    assert_eq!(inner.obey(Down::Drain), [below(Down::Drain)]);
    assert_eq!(inner.tell(Input::Drained), [], "more comes from below");
    assert_eq!(inner.hear(Up::Drained), [Output::Drain]);
    assert_eq!(inner.tell(Input::Drained), [above(Up::Drained)]);
    assert_eq!(inner.obey(Down::Tidy), [below(Down::Tidy), Output::Tidy]);
    assert_eq!(inner.hear(Up::Tidied), []);
    assert_eq!(inner.tell(Input::ChildLost(17, "closed".into())), [], "it has left");
    assert_eq!(inner.tell(Input::Tidied), [above(Up::Tidied), Output::Leave]);
}

#[test]
fn a_link_that_breaks_after_its_host_has_reported_everything_costs_the_job_nothing() {
    let mut root = Post::with(0, 3, OnFailure::End);
    root.tell(Input::Ready);
    for place in [1, 2] {
        root.tell(Input::FromChild(place, Up::Ready));
    }
    root.tell(Input::Started);
    for place in [1, 2] {
        root.tell(Input::FromChild(place, Up::Started));
    }
    for rank in [0, 1] {
        root.tell(Input::Exited(Rank(rank), RankEnd::Exited(0)));
    }
    root.hear(exited(2, 0));
    root.hear(exited(3, 0));
    root.tell(Input::FromChild(2, exited(4, 0)));
    root.tell(Input::FromChild(2, exited(5, 0)));
    root.tell(Input::TreeGone);
    root.hear(Up::Gone);
    assert_eq!(root.tell(Input::FromChild(2, Up::Gone)), [below(Down::Drain)]);
    assert_eq!(root.hear(Up::Drained), []);
    assert_eq!(root.tell(Input::ChildLost(1, "closed".into())), [], "nothing of it is missing");
    assert_eq!(root.tell(Input::FromChild(2, Up::Drained)), [Output::Drain]);
    assert_eq!(root.tell(Input::Drained), [below(Down::Tidy), Output::Tidy]);
    assert_eq!(root.tell(Input::ChildLost(2, "closed".into())), []);
    assert_eq!(root.tell(Input::Tidied), [Output::Finish(0)]);
}

#[test]
fn a_link_that_breaks_while_output_may_be_missing_fails_the_job() {
    let mut root = Post::root_of_ended_ranks();
    let failure = Failure::HostLost { host: "h1".into(), problem: "closed".into() };
    let told = Output::TellFailed { host: Some(name(1)), failure };
    let outputs = root.tell(Input::ChildLost(1, "closed".into()));
    assert!(outputs.contains(&told), "{outputs:?}");
}

#[test]
fn an_inner_manager_does_not_report_a_link_that_broke_after_its_host_had_reported_everything() {
    let mut inner = Post::inner_running();
    inner.obey(Down::Kill);
    inner.tell(Input::TreeGone);
    inner.hear(Up::Gone);
    inner.obey(Down::Drain);
    assert_eq!(inner.hear(Up::Drained), [Output::Drain]);
    assert_eq!(inner.tell(Input::ChildLost(17, "closed".into())), []);
    assert_eq!(inner.tell(Input::Drained), [above(Up::Drained)]);
}

#[test]
fn reports_of_one_turn_go_up_as_one_message_of_each_kind_in_order() {
    let mut inner = Post::inner_running();
    for rank in [Rank(2), Rank(3)] {
        assert_eq!(inner.tell(Input::Initialized(rank)), []);
        assert_eq!(inner.tell(Input::Finalized(rank)), []);
        assert_eq!(inner.tell(Input::Exited(rank, RankEnd::Exited(0))), []);
    }
    assert_eq!(inner.hear(Up::Initialized { ranks: ranks("34-35") }), []);
    let ends = [2, 3].map(|rank| (Rank(rank), RankEnd::Exited(0))).to_vec();
    assert_eq!(
        inner.flush(),
        [
            above(Up::Initialized { ranks: ranks("2-3,34-35") }),
            above(Up::Finalized { ranks: ranks("2-3") }),
            above(Up::Exited { ends }),
        ]
    );
    assert_eq!(inner.flush(), []);
}

#[test]
fn an_init_after_a_finalize_of_the_same_turn_is_sent_after_it() {
    let mut inner = Post::inner_running();
    inner.tell(Input::Finalized(Rank(2)));
    let finalized = above(Up::Finalized { ranks: ranks("2") });
    assert_eq!(inner.tell(Input::Initialized(Rank(2))), [finalized]);
    assert_eq!(inner.flush(), [above(Up::Initialized { ranks: ranks("2") })]);
}

#[test]
fn an_urgent_message_follows_the_earlier_reports() {
    let mut inner = Post::inner_running();
    inner.tell(Input::Exited(Rank(3), RankEnd::Exited(4)));
    let aborted = Up::Aborted { rank: Rank(2), code: 1, message: String::new() };
    assert_eq!(
        inner.tell(Input::Aborted(Rank(2), 1, String::new())),
        [above(exited(3, 4)), above(aborted)]
    );
}

#[test]
fn many_ends_are_sent_in_messages_of_bounded_size() {
    let size = 3 * u32::try_from(MAX_LISTED).unwrap();
    let shares = shares(2, size / 2);
    let config = Config {
        shares: &shares,
        place: 1,
        size,
        on_failure: OnFailure::End,
        limit: None,
        debugged: false,
    };
    let mut manager = Pump::new(Manager::new(config));
    manager.post(Input::FromParent(Down::Go));
    for rank in (size / 2..size).map(Rank) {
        manager.post(Input::Exited(rank, RankEnd::Exited(0)));
    }
    while manager.next(Time::ZERO).is_some() {}
    manager.advance(|manager| manager.flush(Time::ZERO));
    let outputs = std::iter::from_fn(|| manager.next(Time::ZERO));
    let told = outputs.filter_map(|output| match output {
        Output::ToParent(Up::Exited { ends }) => Some(ends.len()),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [MAX_LISTED, MAX_LISTED / 2]);
}

#[test]
fn entries_wait_for_the_others_below_but_not_for_ever() {
    let mut inner = Post::inner_running();
    inner.tell(Input::EnteredFence(Rank(2)));
    inner.hear(Up::Entered { ranks: ranks("34-35") });
    assert_eq!(inner.flush(), []);
    assert_eq!(inner.after(FENCE_HOLD), [above(Up::Entered { ranks: ranks("2,34-35") })]);
    inner.tell(Input::EnteredFence(Rank(3)));
    assert_eq!(inner.flush(), [above(Up::Entered { ranks: ranks("3") })], "from then on at once");
    assert_eq!(
        inner.obey(RELEASE),
        [Output::ToSome(vec![17], RELEASE), Output::ReleaseFence(Rank(0))]
    );
    inner.tell(Input::EnteredFence(Rank(2)));
    assert_eq!(inner.flush(), [], "the next fence waits again");
}

#[test]
fn ranks_that_ended_are_not_waited_for_below() {
    let mut inner = Post::inner_running();
    inner.tell(Input::EnteredFence(Rank(2)));
    inner.hear(Up::Entered { ranks: ranks("34-35") });
    inner.tell(Input::Exited(Rank(3), RankEnd::Exited(1)));
    assert_eq!(
        inner.flush(),
        [above(exited(3, 1)), above(Up::Entered { ranks: ranks("2,34-35") })]
    );
}

#[test]
fn leaving_ranks_of_another_host_waiting_ends_the_job_and_names_the_host() {
    let mut root = Post::root_running(OnFailure::End);
    root.hear(exited(3, 0));
    let failure = Failure::LeftOthersWaiting { rank: Rank(3) };
    assert_eq!(
        root.tell(Input::EnteredFence(Rank(0)))[0],
        Output::TellFailed { host: Some(name(1)), failure }
    );
}

#[test]
fn everything_is_stopped_when_all_have_answered_the_last_command_to_stop() {
    let mut root = Post::root_running(OnFailure::End);
    root.tell(Input::Suspend);
    assert_eq!(root.after(STOP_GRACE), [below(Down::Stop { round: 1 }), Output::StopTree]);
    assert_eq!(root.tell(Input::Resume), [below(Down::Continue), Output::ContinueTree]);
    root.tell(Input::Suspend);
    assert_eq!(root.after(STOP_GRACE), [below(Down::Stop { round: 2 }), Output::StopTree]);
    assert_eq!(root.tell(Input::TreeStopped), []);
    assert_eq!(root.hear(Up::Stopped { round: 1 }), [], "an answer to the first");
    assert_eq!(root.hear(Up::Stopped { round: 2 }), [Output::TellSuspended]);
}

#[test]
fn a_tree_that_stops_after_the_command_to_continue_is_continued_again() {
    let mut inner = Post::inner_running();
    inner.obey(Down::Stop { round: 1 });
    inner.obey(Down::Continue);
    assert_eq!(inner.tell(Input::TreeStopped), [Output::ContinueTree]);
}

#[test]
fn processes_that_are_being_killed_need_not_be_stopped() {
    let mut leaf = Post::at(1, 2);
    leaf.obey(Down::Go);
    leaf.tell(Input::Kill);
    assert_eq!(leaf.obey(Down::Stop { round: 3 }), [above(Up::Stopped { round: 3 })]);
}

#[test]
fn commands_that_make_no_sense_now_are_ignored() {
    let mut leaf = Post::at(1, 2);
    let stages = [
        (vec![RELEASE, Down::Drain, Down::Tidy, Down::Signal { signal: 1 }], Down::Go),
        (vec![Down::Go, Down::Drain, Down::Tidy], Down::Kill),
        (vec![Down::Go, Down::Kill, Down::Continue, RELEASE, Down::Drain], Down::Discard),
    ];
    for (senseless, next) in stages {
        for down in senseless {
            assert_eq!(leaf.obey(down.clone()), [], "{down:?} before {next:?}");
        }
        assert_ne!(leaf.obey(next), []);
    }
    assert_eq!(leaf.tell(Input::TreeGone), [above(Up::Gone)]);
    assert_eq!(leaf.obey(Down::Kill), []);
    assert_eq!(leaf.obey(Down::Drain), [Output::Drain]);
    assert_eq!(leaf.obey(Down::Drain), [], "once is enough");
}

#[test]
fn a_lost_host_ends_the_job_even_if_failures_of_ranks_do_not() {
    let mut root = Post::root_running(OnFailure::Continue);
    let problem = "silent for 8 s".to_owned();
    let failure = Failure::HostLost { host: "h1".into(), problem: problem.clone() };
    let outputs = root.tell(Input::ChildLost(1, problem));
    let told = Output::TellFailed { host: Some(name(1)), failure };
    assert_eq!(outputs, [told, Output::SignalRanks(SIGTERM)]);
    assert_eq!([2, 3].map(|rank| root.manager.end_of(Rank(rank))), [RankEnd::Lost; 2]);
    root.tell(Input::Exited(Rank(0), RankEnd::Exited(0)));
    assert_eq!(
        root.tell(Input::Exited(Rank(1), RankEnd::Exited(0))),
        [Output::KillTree],
        "nobody else is waited for"
    );
    assert_eq!(root.tell(Input::TreeGone), [Output::Drain]);
    assert_eq!(root.tell(Input::Drained), [Output::Tidy]);
    assert_eq!(root.tell(Input::Tidied), [Output::Finish(125)]);
}

#[test]
fn when_the_last_ranks_are_lost_with_their_host_there_is_no_grace() {
    let mut root = Post::root_running(OnFailure::End);
    for rank in [0, 1] {
        root.tell(Input::Exited(Rank(rank), RankEnd::Exited(0)));
    }
    let outputs = root.tell(Input::ChildLost(1, "closed".into()));
    assert_eq!(outputs.last(), Some(&Output::KillTree));
}

#[test]
fn a_host_lost_while_it_cleans_up_is_no_failure() {
    let mut root = Post::root_of_ended_ranks();
    root.hear(Up::Drained);
    root.tell(Input::Drained);
    root.tell(Input::Tidied);
    assert_eq!(root.tell(Input::ChildLost(1, "closed".into())), [Output::Finish(0)]);
}

#[test]
fn ranks_of_a_host_lost_before_the_start_were_not_started() {
    let mut root = Post::at(0, 2);
    root.tell(Input::Ready);
    let outputs = root.tell(Input::ChildLost(1, "closed".into()));
    assert!(matches!(&outputs[..], [Output::TellFailed { .. }, Output::KillTree]));
    assert_eq!(root.manager.end_of(Rank(2)), RankEnd::NotStarted);
}

#[test]
fn a_lost_host_counts_as_having_answered_every_question() {
    let lost = above(Up::Lost { member: name(17), problem: "closed".into() });
    let asked = [
        (Down::Stop { round: 7 }, Input::TreeStopped, Up::Stopped { round: 7 }),
        (Down::Kill, Input::TreeGone, Up::Gone),
    ];
    for (down, input, answer) in asked {
        let mut inner = Post::inner_running();
        inner.obey(down);
        assert_eq!(inner.tell(input), []);
        let outputs = inner.tell(Input::ChildLost(17, "closed".into()));
        assert_eq!(outputs, [lost.clone(), above(answer)]);
    }
    let mut inner = Post::inner_running();
    inner.tell(Input::Started);
    let outputs = inner.tell(Input::ChildLost(17, "closed".into()));
    assert_eq!(outputs, [lost], "its ranks have not started");
}

#[test]
fn a_manager_that_loses_its_parent_kills_at_once_cleans_up_and_ends() {
    let mut inner = Post::inner_running();
    assert_eq!(
        inner.tell(Input::ParentLost("closed".into())),
        [below(Down::Discard), Output::DiscardOutput, below(Down::Kill), Output::KillTree]
    );
    assert_eq!(inner.tell(Input::TreeGone), []);
    assert_eq!(inner.hear(Up::Gone), [below(Down::Tidy), Output::Tidy]);
    assert_eq!(inner.hear(Up::Tidied), []);
    assert_eq!(inner.tell(Input::Tidied), [Output::Leave]);
}

#[test]
fn a_manager_that_loses_its_parent_while_draining_does_not_wait_for_a_reader() {
    let mut leaf = Post::at(1, 2);
    leaf.obey(Down::Go);
    leaf.obey(Down::Kill);
    leaf.tell(Input::TreeGone);
    assert_eq!(leaf.obey(Down::Drain), [Output::Drain]);
    assert_eq!(
        leaf.tell(Input::ParentLost("closed".into())),
        [Output::DiscardOutput, Output::Tidy]
    );
    assert_eq!(leaf.tell(Input::Drained), []);
    assert_eq!(leaf.tell(Input::Tidied), [Output::Leave]);
}

#[test]
fn a_request_to_kill_at_any_host_ends_the_job_as_killed() {
    let mut leaf = Post::at(1, 2);
    leaf.obey(Down::Go);
    let word = Up::Failed { member: name(1), failure: Failure::Killed };
    assert_eq!(leaf.tell(Input::Kill), [above(word.clone()), Output::KillTree]);
    let end = RankEnd::Signaled { signal: SIGKILL, core: false };
    leaf.tell(Input::Exited(Rank(2), end));
    leaf.tell(Input::TreeGone);
    assert_eq!(
        leaf.obey(Down::Kill),
        [above(Up::Exited { ends: vec![(Rank(2), end)] }), above(Up::Gone)],
        "done already"
    );
    let mut root = Post::root_running(OnFailure::Continue);
    let told = Output::TellFailed { host: Some(name(1)), failure: Failure::Killed };
    assert_eq!(root.hear(word), [told, below(Down::Kill), Output::KillTree]);
}

#[test]
fn a_host_that_did_not_receive_the_job_ends_its_start() {
    let mut root = Post::at(0, 18);
    let missing = |place| Input::Missing(vec![(name(place), "unreachable".to_owned())]);
    root.tell(Input::FromChild(2, Up::Ready));
    assert_eq!(root.tell(missing(2)), [], "it is there, whatever was heard");
    let outputs = root.tell(missing(17));
    assert!(
        matches!(&outputs[0], Output::TellFailed { host: Some(host), .. } if *host == name(17))
    );
    assert_eq!(outputs[1..], [below(Down::Kill), Output::KillTree]);
    let mut root = Post::at(0, 18);
    let outputs = root.tell(missing(3));
    assert_eq!(outputs[0], Output::GiveUp(3), "nobody waits for its link or its output");
    assert_eq!(outputs[2..], [below(Down::Kill), Output::KillTree]);
}

#[test]
fn output_of_other_hosts_is_waited_for_as_long_as_it_flows() {
    let mut root = Post::root_running(OnFailure::End);
    root.tell(Input::Interrupt);
    root.tell(Input::Interrupt);
    root.tell(Input::TreeGone);
    assert_eq!(root.hear(Up::Gone), [below(Down::Drain)]);
    assert_eq!(root.after(DRAIN_GRACE / 2), []);
    root.tell(Input::DrainGoesOn);
    assert_eq!(root.after(DRAIN_GRACE / 2), []);
    let interrupted = Failure::Interrupted { signal: SIGINT };
    assert_eq!(
        root.after(DRAIN_GRACE / 2),
        [
            Output::TellFailed { host: None, failure: interrupted },
            below(Down::Discard),
            Output::DiscardOutput,
            below(Down::Tidy),
            Output::Tidy
        ]
    );
}

#[test]
fn lines_for_the_user_and_process_ids_reach_the_root() {
    let mut inner = Post::inner_running();
    let pids = vec![(Rank(34), 7001)];
    let notice = Up::Notice { text: "rank 34: odd".into() };
    assert_eq!(inner.hear(Up::Pids { pids: pids.clone() }), []);
    assert_eq!(inner.hear(notice.clone()), [above(Up::Pids { pids: pids.clone() }), above(notice)]);
    let mut root = Post::at(0, 18);
    let up = Up::Pids { pids: pids.clone() };
    assert_eq!(root.tell(Input::FromChild(1, up)), [Output::Pids(pids)]);
    assert_eq!(root.tell(Input::Notice("x".into())), [Output::TellNotice("x".into())]);
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
        Up::Lost { member: name(0), problem: String::new() },
        Up::Failed { member: name(9), failure: Failure::Killed },
        Up::Gone,
        Up::Tidied,
        Up::Stopped { round: 0 },
    ];
    for up in foreign {
        assert_eq!(root.hear(up.clone()), [], "{up:?}");
    }
    assert_eq!(root.tell(Input::FromChild(0, exited(0, 9))), []);
    assert_eq!(root.tell(Input::FromChild(usize::MAX, exited(2, 9))), []);
    assert_eq!(root.tell(Input::FromParent(Down::Kill)), [], "nobody is above the root");
}

/// Any group, including some with ranks and places that do not exist.
fn some_group(dice: &mut Dice) -> FenceGroup {
    let low = u32::try_from(dice.below(50)).unwrap();
    let members = [
        FenceMembers::World,
        FenceMembers::Place(low),
        FenceMembers::Ranks(RankSet::from_ranges(vec![(low, low + 1)])),
        FenceMembers::Ranks(RankSet::all()),
        FenceMembers::Ranks(RankSet::none()),
    ];
    FenceGroup { members: members[dice.below(members.len())].clone(), tag: 0 }
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
        Down::Tidy,
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
        Up::Tidied,
        Up::Lost { member, problem: String::new() },
        Up::StdinUnwanted { switches: 0 },
    ];
    ups[dice.below(ups.len())].clone()
}

#[test]
fn no_message_of_another_manager_makes_a_manager_panic() {
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let place = [0, 1, 17][dice.below(3)];
        let mut post = Post::at(place, 18);
        for _ in 0..60 {
            let input = match dice.below(6) {
                0 | 1 => Input::FromParent(some_down(&mut dice)),
                2 => Input::Ready,
                3 => Input::TreeGone,
                _ => Input::FromChild(dice.below(20), some_up(&mut dice)),
            };
            post.tell(input);
            post.after(Duration::from_millis(30));
        }
    }
}
