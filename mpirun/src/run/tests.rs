//! What `mpirun` says and does, step by step.

use mpd_wire::job::RankEnd;
use mpd_wire::{Rank, RankSet};

use super::signals::SIGTERM;
use super::*;
use crate::ends::Ended;

fn run(size: u32) -> Run {
    begun(Settings { size, ..plain() })
}

/// A job that has just started.
fn begun(settings: Settings) -> Run {
    let mut run = Run::new(settings);
    assert_eq!(told(&mut run, started()), []);
    run
}

fn started() -> Input {
    let job = JobId::new(1, "h1").unwrap();
    Input::News(JobNews::Started { job, host: "h1".into() })
}

/// Of a job of one rank, without any option.
const fn plain() -> Settings {
    Settings {
        size: 1,
        goes_on: false,
        is_silent: false,
        verbose: false,
        terminal: false,
        adopted: false,
        hops: false,
        hold: false,
        beside: Beside::Nothing,
    }
}

#[test]
fn of_sizes_that_came_before_the_job_the_last_one_is_told() {
    let mut run = Run::new(plain());
    assert_eq!(told(&mut run, Input::Resized(80, 24)), []);
    assert_eq!(told(&mut run, Input::Resized(90, 25)), []);
    let resize = |columns, lines| Output::Send(JobInput::Resize { columns, lines });
    assert_eq!(told(&mut run, started()), [resize(90, 25)]);
    assert_eq!(told(&mut run, Input::Resized(91, 26)), [resize(91, 26)]);
}

#[test]
fn before_the_start_an_end_means_leaving_and_the_rest_is_held() {
    let mut run = Run::new(plain());
    assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), []);
    assert_eq!(told(&mut run, started()), [Output::Send(JobInput::Suspend)]);
    let mut run = Run::new(plain());
    assert_eq!(told(&mut run, Input::Signal(SIGTERM)), [Output::Leave(143)]);
}

fn all_of(run: &mut Run, input: Input) -> Vec<Output> {
    run.handle(Time::ZERO, input);
    std::iter::from_fn(|| run.poll_output()).collect()
}

/// What there is to do but for other programs that debug, and what is kept until the start.
fn told(run: &mut Run, input: Input) -> Vec<Output> {
    let outputs = all_of(run, input);
    let is_for_others = |output: &Output| matches!(output, Output::ShowAbort(_) | Output::Started);
    outputs.into_iter().filter(|output| !is_for_others(output)).collect()
}

fn failed(end: RankEnd) -> Input {
    let failure = Failure::Rank { rank: Rank(1), end };
    Input::News(JobNews::Failed { host: "h1".into(), failure })
}

#[test]
fn a_job_that_is_held_goes_on_once_all_its_processes_were_shown() {
    let mut run = begun(Settings { size: 2, hold: true, ..plain() });
    let told_of = |rank: u32| {
        let host = mpd_wire::DaemonName::new("h1").unwrap();
        let ranks = [Rank(rank)].into_iter().collect();
        Input::News(JobNews::Processes { host, ranks, pids: vec![100 + rank] })
    };
    assert_eq!(told(&mut run, told_of(1)), []);
    let shown = [Output::ShowProcesses, Output::Send(JobInput::GoOn)];
    assert_eq!(told(&mut run, told_of(0)), shown);
    assert_eq!(told(&mut run, told_of(0)), []);
}

fn held(rank: u32) -> Input {
    let crash = mpd_wire::job::Crash::held(11);
    Input::News(JobNews::Crashed { rank: Rank(rank), crash })
}

#[test]
fn the_debugger_opens_at_crashed_ranks_and_what_is_held_dies_when_it_is_left() {
    let mut run = run(1);
    assert_eq!(told(&mut run, held(0)), []);
    assert_eq!(run.poll_timeout(), None, "the ring does not know the rank yet");
    let host = mpd_wire::DaemonName::new("h1").unwrap();
    let ranks = RankSet::below(1);
    let processes = JobNews::Processes { host, ranks: ranks.clone(), pids: vec![7] };
    told(&mut run, Input::News(processes));
    run.handle_timeout(run.poll_timeout().unwrap());
    let who =
        "rank 0 of host h1: SIGSEGV; the debugger opens there, the job ends when you quit it (q)";
    assert_eq!(run.poll_output(), Some(Output::Print(who.into())));
    assert_eq!(run.poll_output(), Some(Output::WantTerminal));
    assert_eq!(told(&mut run, Input::Terminal { is_ours: true }), [Output::OpenDebugger(ranks)]);
    assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), [Output::Stop], "the job is not");
    assert_eq!(told(&mut run, Input::Signal(SIGCONT)), []);
    assert_eq!(told(&mut run, Input::Continued), [], "as the job is not");
    let ended = Input::DebuggerEnded { was_session: true };
    assert_eq!(told(&mut run, ended), [Output::Send(JobInput::GoOn)]);
}

/// A job of one rank, whose crash has just called for the debugger.
fn crashed() -> Run {
    let mut run = run(1);
    let host = mpd_wire::DaemonName::new("h1").unwrap();
    let processes = JobNews::Processes { host, ranks: RankSet::below(1), pids: vec![7] };
    told(&mut run, Input::News(processes));
    told(&mut run, held(0));
    run.handle_timeout(run.poll_timeout().unwrap());
    while run.poll_output().is_some() {}
    assert!(run.wants_terminal());
    run
}

/// The same when the debugger is open.
fn debugged() -> Run {
    let mut run = crashed();
    let opened = told(&mut run, Input::Terminal { is_ours: true });
    assert!(matches!(opened[..], [Output::OpenDebugger(_)]));
    run
}

#[test]
fn a_debugger_that_waits_for_the_terminal_says_so_once_and_opens_when_it_is_ours() {
    let mut run = crashed();
    let waits = Output::Print("it waits for the foreground (fg)".into());
    assert_eq!(told(&mut run, Input::Terminal { is_ours: false }), [waits]);
    assert_eq!(told(&mut run, Input::Terminal { is_ours: false }), []);
    let ranks = RankSet::below(1);
    assert_eq!(told(&mut run, Input::Terminal { is_ours: true }), [Output::OpenDebugger(ranks)]);
    assert!(!run.wants_terminal());
}

#[test]
fn a_debugger_that_waits_does_not_open_when_the_user_ends_the_job_or_when_it_is_over() {
    let mut run = crashed();
    let ended = told(&mut run, Input::Signal(SIGINT));
    assert_eq!(ended, [Output::Send(JobInput::GoOn), Output::Send(JobInput::Interrupt)]);
    assert_eq!(told(&mut run, Input::Terminal { is_ours: true }), []);
    let mut run = crashed();
    told(&mut run, Input::News(JobNews::Ended { code: 139 }));
    assert!(run.is_over() && !run.wants_terminal());
}

#[test]
fn the_keys_of_an_open_debugger_are_not_the_jobs_and_what_ends_the_job_ends_it() {
    let mut run = debugged();
    for signal in [SIGINT, SIGQUIT, SIGWINCH, SIGCONT] {
        assert_eq!(told(&mut run, Input::Signal(signal)), [], "{signal}");
    }
    assert_eq!(told(&mut run, Input::Resized(80, 24)), []);
    assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), [Output::Stop]);
    let ended = told(&mut run, Input::Signal(SIGTERM));
    let signal = Output::Send(JobInput::Signal { signal: 15 });
    assert_eq!(ended, [Output::EndDebugger, signal]);
    let gone = told(&mut debugged(), Input::TerminalGone);
    assert_eq!(gone, [Output::EndDebugger, Output::Send(JobInput::HangUp)]);
}

#[test]
fn a_debugger_outlives_the_job_and_what_is_typed_is_its_own() {
    let mut run = debugged();
    told(&mut run, Input::News(JobNews::StdinCredit { bytes: 10 }));
    assert_eq!(run.stdin_credit(), 0);
    told(&mut run, Input::News(JobNews::Ended { code: 139 }));
    assert!(!run.is_over());
    assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), [Output::Stop]);
    assert_eq!(told(&mut run, Input::TerminalGone), [Output::EndDebugger]);
    assert_eq!(told(&mut run, Input::DebuggerEnded { was_session: true }), []);
    assert!(run.is_over());
}

#[test]
fn the_keys_are_those_of_the_prompt_where_ranks_are_debuggers() {
    let mut run = Run::new(Settings { beside: Beside::Prompt, ..plain() });
    told(&mut run, started());
    assert_eq!(told(&mut run, Input::Signal(SIGINT)), [Output::Interrupt]);
    assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), [Output::Stop]);
    assert_eq!(told(&mut run, Input::Continued), []);
    assert_eq!(told(&mut run, Input::Signal(SIGCONT)), []);
    let interrupt = || Output::Send(JobInput::Interrupt);
    assert_eq!(told(&mut run, Input::Kill), [interrupt(), interrupt()]);
    let mut survey = Run::new(Settings { beside: Beside::Survey, ..plain() });
    told(&mut survey, started());
    assert_eq!(told(&mut survey, Input::Signal(SIGINT)), [Output::Interrupt, interrupt()]);
    let mut early = Run::new(Settings { beside: Beside::Prompt, ..plain() });
    assert_eq!(told(&mut early, Input::Signal(SIGINT)), [Output::Leave(130)]);
}

#[test]
fn a_stop_that_no_shell_could_end_is_ignored() {
    assert_eq!(told(&mut run(1), Input::StopForever), []);
}

#[test]
fn a_signal_that_was_seen_and_is_still_to_come_is_no_news() {
    let mut run = run(2);
    told(&mut run, Input::SignalSeen(15));
    told(&mut run, failed(RankEnd::Signaled { signal: 15, core: false }));
    let end = Input::News(JobNews::Ended { code: 143 });
    assert_eq!(told(&mut run, end), [Output::Finish(143)]);
}

#[test]
fn no_debugger_opens_where_the_job_is_about_to_end() {
    for end in [Input::Signal(SIGINT), failed(RankEnd::Exited(7))] {
        let mut run = run(2);
        assert_eq!(told(&mut run, held(0)), []);
        assert!(told(&mut run, end).contains(&Output::Send(JobInput::GoOn)));
        assert_eq!(told(&mut run, held(1)), [Output::Send(JobInput::GoOn)]);
    }
}

#[test]
fn debuggers_are_shown_a_failure_that_ends_the_job_at_once() {
    let why = Output::ShowAbort("rank 1: exited with code 7".into());
    assert_eq!(all_of(&mut run(2), failed(RankEnd::Exited(7))), [why]);
    let mut goes_on = begun(Settings { size: 2, goes_on: true, ..plain() });
    let told = all_of(&mut goes_on, failed(RankEnd::Exited(7)));
    assert!(!told.iter().any(|output| matches!(output, Output::ShowAbort(_))), "{told:?}");
}

#[test]
fn a_failure_is_told_with_the_end_of_the_job() {
    let mut run = run(2);
    assert_eq!(told(&mut run, failed(RankEnd::Exited(7))), []);
    assert_eq!(
        told(&mut run, Input::News(JobNews::Ended { code: 7 })),
        [Output::Print("host h1: rank 1: exited with code 7".into()), Output::Finish(7)]
    );
}

#[test]
fn a_failure_is_told_after_a_second_even_if_the_end_does_not_come() {
    let mut run = run(2);
    told(&mut run, failed(RankEnd::Exited(7)));
    run.handle_timeout(Time::ZERO + TELL_AFTER);
    assert!(matches!(run.poll_output(), Some(Output::Print(_))));
    assert_eq!(run.poll_timeout(), None);
}

#[test]
fn what_the_user_did_himself_is_not_told() {
    let mut run = run(2);
    assert_eq!(told(&mut run, Input::Signal(SIGINT)), [Output::Send(JobInput::Interrupt)]);
    told(&mut run, failed(RankEnd::Signaled { signal: 2, core: false }));
    let end = Input::News(JobNews::Ended { code: 130 });
    assert_eq!(told(&mut run, end), [Output::Finish(130)]);
}

#[test]
fn a_minor_notice_is_printed_on_a_terminal_or_with_verbose_only() {
    let prints = |notice: Notice, terminal, verbose| {
        let mut run = Run::new(Settings { size: 2, terminal, verbose, ..plain() });
        told(&mut run, started());
        let outputs = told(&mut run, Input::News(JobNews::Notice(notice)));
        outputs == [Output::Print("a line".into())]
    };
    for (terminal, verbose) in [(false, false), (true, false), (false, true), (true, true)] {
        let minor = prints(Notice::minor("a line".into()), terminal, verbose);
        assert_eq!(minor, terminal || verbose);
        assert!(prints(Notice::major("a line".into()), terminal, verbose));
    }
}

#[test]
fn stop_comes_only_when_the_job_is_suspended_and_our_own_return_is_told_once() {
    let mut run = run(2);
    assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), [Output::Send(JobInput::Suspend)]);
    assert_eq!(told(&mut run, Input::News(JobNews::Suspended)), [Output::Stop]);
    assert_eq!(told(&mut run, Input::Continued), [Output::Send(JobInput::Resume)]);
    assert_eq!(told(&mut run, Input::Signal(SIGCONT)), []);
    let forwarded = Output::Send(JobInput::Signal { signal: 18 });
    assert_eq!(told(&mut run, Input::Signal(SIGCONT)), [forwarded]);
}

#[test]
fn a_hang_up_ends_the_job_only_if_the_terminal_is_gone() {
    let mut run = run(2);
    let forwarded = Output::Send(JobInput::Signal { signal: 1 });
    assert_eq!(told(&mut run, Input::Signal(SIGHUP)), [forwarded]);
    assert_eq!(told(&mut run, Input::TerminalGone), [Output::Send(JobInput::HangUp)]);
}

#[test]
fn a_job_without_auto_cleanup_says_nothing_of_its_ranks_and_all_of_the_rest() {
    let rank = Rank(0);
    let aborted = Failure::Aborted { rank, code: 7, message: String::new() };
    let exited = Failure::Rank { rank, end: RankEnd::Exited(3) };
    let of_ranks = [exited, Failure::NotFinalized { rank }, aborted];
    let lost = Failure::HostLost { host: "h2".into(), problem: "gone".into() };
    let prints = |failure: &Failure, is_silent: bool, verbose: bool| {
        let mut run = Run::new(Settings { size: 2, is_silent, verbose, ..plain() });
        told(&mut run, started());
        let failed = JobNews::Failed { host: "h1".into(), failure: failure.clone() };
        let mut outputs = told(&mut run, Input::News(failed));
        outputs.extend(told(&mut run, Input::News(JobNews::Ended { code: 1 })));
        outputs.iter().any(|output| matches!(output, Output::Print(_)))
    };
    for failure in &of_ranks {
        assert!(!prints(failure, true, false), "{failure}");
        assert!(prints(failure, true, true), "{failure}");
        assert!(prints(failure, false, false), "{failure}");
    }
    assert!(prints(&lost, true, false));
}

#[test]
fn what_the_terminal_sends_reaches_a_program_without_us() {
    let settings = Settings { adopted: true, ..plain() };
    let mut run = Run::new(settings);
    assert_eq!(told(&mut run, Input::Signal(SIGINT)), []);
    assert_eq!(told(&mut run, started()), []);
    for input in [Input::Signal(SIGQUIT), Input::Signal(SIGWINCH), Input::TerminalGone] {
        assert_eq!(told(&mut run, input), []);
    }
    let ended = Output::Send(JobInput::Signal { signal: 15 });
    assert_eq!(told(&mut run, Input::Signal(SIGTERM)), [ended]);
    // What it has spawned stops with it, and we do not.
    let suspend = Output::Send(JobInput::Suspend);
    assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), [suspend]);
    assert_eq!(told(&mut run, Input::News(JobNews::Suspended)), []);
    let resume = Output::Send(JobInput::Resume);
    assert_eq!(told(&mut run, Input::Signal(SIGCONT)), [resume]);
    // It died of what its user did.
    let failure = Failure::NotFinalized { rank: Rank(0) };
    told(&mut run, Input::News(JobNews::Failed { host: "h1".into(), failure }));
    let end = Input::News(JobNews::Ended { code: 1 });
    assert_eq!(told(&mut run, end), [Output::Finish(1)]);
}

#[test]
fn ends_of_several_hosts_are_in_rank_order() {
    let mut run = run(4);
    let ends = |host: &str, ranks: [u32; 2]| {
        let ends = ranks.map(|rank| (100 + rank, RankEnd::Exited(0))).to_vec();
        let ranks = RankSet::from_iter(ranks.map(Rank));
        Input::News(JobNews::Ends { host: host.into(), world: None, ranks, ends })
    };
    told(&mut run, ends("h1", [0, 3]));
    told(&mut run, ends("h2", [1, 2]));
    told(&mut run, Input::News(JobNews::Ended { code: 0 }));
    let ended = |ended: &Ended| (ended.rank.0, ended.host.clone(), ended.pid);
    let ended: Vec<_> = run.ends().first().iter().map(ended).collect();
    let expected = [(0, "h1"), (1, "h2"), (2, "h2"), (3, "h1")];
    assert_eq!(ended, expected.map(|(rank, host)| (rank, host.to_owned(), 100 + rank)));
}

#[test]
fn a_job_whose_input_was_cut_off_has_failed_even_if_its_ranks_have_not() {
    for (code, own) in [(0, exit::SUITE), (3, 3)] {
        let mut run = run(1);
        let lost = || Input::StdinLost("Is a directory".into());
        let text = "cannot read standard input: Is a directory";
        assert_eq!(told(&mut run, lost()), [Output::Print(text.into())]);
        assert_eq!(told(&mut run, lost()), [], "once is enough");
        let end = Input::News(JobNews::Ended { code });
        assert_eq!(told(&mut run, end), [Output::Finish(own)]);
        assert!(run.was_cut_short());
    }
}

#[test]
fn a_connection_that_closes_before_the_end_is_a_failure_of_the_suite() {
    let mut run = run(1);
    let outputs = told(&mut run, Input::Closed);
    assert_eq!(outputs.last(), Some(&Output::Finish(exit::SUITE)));
}

/// Before anything was heard.
fn submitted() -> Run {
    Run::new(Settings { size: 2, ..plain() })
}

#[test]
fn a_job_that_was_not_told_to_start_is_submitted_once_more_and_not_twice() {
    let mut run = submitted();
    let notice = Input::News(JobNews::Notice(Notice::major("a host was drained".to_owned())));
    assert_eq!(told(&mut run, notice).len(), 1);
    assert_eq!(told(&mut run, Input::News(JobNews::StdinUnwanted)), []);
    assert_eq!(told(&mut run, Input::Closed), [Output::Resubmit]);
    let outputs = told(&mut run, Input::Closed);
    assert_eq!(outputs.last(), Some(&Output::Finish(exit::SUITE)));
    assert!(matches!(&outputs[0], Output::Print(text) if text.contains("no rank has run")));
}

#[test]
fn a_job_that_was_submitted_again_starts_and_ends_like_any_other() {
    let mut run = submitted();
    assert_eq!(told(&mut run, Input::Signal(SIGWINCH)), []);
    assert_eq!(told(&mut run, Input::Closed), [Output::Resubmit]);
    let forwarded = Output::Send(JobInput::Signal { signal: 28 });
    assert_eq!(told(&mut run, started()), [forwarded]);
    assert_eq!(told(&mut run, Input::News(JobNews::Ended { code: 0 })), [Output::Finish(0)]);
}

#[test]
fn a_job_that_has_started_or_failed_or_was_not_understood_is_never_submitted_again() {
    let failed = || failed(RankEnd::NotStarted);
    for last in [started(), failed(), Input::Garbled, Input::Signal(SIGINT)] {
        let mut run = submitted();
        let mut outputs = all_of(&mut run, last);
        outputs.extend(all_of(&mut run, Input::Closed));
        assert!(!outputs.contains(&Output::Resubmit), "{outputs:?}");
    }
}
