//! Stories of a job: inputs to its managers, and the expected outputs.

mod alone;
mod debug;
mod dice;
mod events;
mod groups;
mod libraries;
mod losses;
mod recorded;
mod retire;
mod spawning;
mod tree;
mod worlds;

use std::time::Duration;

use super::job::{SIGKILL, SIGTERM, SIGTSTP};
use super::*;
use mpd_sansio::Pump;
use mpd_wire::Instance;
use mpd_wire::job::HostSlice;

pub(super) fn name(tree_index: usize) -> DaemonName {
    DaemonName::new(&format!("h{tree_index}")).unwrap()
}

/// The host slices of a number of hosts with `each` ranks on each, in order.
pub(super) fn host_slices(hosts: usize, each: u32) -> HostSlices {
    let host_slice = |tree_index: usize| {
        let low = u32::try_from(tree_index).unwrap() * each;
        HostSlice {
            member: name(tree_index),
            manager: Instance::from_bytes([1; 16]),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(low, low + each - 1)]),
        }
    };
    let size = u32::try_from(hosts).unwrap() * each;
    HostSlices::new((0..hosts).map(host_slice).collect(), size).unwrap()
}

/// The root of an ordinary job with all ranks of these hosts.
fn config(host_slices: &HostSlices, size: u32) -> Config {
    Config {
        host_slices: host_slices.clone(),
        tree_index: 0,
        size,
        on_failure: OnFailure::End,
        abort_scope: AbortScope::Job,
        limit: None,
        debugged: false,
        elastic: false,
        spawns: SpawnSettings { kvsname: "kvs".to_owned(), ..SpawnSettings::default() },
    }
}

/// The manager of a job of one host, before its first input.
fn alone(size: u32, on_failure: OnFailure, limit: Option<Duration>) -> Manager {
    Manager::new(&Config { on_failure, limit, ..config(&host_slices(1, size), size) })
}

struct Story {
    manager: Pump<Manager>,
    now: Time,
    /// The reported ends of worlds.
    ended: Vec<WorldEnds>,
}

impl Story {
    fn of(size: u32) -> Self {
        Self::with(size, OnFailure::End, None)
    }

    fn with(size: u32, on_failure: OnFailure, limit: Option<Duration>) -> Self {
        let mut story = Self::starting(size, on_failure, limit);
        assert_eq!(story.send(Input::Started), []);
        story
    }

    /// A story in which the ranks of one host run.
    fn running(config: &Config) -> Self {
        let manager = Pump::new(Manager::new(config));
        let mut story = Self { manager, now: Time::ZERO, ended: Vec::new() };
        story.send(Input::Ready);
        story.send(Input::Started);
        story
    }

    /// A story in which ranks are being spawned.
    fn starting(size: u32, on_failure: OnFailure, limit: Option<Duration>) -> Self {
        let manager = Pump::new(alone(size, on_failure, limit));
        let mut story = Self { manager, now: Time::ZERO, ended: Vec::new() };
        assert_eq!(story.send(Input::Ready), [Output::ReportStarted, Output::Go]);
        story
    }

    /// The manager's outputs, except for clean-up, which is answered at once, ends of worlds, and states of the spawns.
    fn outputs(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        while let Some(output) = self.manager.next(self.now) {
            match output {
                Output::CleanUp => self.manager.post(Input::CleanedUp),
                Output::WorldEnded(ends) => self.ended.push(ends),
                Output::Spawn(SpawnOutput::Report(_)) => {}
                output => outputs.push(output),
            }
        }
        outputs
    }

    fn send(&mut self, input: Input) -> Vec<Output> {
        self.manager.post(input);
        self.outputs()
    }

    fn after(&mut self, wait: Duration) -> Vec<Output> {
        self.now = self.now + wait;
        self.manager.handle_timeout(self.now);
        self.outputs()
    }

    fn end_turn(&mut self) -> Vec<Output> {
        self.manager.end_turn(self.now);
        self.outputs()
    }

    fn exit(&mut self, rank: u32, code: u8) -> Vec<Output> {
        self.send(Input::Exited(Rank(rank), RankEnd::Exited(code)))
    }

    fn finish(&mut self) -> Vec<Output> {
        let mut outputs = self.send(Input::TreeGone);
        outputs.extend(self.send(Input::Drained));
        outputs
    }
}

/// The report of a failure on the only host.
fn reported(failure: Failure) -> Output {
    Output::ReportFailed { host: Some(name(0)), failure }
}

/// The report of a failure that belongs to no host.
fn reported_of_job(failure: Failure) -> Output {
    Output::ReportFailed { host: None, failure }
}

fn rank_failed(rank: u32, code: u8) -> Output {
    reported(Failure::Rank { rank: Rank(rank), end: RankEnd::Exited(code) })
}

#[test]
fn a_job_whose_ranks_all_exit_with_0_ends_with_0() {
    let mut story = Story::of(2);
    assert_eq!(story.exit(1, 0), []);
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(0)]);
}

#[test]
fn the_first_failure_ends_the_others_and_gives_the_code() {
    let mut story = Story::of(3);
    assert_eq!(story.exit(2, 7), [rank_failed(2, 7), Output::SignalRanks(SIGTERM)]);
    assert_eq!(story.exit(0, 9), []);
    assert_eq!(story.after(FAILURE_GRACE), [Output::KillTree]);
    assert_eq!(story.exit(1, 1), []);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(7)]);
}

#[test]
fn with_continue_the_others_run_on_and_the_code_is_still_the_first_failures() {
    let mut story = Story::with(3, OnFailure::Continue, None);
    assert_eq!(story.exit(2, 7), [rank_failed(2, 7), Output::Dead(Rank(2))]);
    assert_eq!(story.exit(0, 9), [Output::Dead(Rank(0))]);
    assert_eq!(story.exit(1, 0), [Output::KillTree]);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(7)]);
}

#[test]
fn exit_0_between_init_and_finalize_is_a_failure() {
    let mut story = Story::of(2);
    story.send(Input::Initialized(Rank(1)));
    let outputs = story.exit(1, 0);
    assert_eq!(outputs[0], reported(Failure::NotFinalized { rank: Rank(1) }));
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
    assert_eq!(story.finish().last(), Some(&Output::Finish(1)));
}

#[test]
fn with_continue_exit_0_between_init_and_finalize_ends_no_other_rank() {
    let mut story = Story::with(2, OnFailure::Continue, None);
    story.send(Input::Initialized(Rank(1)));
    let failure = reported(Failure::NotFinalized { rank: Rank(1) });
    assert_eq!(story.exit(1, 0), [failure, Output::Dead(Rank(1))]);
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
    assert_eq!(story.finish().last(), Some(&Output::Finish(1)));
}

#[test]
fn a_fence_is_released_when_all_ranks_are_inside_and_can_be_used_again() {
    let mut story = Story::of(2);
    for _ in 0..2 {
        assert_eq!(story.send(Input::EnteredFence(Rank(0))), []);
        assert_eq!(story.send(Input::EnteredFence(Rank(0))), [], "a second entry counts once");
        assert_eq!(story.send(Input::EnteredFence(Rank(1))), [Output::ReleaseFence(Rank(0))]);
    }
}

#[test]
fn held_ranks_continue_when_all_were_started_and_the_console_releases_them() {
    let mut story = Story::starting(2, OnFailure::End, None);
    assert_eq!(story.send(Input::GoOn), [], "it knows of all ranks before we do");
    assert_eq!(story.send(Input::Started), [Output::ReadPmi, Output::ReleaseCrashed]);
    let mut story = Story::of(2);
    assert_eq!(story.send(Input::GoOn), [Output::ReadPmi, Output::ReleaseCrashed]);
}

#[test]
fn leaving_while_others_wait_in_the_fence_ends_the_job_whichever_comes_first() {
    let left = reported(Failure::LeftOthersWaiting { rank: Rank(1) });
    let mut story = Story::of(2);
    story.send(Input::EnteredFence(Rank(0)));
    assert_eq!(story.exit(1, 0)[0], left);
    let mut story = Story::of(2);
    assert_eq!(story.exit(1, 0), []);
    assert_eq!(story.send(Input::EnteredFence(Rank(0)))[0], left);
}

#[test]
fn with_continue_the_dead_are_not_waited_for_in_the_fence() {
    let mut story = Story::with(3, OnFailure::Continue, None);
    story.send(Input::EnteredFence(Rank(0)));
    story.send(Input::EnteredFence(Rank(2)));
    assert_eq!(
        story.exit(1, 3),
        [rank_failed(1, 3), Output::Dead(Rank(1)), Output::ReleaseFence(Rank(0))]
    );
}

#[test]
fn interrupt_terminates_and_kills_after_graces() {
    let mut story = Story::of(1);
    assert_eq!(story.send(Input::Interrupt), [Output::SignalRanks(SIGINT)]);
    assert_eq!(story.after(INTERRUPT_GRACE), [Output::SignalRanks(SIGTERM)]);
    assert_eq!(story.after(TERMINATE_GRACE), [Output::KillTree]);
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let mut story = Story::of(1);
    story.send(Input::Interrupt);
    assert_eq!(story.send(Input::Interrupt), [Output::KillTree]);
}

#[test]
fn one_rank_dying_of_the_interrupt_does_not_shorten_the_grace_of_the_others() {
    let mut story = Story::of(2);
    story.send(Input::Interrupt);
    let end = RankEnd::Signaled { signal: SIGINT, core: false };
    let outputs = story.send(Input::Exited(Rank(0), end));
    assert_eq!(outputs, [reported(Failure::Rank { rank: Rank(0), end })]);
    assert_eq!(story.exit(1, 0), [Output::KillTree]);
    assert_eq!(story.finish().last(), Some(&Output::Finish(130)));
}

#[test]
fn an_interrupted_job_does_not_wait_for_a_reader_that_does_not_read() {
    let mut story = Story::of(1);
    story.send(Input::Interrupt);
    story.exit(0, 0);
    assert_eq!(story.send(Input::TreeGone), [Output::Drain]);
    let interrupted = reported_of_job(Failure::Interrupted { signal: SIGINT });
    assert_eq!(
        story.after(DRAIN_GRACE),
        [interrupted, Output::DiscardOutput, Output::Finish(130)],
        "output was lost"
    );
}

#[test]
fn a_reader_that_reads_is_waited_for_even_after_an_interrupt() {
    let mut story = Story::of(1);
    story.send(Input::Interrupt);
    story.exit(0, 0);
    story.send(Input::TreeGone);
    for _ in 0..5 {
        assert_eq!(story.after(DRAIN_GRACE / 2), []);
        assert_eq!(story.send(Input::DrainGoesOn), []);
    }
    assert_eq!(story.send(Input::Drained), [Output::Finish(0)]);
}

#[test]
fn a_job_that_was_terminated_does_not_wait_for_a_reader_either() {
    let mut story = Story::of(1);
    story.send(Input::Signal(SIGTERM));
    story.send(Input::Exited(Rank(0), RankEnd::Signaled { signal: SIGTERM, core: false }));
    story.send(Input::TreeGone);
    assert_eq!(story.after(DRAIN_GRACE), [Output::DiscardOutput, Output::Finish(143)]);
}

#[test]
fn a_job_over_but_not_drained_can_still_be_interrupted() {
    let mut story = Story::of(1);
    story.exit(0, 0);
    story.send(Input::TreeGone);
    assert_eq!(story.manager.machine().poll_timeout(), None);
    assert_eq!(story.send(Input::Interrupt), []);
    assert_eq!(story.after(DRAIN_GRACE).last(), Some(&Output::Finish(130)));
}

#[test]
fn suspend_stops_everything_after_a_grace_and_resume_continues_it() {
    let mut story = Story::of(1);
    assert_eq!(story.send(Input::Suspend), [Output::SignalRanks(SIGTSTP)]);
    assert_eq!(story.after(STOP_GRACE), [Output::StopTree]);
    assert_eq!(story.send(Input::TreeStopped), [Output::ReportSuspended]);
    assert_eq!(story.send(Input::Resume), [Output::ContinueTree]);
}

#[test]
fn a_suspended_job_that_loses_its_console_has_failed_and_is_continued_first() {
    let mut story = Story::of(1);
    story.send(Input::Suspend);
    let lost = Failure::Suite { problem: "the connection to mpirun is lost".to_owned() };
    let outputs = story.send(Input::ConsoleLost);
    assert_eq!(outputs[..2], [reported_of_job(lost), Output::DiscardOutput]);
    assert_eq!(outputs[2..], [Output::SignalRanks(SIGTERM), Output::ContinueTree]);
}

/// A job of one rank with a time limit; also the limit and the report of its end.
fn limited() -> (Story, Duration, Output) {
    let limit = Duration::from_secs(5);
    let timed_out = reported_of_job(Failure::TimedOut { limit_ms: 5000 });
    (Story::with(1, OnFailure::End, Some(limit)), limit, timed_out)
}

#[test]
fn after_the_time_limit_a_reader_that_does_not_read_is_not_waited_for() {
    let (mut story, limit, timed_out) = limited();
    assert_eq!(story.after(limit), [timed_out, Output::SignalRanks(SIGTERM)]);
    story.send(Input::Exited(Rank(0), RankEnd::Signaled { signal: SIGTERM, core: false }));
    assert_eq!(story.send(Input::TreeGone), [Output::Drain]);
    assert_eq!(story.after(DRAIN_GRACE), [Output::DiscardOutput, Output::Finish(124)]);
}

#[test]
fn the_time_limit_ends_the_wait_for_the_reader_of_ranks_that_ended_before_it() {
    let (mut story, limit, timed_out) = limited();
    story.exit(0, 0);
    story.send(Input::TreeGone);
    assert_eq!(story.after(limit), [], "the reader may still read");
    assert_eq!(
        story.after(DRAIN_GRACE),
        [timed_out, Output::DiscardOutput, Output::Finish(124)],
        "output was lost"
    );
}

#[test]
fn a_reader_that_reads_is_waited_for_even_after_the_time_limit() {
    let (mut story, limit, _) = limited();
    story.exit(0, 0);
    story.send(Input::TreeGone);
    story.after(limit);
    for _ in 0..5 {
        assert_eq!(story.after(DRAIN_GRACE / 2), []);
        assert_eq!(story.send(Input::DrainGoesOn), []);
    }
    assert_eq!(story.send(Input::Drained), [Output::Finish(0)]);
    assert_eq!(story.manager.machine().poll_timeout(), None);
}

#[test]
fn a_failure_before_the_time_limit_keeps_its_code_when_output_is_lost() {
    let (mut story, limit, _) = limited();
    story.exit(0, 7);
    story.send(Input::TreeGone);
    story.after(limit);
    assert_eq!(story.after(DRAIN_GRACE), [Output::DiscardOutput, Output::Finish(7)]);
}

#[test]
fn the_time_limit_ends_the_job_with_124() {
    let mut story = Story::with(1, OnFailure::End, Some(Duration::from_secs(5)));
    let outputs = story.after(Duration::from_secs(5));
    assert_eq!(outputs[0], reported_of_job(Failure::TimedOut { limit_ms: 5000 }));
    story.after(FAILURE_GRACE);
    assert_eq!(story.finish().last(), Some(&Output::Finish(124)));
}

#[test]
fn a_failed_start_kills_what_was_started() {
    let mut manager = alone(2, OnFailure::End, None);
    let failure = Failure::Suite { problem: "x".into() };
    manager.handle(Time::ZERO, Input::StartFailed(failure.clone()));
    assert_eq!(manager.poll_output(), Some(reported(failure)));
    assert_eq!(manager.poll_output(), Some(Output::KillTree));
    assert_eq!(manager.end_of(Rank(1)), RankEnd::NotStarted);
}

#[test]
fn output_whose_reader_left_ends_the_job_with_141() {
    let mut story = Story::of(1);
    let outputs = story.send(Input::OutputClosed);
    let closed = reported_of_job(Failure::OutputClosed);
    assert_eq!(outputs, [closed, Output::SignalRanks(SIGTERM)], "stderr still flows");
    story.send(Input::Exited(Rank(0), RankEnd::Signaled { signal: 13, core: false }));
    assert_eq!(story.finish().last(), Some(&Output::Finish(141)));
}

#[test]
fn a_failure_while_ranks_are_being_started_kills_at_once() {
    let mut story = Story::starting(2, OnFailure::End, None);
    assert_eq!(story.exit(0, 3), [rank_failed(0, 3), Output::KillTree]);
}

#[test]
fn an_interrupt_while_ranks_are_being_started_ends_with_130() {
    let mut story = Story::starting(2, OnFailure::End, None);
    story.send(Input::Interrupt);
    assert_eq!(story.manager.machine().exit_code(), 130);
}

#[test]
fn ranks_that_ended_before_the_last_was_started_end_the_job_when_it_has_started() {
    let mut story = Story::starting(1, OnFailure::End, None);
    assert_eq!(story.exit(0, 0), []);
    assert_eq!(story.send(Input::Started), [Output::KillTree]);
}

#[test]
fn a_rank_killed_because_it_ignored_the_interrupt_counts_as_interrupted() {
    let mut story = Story::of(1);
    story.send(Input::Interrupt);
    story.send(Input::Interrupt);
    story.send(Input::Exited(Rank(0), RankEnd::Signaled { signal: SIGKILL, core: false }));
    assert_eq!(story.finish().last(), Some(&Output::Finish(130)));
}

#[test]
fn signals_and_a_suspension_that_come_early_wait_for_the_ranks() {
    let mut story = Story::starting(2, OnFailure::End, None);
    for input in [Input::Signal(10), Input::SignalProcesses(10), Input::Suspend] {
        assert_eq!(story.send(input.clone()), []);
        assert_eq!(story.send(input), [], "what is pending already does not become two");
    }
    assert_eq!(story.send(Input::Resize(80, 24)), []);
    assert_eq!(story.send(Input::Resize(90, 25)), [], "of sizes the last one counts");
    let outputs = story.send(Input::Started);
    let pending = [Output::SignalRanks(10), Output::SignalProcesses(10), Output::Resize(90, 25)];
    assert_eq!(outputs, [&pending[..], &[Output::SignalRanks(SIGTSTP)]].concat());
}

#[test]
fn a_second_suspension_is_answered_only_when_everything_is_stopped() {
    let mut story = Story::of(1);
    story.send(Input::Suspend);
    assert_eq!(story.send(Input::Suspend), []);
    story.after(STOP_GRACE);
    assert_eq!(story.send(Input::TreeStopped), [Output::ReportSuspended]);
    assert_eq!(story.send(Input::Suspend), [Output::ReportSuspended]);
}

#[test]
fn ranks_that_end_in_their_own_way_after_an_interrupt_may_still_meet_in_a_fence() {
    let mut story = Story::of(2);
    story.send(Input::Interrupt);
    story.send(Input::EnteredFence(Rank(0)));
    assert_eq!(story.send(Input::EnteredFence(Rank(1))), [Output::ReleaseFence(Rank(0))]);
}

#[test]
fn a_job_that_only_waits_for_its_reader_can_be_terminated() {
    let mut story = Story::of(1);
    story.exit(0, 0);
    story.send(Input::TreeGone);
    assert_eq!(story.send(Input::Signal(SIGTERM)), []);
    assert_eq!(story.after(DRAIN_GRACE).last(), Some(&Output::Finish(143)));
}

#[test]
fn a_process_that_cannot_be_killed_is_reported_at_once_and_outweighs_an_earlier_failure() {
    let mut story = Story::of(1);
    story.send(Input::Exited(Rank(0), RankEnd::Exited(3)));
    let outputs = story.send(Input::LeftRunning("process 7".to_owned()));
    let [Output::ReportNotice(text)] = &outputs[..] else { panic!("{outputs:?}") };
    assert!(text.starts_with("host h0: cannot kill process 7"), "{text}");
    story.send(Input::TreeGone);
    assert_eq!(story.send(Input::Drained), [Output::Finish(125)]);
}

#[test]
fn a_job_whose_rank_cannot_receive_the_request_to_end_is_killed_after_the_grace() {
    let mut story = Story::of(1);
    assert_eq!(story.send(Input::Signal(SIGTERM)), [Output::SignalRanks(SIGTERM)]);
    let problem = "cannot send SIGTERM to process 7".to_owned();
    let outputs = story.send(Input::SignalRefused(problem.clone()));
    let again = Output::SignalRanks(SIGTERM);
    assert_eq!(outputs, [reported(Failure::Suite { problem: problem.clone() }), again]);
    assert_eq!(story.send(Input::SignalRefused(problem)), []);
    assert_eq!(story.after(FAILURE_GRACE), [Output::KillTree]);
    story.exit(0, 0);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(125)]);
}
