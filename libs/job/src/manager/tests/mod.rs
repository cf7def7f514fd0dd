//! The stories of a job, told to the machine.

mod alone;
mod debug;
mod dice;
mod groups;
mod tree;
mod worlds;

use std::time::Duration;

use super::job::{SIGKILL, SIGTERM, SIGTSTP};
use super::*;
use mpd_machine::Pump;
use mpd_wire::Instance;
use mpd_wire::job::Share;

pub(super) fn name(place: usize) -> DaemonName {
    DaemonName::new(&format!("h{place}")).unwrap()
}

/// `each` ranks on each of so many hosts, in order.
pub(super) fn shares(hosts: usize, each: u32) -> Shares {
    let share = |place: usize| {
        let low = u32::try_from(place).unwrap() * each;
        Share {
            member: name(place),
            manager: Instance::from_bytes([1; 16]),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(low, low + each - 1)]),
        }
    };
    let size = u32::try_from(hosts).unwrap() * each;
    Shares::new((0..hosts).map(share).collect(), size).unwrap()
}

/// The manager of a job of one host, before anything happened.
fn alone(size: u32, on_failure: OnFailure, limit: Option<Duration>) -> Manager {
    Manager::new(Config {
        shares: &shares(1, size),
        place: 0,
        size,
        on_failure,
        limit,
        debugged: false,
    })
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
        assert_eq!(story.tell(Input::Started), []);
        story
    }

    /// Ranks are being spawned.
    fn starting(size: u32, on_failure: OnFailure, limit: Option<Duration>) -> Self {
        let mut story = Self {
            manager: Pump::new(alone(size, on_failure, limit)),
            now: Time::ZERO,
            ended: Vec::new(),
        };
        assert_eq!(story.tell(Input::Ready), [Output::TellStarted, Output::Go]);
        story
    }

    /// What the manager wants besides cleaning up, which is done at once, and telling how worlds ended.
    fn outputs(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        while let Some(output) = self.manager.next(self.now) {
            match output {
                Output::Tidy => self.manager.post(Input::Tidied),
                Output::WorldEnded(ends) => self.ended.push(ends),
                output => outputs.push(output),
            }
        }
        outputs
    }

    fn tell(&mut self, input: Input) -> Vec<Output> {
        self.manager.post(input);
        self.outputs()
    }

    fn after(&mut self, wait: Duration) -> Vec<Output> {
        self.now = self.now + wait;
        self.manager.handle_timeout(self.now);
        self.outputs()
    }

    fn exit(&mut self, rank: u32, code: u8) -> Vec<Output> {
        self.tell(Input::Exited(Rank(rank), RankEnd::Exited(code)))
    }

    fn finish(&mut self) -> Vec<Output> {
        let mut outputs = self.tell(Input::TreeGone);
        outputs.extend(self.tell(Input::Drained));
        outputs
    }
}

/// A failure on the only host.
fn told(failure: Failure) -> Output {
    Output::TellFailed { host: Some(name(0)), failure }
}

/// A failure of no host in particular.
fn told_of_job(failure: Failure) -> Output {
    Output::TellFailed { host: None, failure }
}

fn rank_failed(rank: u32, code: u8) -> Output {
    told(Failure::Rank { rank: Rank(rank), end: RankEnd::Exited(code) })
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
    story.tell(Input::Initialized(Rank(1)));
    let outputs = story.exit(1, 0);
    assert_eq!(outputs[0], told(Failure::NotFinalized { rank: Rank(1) }));
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
    assert_eq!(story.finish().last(), Some(&Output::Finish(1)));
}

#[test]
fn with_continue_exit_0_between_init_and_finalize_ends_no_other_rank() {
    let mut story = Story::with(2, OnFailure::Continue, None);
    story.tell(Input::Initialized(Rank(1)));
    let failure = told(Failure::NotFinalized { rank: Rank(1) });
    assert_eq!(story.exit(1, 0), [failure, Output::Dead(Rank(1))]);
    assert_eq!(story.exit(0, 0), [Output::KillTree]);
    assert_eq!(story.finish().last(), Some(&Output::Finish(1)));
}

#[test]
fn a_fence_releases_when_everybody_is_inside_and_again() {
    let mut story = Story::of(2);
    for _ in 0..2 {
        assert_eq!(story.tell(Input::EnteredFence(Rank(0))), []);
        assert_eq!(story.tell(Input::EnteredFence(Rank(0))), [], "a second entry counts once");
        assert_eq!(story.tell(Input::EnteredFence(Rank(1))), [Output::ReleaseFence(Rank(0))]);
    }
}

#[test]
fn ranks_that_were_held_go_on_when_all_were_started_and_the_console_lets_them() {
    let mut story = Story::starting(2, OnFailure::End, None);
    assert_eq!(story.tell(Input::GoOn), [], "it knows of all ranks before we do");
    assert_eq!(story.tell(Input::Started), [Output::ReadPmi, Output::ReleaseCrashed]);
    let mut story = Story::of(2);
    assert_eq!(story.tell(Input::GoOn), [Output::ReadPmi, Output::ReleaseCrashed]);
}

#[test]
fn leaving_while_others_wait_in_the_fence_ends_the_job_whichever_comes_first() {
    let left = told(Failure::LeftOthersWaiting { rank: Rank(1) });
    let mut story = Story::of(2);
    story.tell(Input::EnteredFence(Rank(0)));
    assert_eq!(story.exit(1, 0)[0], left);
    let mut story = Story::of(2);
    assert_eq!(story.exit(1, 0), []);
    assert_eq!(story.tell(Input::EnteredFence(Rank(0)))[0], left);
}

#[test]
fn with_continue_the_dead_are_not_waited_for_in_the_fence() {
    let mut story = Story::with(3, OnFailure::Continue, None);
    story.tell(Input::EnteredFence(Rank(0)));
    story.tell(Input::EnteredFence(Rank(2)));
    assert_eq!(
        story.exit(1, 3),
        [rank_failed(1, 3), Output::Dead(Rank(1)), Output::ReleaseFence(Rank(0))]
    );
}

#[test]
fn interrupt_terminates_and_kills_after_graces() {
    let mut story = Story::of(1);
    assert_eq!(story.tell(Input::Interrupt), [Output::SignalRanks(SIGINT)]);
    assert_eq!(story.after(INTERRUPT_GRACE), [Output::SignalRanks(SIGTERM)]);
    assert_eq!(story.after(TERMINATE_GRACE), [Output::KillTree]);
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let mut story = Story::of(1);
    story.tell(Input::Interrupt);
    assert_eq!(story.tell(Input::Interrupt), [Output::KillTree]);
}

#[test]
fn one_rank_dying_of_the_interrupt_does_not_shorten_the_grace_of_the_others() {
    let mut story = Story::of(2);
    story.tell(Input::Interrupt);
    let end = RankEnd::Signaled { signal: SIGINT, core: false };
    let outputs = story.tell(Input::Exited(Rank(0), end));
    assert_eq!(outputs, [told(Failure::Rank { rank: Rank(0), end })]);
    assert_eq!(story.exit(1, 0), [Output::KillTree]);
    assert_eq!(story.finish().last(), Some(&Output::Finish(130)));
}

#[test]
fn an_interrupted_job_does_not_wait_for_a_reader_that_does_not_read() {
    let mut story = Story::of(1);
    story.tell(Input::Interrupt);
    story.exit(0, 0);
    assert_eq!(story.tell(Input::TreeGone), [Output::Drain]);
    let interrupted = told_of_job(Failure::Interrupted { signal: SIGINT });
    assert_eq!(
        story.after(DRAIN_GRACE),
        [interrupted, Output::DiscardOutput, Output::Finish(130)],
        "output was lost"
    );
}

#[test]
fn a_reader_that_reads_is_waited_for_even_after_an_interrupt() {
    let mut story = Story::of(1);
    story.tell(Input::Interrupt);
    story.exit(0, 0);
    story.tell(Input::TreeGone);
    for _ in 0..5 {
        assert_eq!(story.after(DRAIN_GRACE / 2), []);
        assert_eq!(story.tell(Input::DrainGoesOn), []);
    }
    assert_eq!(story.tell(Input::Drained), [Output::Finish(0)]);
}

#[test]
fn a_job_that_was_terminated_does_not_wait_for_a_reader_either() {
    let mut story = Story::of(1);
    story.tell(Input::Signal(SIGTERM));
    story.tell(Input::Exited(Rank(0), RankEnd::Signaled { signal: SIGTERM, core: false }));
    story.tell(Input::TreeGone);
    assert_eq!(story.after(DRAIN_GRACE), [Output::DiscardOutput, Output::Finish(143)]);
}

#[test]
fn a_job_over_but_not_drained_can_still_be_interrupted() {
    let mut story = Story::of(1);
    story.exit(0, 0);
    story.tell(Input::TreeGone);
    assert_eq!(story.manager.machine().poll_timeout(), None);
    assert_eq!(story.tell(Input::Interrupt), []);
    assert_eq!(story.after(DRAIN_GRACE).last(), Some(&Output::Finish(130)));
}

#[test]
fn suspend_stops_everything_after_a_grace_and_resume_continues_it() {
    let mut story = Story::of(1);
    assert_eq!(story.tell(Input::Suspend), [Output::SignalRanks(SIGTSTP)]);
    assert_eq!(story.after(STOP_GRACE), [Output::StopTree]);
    assert_eq!(story.tell(Input::TreeStopped), [Output::TellSuspended]);
    assert_eq!(story.tell(Input::Resume), [Output::ContinueTree]);
}

#[test]
fn a_suspended_job_that_is_ended_is_continued_first() {
    let mut story = Story::of(1);
    story.tell(Input::Suspend);
    assert_eq!(
        story.tell(Input::ConsoleLost),
        [Output::DiscardOutput, Output::SignalRanks(SIGTERM), Output::ContinueTree]
    );
}

/// A job of one rank that may run for so long.
fn limited() -> (Story, Duration, Output) {
    let limit = Duration::from_secs(5);
    let timed_out = told_of_job(Failure::TimedOut { limit_ms: 5000 });
    (Story::with(1, OnFailure::End, Some(limit)), limit, timed_out)
}

#[test]
fn after_the_time_limit_a_reader_that_does_not_read_is_not_waited_for() {
    let (mut story, limit, timed_out) = limited();
    assert_eq!(story.after(limit), [timed_out, Output::SignalRanks(SIGTERM)]);
    story.tell(Input::Exited(Rank(0), RankEnd::Signaled { signal: SIGTERM, core: false }));
    assert_eq!(story.tell(Input::TreeGone), [Output::Drain]);
    assert_eq!(story.after(DRAIN_GRACE), [Output::DiscardOutput, Output::Finish(124)]);
}

#[test]
fn the_time_limit_ends_the_wait_for_the_reader_of_ranks_that_ended_before_it() {
    let (mut story, limit, timed_out) = limited();
    story.exit(0, 0);
    story.tell(Input::TreeGone);
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
    story.tell(Input::TreeGone);
    story.after(limit);
    for _ in 0..5 {
        assert_eq!(story.after(DRAIN_GRACE / 2), []);
        assert_eq!(story.tell(Input::DrainGoesOn), []);
    }
    assert_eq!(story.tell(Input::Drained), [Output::Finish(0)]);
    assert_eq!(story.manager.machine().poll_timeout(), None);
}

#[test]
fn a_failure_before_the_time_limit_keeps_its_code_when_output_is_lost() {
    let (mut story, limit, _) = limited();
    story.exit(0, 7);
    story.tell(Input::TreeGone);
    story.after(limit);
    assert_eq!(story.after(DRAIN_GRACE), [Output::DiscardOutput, Output::Finish(7)]);
}

#[test]
fn the_time_limit_ends_the_job_with_124() {
    let mut story = Story::with(1, OnFailure::End, Some(Duration::from_secs(5)));
    let outputs = story.after(Duration::from_secs(5));
    assert_eq!(outputs[0], told_of_job(Failure::TimedOut { limit_ms: 5000 }));
    story.after(FAILURE_GRACE);
    assert_eq!(story.finish().last(), Some(&Output::Finish(124)));
}

#[test]
fn a_failed_start_kills_what_was_started() {
    let mut manager = alone(2, OnFailure::End, None);
    let failure = Failure::Suite { problem: "x".into() };
    manager.handle(Time::ZERO, Input::StartFailed(failure.clone()));
    assert_eq!(manager.poll_output(), Some(told(failure)));
    assert_eq!(manager.poll_output(), Some(Output::KillTree));
    assert_eq!(manager.end_of(Rank(1)), RankEnd::NotStarted);
}

#[test]
fn output_whose_reader_left_ends_the_job_with_141() {
    let mut story = Story::of(1);
    let outputs = story.tell(Input::OutputClosed);
    let closed = told_of_job(Failure::OutputClosed);
    assert_eq!(outputs, [closed, Output::SignalRanks(SIGTERM)], "stderr still flows");
    story.tell(Input::Exited(Rank(0), RankEnd::Signaled { signal: 13, core: false }));
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
    story.tell(Input::Interrupt);
    assert_eq!(story.manager.machine().exit_code(), 130);
}

#[test]
fn ranks_that_ended_before_the_last_was_started_end_the_job_when_it_has_started() {
    let mut story = Story::starting(1, OnFailure::End, None);
    assert_eq!(story.exit(0, 0), []);
    assert_eq!(story.tell(Input::Started), [Output::KillTree]);
}

#[test]
fn a_rank_killed_because_it_ignored_the_interrupt_counts_as_interrupted() {
    let mut story = Story::of(1);
    story.tell(Input::Interrupt);
    story.tell(Input::Interrupt);
    story.tell(Input::Exited(Rank(0), RankEnd::Signaled { signal: SIGKILL, core: false }));
    assert_eq!(story.finish().last(), Some(&Output::Finish(130)));
}

#[test]
fn signals_and_a_suspension_that_come_early_wait_for_the_ranks() {
    let mut story = Story::starting(2, OnFailure::End, None);
    for input in [Input::Signal(10), Input::SignalProcesses(10), Input::Suspend] {
        assert_eq!(story.tell(input.clone()), []);
        assert_eq!(story.tell(input), [], "what is pending already does not become two");
    }
    assert_eq!(story.tell(Input::Resize(80, 24)), []);
    assert_eq!(story.tell(Input::Resize(90, 25)), [], "of sizes the last one counts");
    let outputs = story.tell(Input::Started);
    let pending = [Output::SignalRanks(10), Output::SignalProcesses(10), Output::Resize(90, 25)];
    assert_eq!(outputs, [&pending[..], &[Output::SignalRanks(SIGTSTP)]].concat());
}

#[test]
fn a_second_suspension_is_answered_only_when_everything_is_stopped() {
    let mut story = Story::of(1);
    story.tell(Input::Suspend);
    assert_eq!(story.tell(Input::Suspend), []);
    story.after(STOP_GRACE);
    assert_eq!(story.tell(Input::TreeStopped), [Output::TellSuspended]);
    assert_eq!(story.tell(Input::Suspend), [Output::TellSuspended]);
}

#[test]
fn ranks_that_end_in_their_own_way_after_an_interrupt_may_still_meet_in_a_fence() {
    let mut story = Story::of(2);
    story.tell(Input::Interrupt);
    story.tell(Input::EnteredFence(Rank(0)));
    assert_eq!(story.tell(Input::EnteredFence(Rank(1))), [Output::ReleaseFence(Rank(0))]);
}

#[test]
fn a_job_that_only_waits_for_its_reader_can_be_terminated() {
    let mut story = Story::of(1);
    story.exit(0, 0);
    story.tell(Input::TreeGone);
    assert_eq!(story.tell(Input::Signal(SIGTERM)), []);
    assert_eq!(story.after(DRAIN_GRACE).last(), Some(&Output::Finish(143)));
}

#[test]
fn a_process_that_cannot_be_killed_is_reported_at_once_and_outweighs_an_earlier_failure() {
    let mut story = Story::of(1);
    story.tell(Input::Exited(Rank(0), RankEnd::Exited(3)));
    let outputs = story.tell(Input::LeftRunning("process 7".to_owned()));
    let [Output::TellNotice(text)] = &outputs[..] else { panic!("{outputs:?}") };
    assert!(text.starts_with("host h0: cannot kill process 7"), "{text}");
    story.tell(Input::TreeGone);
    assert_eq!(story.tell(Input::Drained), [Output::Finish(125)]);
}

#[test]
fn a_job_whose_rank_cannot_receive_the_request_to_end_is_killed_after_the_grace() {
    let mut story = Story::of(1);
    assert_eq!(story.tell(Input::Signal(SIGTERM)), [Output::SignalRanks(SIGTERM)]);
    let problem = "cannot send SIGTERM to process 7".to_owned();
    let outputs = story.tell(Input::SignalRefused(problem.clone()));
    let again = Output::SignalRanks(SIGTERM);
    assert_eq!(outputs, [told(Failure::Suite { problem: problem.clone() }), again]);
    assert_eq!(story.tell(Input::SignalRefused(problem)), []);
    assert_eq!(story.after(FAILURE_GRACE), [Output::KillTree]);
    story.exit(0, 0);
    assert_eq!(story.finish(), [Output::Drain, Output::Finish(125)]);
}
