//! The state machine of the console, step by step.

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
    assert_eq!(reported(&mut run, started()), []);
    run
}

fn started() -> Input {
    let job = JobId::new(1, "h1").unwrap();
    Input::News(JobNews::Started { job, host: "h1".into(), manager: 70 })
}

/// A job of one rank without options.
const fn plain() -> Settings {
    Settings {
        size: 1,
        limit: None,
        continues_on_failure: false,
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
fn the_last_terminal_size_before_the_start_is_sent() {
    let mut run = Run::new(plain());
    assert_eq!(reported(&mut run, Input::Resized(80, 24)), []);
    assert_eq!(reported(&mut run, Input::Resized(90, 25)), []);
    let resize = |columns, lines| Output::Send(JobInput::Resize { columns, lines });
    assert_eq!(reported(&mut run, started()), [resize(90, 25)]);
    assert_eq!(reported(&mut run, Input::Resized(91, 26)), [resize(91, 26)]);
}

#[test]
fn before_the_start_an_ending_signal_exits_and_other_requests_wait() {
    let mut run = Run::new(plain());
    assert_eq!(reported(&mut run, Input::Signal(SIGTSTP)), []);
    assert_eq!(reported(&mut run, started()), [Output::Send(JobInput::Suspend)]);
    let mut run = Run::new(plain());
    assert_eq!(reported(&mut run, Input::Signal(SIGTERM)), [Output::Leave(143)]);
}

fn all_of(run: &mut Run, input: Input) -> Vec<Output> {
    run.handle(Time::ZERO, input);
    std::iter::from_fn(|| run.poll_output()).collect()
}

/// The outputs without those for tools, and the requests that wait for the start.
fn reported(run: &mut Run, input: Input) -> Vec<Output> {
    let outputs = all_of(run, input);
    let is_for_others = |output: &Output| matches!(output, Output::ShowAbort(_) | Output::Started);
    outputs.into_iter().filter(|output| !is_for_others(output)).collect()
}

fn failed(end: RankEnd) -> Input {
    let failure = Failure::Rank { rank: Rank(1), end };
    Input::News(JobNews::Failed { host: "h1".into(), failure })
}

#[test]
fn a_held_job_continues_after_all_its_processes_were_published() {
    let mut run = begun(Settings { size: 2, hold: true, ..plain() });
    let reported_of = |rank: u32| {
        let host = mpd_wire::DaemonName::new("h1").unwrap();
        let ranks = [Rank(rank)].into_iter().collect();
        Input::News(JobNews::Processes { host, ranks, pids: vec![100 + rank] })
    };
    assert_eq!(reported(&mut run, reported_of(1)), []);
    let shown = [Output::ShowProcesses, Output::Send(JobInput::GoOn)];
    assert_eq!(reported(&mut run, reported_of(0)), shown);
    assert_eq!(reported(&mut run, reported_of(0)), []);
}

/// When the manager of a silent job is looked at.
fn look() -> Time {
    Time::ZERO + std::time::Duration::from_secs(5)
}

fn held(rank: u32) -> Input {
    let crash = mpd_wire::job::Crash::held(11);
    Input::News(JobNews::Crashed { rank: Rank(rank), crash })
}

#[test]
fn the_debugger_opens_at_crashed_ranks_and_held_processes_are_released_at_its_end() {
    let mut run = run(1);
    assert_eq!(reported(&mut run, held(0)), []);
    assert_eq!(run.poll_timeout(), Some(look()), "the ring does not know the rank yet");
    let host = mpd_wire::DaemonName::new("h1").unwrap();
    let ranks = RankSet::below(1);
    let processes = JobNews::Processes { host, ranks: ranks.clone(), pids: vec![7] };
    reported(&mut run, Input::News(processes));
    run.handle_timeout(run.poll_timeout().unwrap());
    let text =
        "rank 0 of host h1: SIGSEGV; the debugger opens there, the job ends when you quit it (q)";
    assert_eq!(run.poll_output(), Some(Output::Print(text.into())));
    assert_eq!(run.poll_output(), Some(Output::WantTerminal));
    assert_eq!(
        reported(&mut run, Input::Terminal { is_ours: true }),
        [Output::OpenDebugger(ranks)]
    );
    assert_eq!(reported(&mut run, Input::Signal(SIGTSTP)), [Output::Stop], "the job does not stop");
    assert_eq!(reported(&mut run, Input::Signal(SIGCONT)), []);
    assert_eq!(reported(&mut run, Input::Continued), [], "as the job was not stopped");
    let ended = Input::DebuggerEnded { was_session: true };
    assert_eq!(reported(&mut run, ended), [Output::Send(JobInput::GoOn)]);
}

/// A job of one rank whose crash has just called for the debugger.
fn crashed() -> Run {
    let mut run = run(1);
    let host = mpd_wire::DaemonName::new("h1").unwrap();
    let processes = JobNews::Processes { host, ranks: RankSet::below(1), pids: vec![7] };
    reported(&mut run, Input::News(processes));
    reported(&mut run, held(0));
    run.handle_timeout(run.poll_timeout().unwrap());
    while run.poll_output().is_some() {}
    assert!(run.wants_terminal());
    run
}

/// The same job with an open debugger.
fn debugged() -> Run {
    let mut run = crashed();
    let opened = reported(&mut run, Input::Terminal { is_ours: true });
    assert!(matches!(opened[..], [Output::OpenDebugger(_)]));
    run
}

#[test]
fn a_waiting_debugger_is_reported_once_and_opens_when_mpirun_has_the_terminal() {
    let mut run = crashed();
    let waits = Output::Print("it waits for the foreground (fg)".into());
    assert_eq!(reported(&mut run, Input::Terminal { is_ours: false }), [waits]);
    assert_eq!(reported(&mut run, Input::Terminal { is_ours: false }), []);
    let ranks = RankSet::below(1);
    assert_eq!(
        reported(&mut run, Input::Terminal { is_ours: true }),
        [Output::OpenDebugger(ranks)]
    );
    assert!(!run.wants_terminal());
}

#[test]
fn a_waiting_debugger_does_not_open_when_the_user_ends_the_job_or_the_job_is_over() {
    let mut run = crashed();
    let ended = reported(&mut run, Input::Signal(SIGINT));
    assert_eq!(ended, [Output::Send(JobInput::GoOn), Output::Send(JobInput::Interrupt)]);
    assert_eq!(reported(&mut run, Input::Terminal { is_ours: true }), []);
    let mut run = crashed();
    reported(&mut run, Input::News(JobNews::Ended { code: 139 }));
    assert!(run.is_over() && !run.wants_terminal());
}

#[test]
fn keys_go_to_an_open_debugger_and_a_signal_that_ends_the_job_ends_it() {
    let mut run = debugged();
    for signal in [SIGINT, SIGQUIT, SIGWINCH, SIGCONT] {
        assert_eq!(reported(&mut run, Input::Signal(signal)), [], "{signal}");
    }
    assert_eq!(reported(&mut run, Input::Resized(80, 24)), []);
    assert_eq!(reported(&mut run, Input::Signal(SIGTSTP)), [Output::Stop]);
    let ended = reported(&mut run, Input::Signal(SIGTERM));
    let signal = Output::Send(JobInput::Signal { signal: 15 });
    assert_eq!(ended, [Output::EndDebugger, signal]);
    let gone = reported(&mut debugged(), Input::TerminalGone);
    assert_eq!(gone, [Output::EndDebugger, Output::Send(JobInput::HangUp)]);
}

#[test]
fn a_debugger_may_outlive_the_job_and_receives_the_input() {
    let mut run = debugged();
    reported(&mut run, Input::News(JobNews::StdinCredit { bytes: 10 }));
    assert_eq!(run.stdin_credit(), 0);
    reported(&mut run, Input::News(JobNews::Ended { code: 139 }));
    assert!(!run.is_over());
    assert_eq!(reported(&mut run, Input::Signal(SIGTSTP)), [Output::Stop]);
    assert_eq!(reported(&mut run, Input::TerminalGone), [Output::EndDebugger]);
    assert_eq!(reported(&mut run, Input::DebuggerEnded { was_session: true }), []);
    assert!(run.is_over());
}

#[test]
fn keys_go_to_the_prompt_if_ranks_are_debuggers() {
    let mut run = Run::new(Settings { beside: Beside::Prompt, ..plain() });
    reported(&mut run, started());
    assert_eq!(reported(&mut run, Input::Signal(SIGINT)), [Output::Interrupt]);
    assert_eq!(reported(&mut run, Input::Signal(SIGTSTP)), [Output::Stop]);
    assert_eq!(reported(&mut run, Input::Continued), []);
    assert_eq!(reported(&mut run, Input::Signal(SIGCONT)), []);
    let interrupt = || Output::Send(JobInput::Interrupt);
    let echo = Output::Send(JobInput::Echo);
    assert_eq!(reported(&mut run, Input::Kill), [interrupt(), interrupt(), echo]);
    let mut survey = Run::new(Settings { beside: Beside::Survey, ..plain() });
    reported(&mut survey, started());
    assert_eq!(reported(&mut survey, Input::Signal(SIGINT)), [Output::Interrupt, interrupt()]);
    let mut early = Run::new(Settings { beside: Beside::Prompt, ..plain() });
    assert_eq!(reported(&mut early, Input::Signal(SIGINT)), [Output::Leave(130)]);
}

#[test]
fn a_stop_is_ignored_if_no_shell_could_end_it() {
    assert_eq!(reported(&mut run(1), Input::StopForever), []);
}

#[test]
fn the_effect_of_a_signal_that_was_seen_is_not_reported() {
    let mut run = run(2);
    reported(&mut run, Input::SignalSeen(15));
    reported(&mut run, failed(RankEnd::Signaled { signal: 15, core: false }));
    let end = Input::News(JobNews::Ended { code: 143 });
    assert_eq!(reported(&mut run, end), [Output::Finish(143)]);
}

#[test]
fn no_debugger_opens_when_the_job_is_about_to_end() {
    for end in [Input::Signal(SIGINT), failed(RankEnd::Exited(7))] {
        let mut run = run(2);
        assert_eq!(reported(&mut run, held(0)), []);
        assert!(reported(&mut run, end).contains(&Output::Send(JobInput::GoOn)));
        assert_eq!(reported(&mut run, held(1)), [Output::Send(JobInput::GoOn)]);
    }
}

#[test]
fn a_failure_that_ends_the_job_is_published_to_debuggers_at_once() {
    let why = Output::ShowAbort("rank 1: exited with code 7".into());
    assert_eq!(all_of(&mut run(2), failed(RankEnd::Exited(7))), [why]);
    let mut continues_on_failure =
        begun(Settings { size: 2, continues_on_failure: true, ..plain() });
    let reported = all_of(&mut continues_on_failure, failed(RankEnd::Exited(7)));
    assert!(!reported.iter().any(|output| matches!(output, Output::ShowAbort(_))), "{reported:?}");
}

#[test]
fn a_failure_is_reported_with_the_end_of_the_job() {
    let mut run = run(2);
    assert_eq!(reported(&mut run, failed(RankEnd::Exited(7))), []);
    assert_eq!(
        reported(&mut run, Input::News(JobNews::Ended { code: 7 })),
        [Output::Print("host h1: rank 1: exited with code 7".into()), Output::Finish(7)]
    );
}

#[test]
fn a_failure_is_reported_after_a_second_even_without_the_end_of_the_job() {
    let mut run = run(2);
    reported(&mut run, failed(RankEnd::Exited(7)));
    run.handle_timeout(Time::ZERO + REPORT_AFTER);
    assert!(matches!(run.poll_output(), Some(Output::Print(_))));
    assert_eq!(run.poll_timeout(), Some(look()));
}

#[test]
fn the_effect_of_the_users_own_signals_is_not_reported() {
    let mut run = run(2);
    assert_eq!(reported(&mut run, Input::Signal(SIGINT)), [Output::Send(JobInput::Interrupt)]);
    reported(&mut run, failed(RankEnd::Signaled { signal: 2, core: false }));
    let end = Input::News(JobNews::Ended { code: 130 });
    assert_eq!(reported(&mut run, end), [Output::Finish(130)]);
}

#[test]
fn a_minor_notice_is_printed_on_a_terminal_or_with_verbose_only() {
    let prints = |notice: Notice, terminal, verbose| {
        let mut run = Run::new(Settings { size: 2, terminal, verbose, ..plain() });
        reported(&mut run, started());
        let outputs = reported(&mut run, Input::News(JobNews::Notice(notice)));
        outputs == [Output::Print("a line".into())]
    };
    for (terminal, verbose) in [(false, false), (true, false), (false, true), (true, true)] {
        let minor = prints(Notice::minor("a line".into()), terminal, verbose);
        assert_eq!(minor, terminal || verbose);
        assert!(prints(Notice::major("a line".into()), terminal, verbose));
    }
}

#[test]
fn this_process_stops_only_after_the_job_and_its_return_is_reported_once() {
    let mut run = run(2);
    assert_eq!(reported(&mut run, Input::Signal(SIGTSTP)), [Output::Send(JobInput::Suspend)]);
    assert_eq!(reported(&mut run, Input::News(JobNews::Suspended)), [Output::Stop]);
    assert_eq!(reported(&mut run, Input::Continued), [Output::Send(JobInput::Resume)]);
    assert_eq!(reported(&mut run, Input::Signal(SIGCONT)), []);
    let forwarded = Output::Send(JobInput::Signal { signal: 18 });
    assert_eq!(reported(&mut run, Input::Signal(SIGCONT)), [forwarded]);
}

#[test]
fn a_hang_up_ends_the_job_only_if_the_terminal_is_gone() {
    let mut run = run(2);
    let forwarded = Output::Send(JobInput::Signal { signal: 1 });
    assert_eq!(reported(&mut run, Input::Signal(SIGHUP)), [forwarded]);
    let asked = [JobInput::HangUp, JobInput::Echo].map(Output::Send);
    assert_eq!(reported(&mut run, Input::TerminalGone), asked);
}

#[test]
fn a_job_without_auto_cleanup_reports_all_failures_except_those_of_ranks() {
    let rank = Rank(0);
    let aborted = Failure::Aborted { rank, code: 7, message: String::new() };
    let exited = Failure::Rank { rank, end: RankEnd::Exited(3) };
    let of_ranks = [exited, Failure::NotFinalized { rank }, aborted];
    let lost = Failure::HostLost { host: "h2".into(), problem: "gone".into() };
    let prints = |failure: &Failure, is_silent: bool, verbose: bool| {
        let mut run = Run::new(Settings { size: 2, is_silent, verbose, ..plain() });
        reported(&mut run, started());
        let failed = JobNews::Failed { host: "h1".into(), failure: failure.clone() };
        let mut outputs = reported(&mut run, Input::News(failed));
        outputs.extend(reported(&mut run, Input::News(JobNews::Ended { code: 1 })));
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
fn signals_of_the_terminal_reach_an_adopted_program_directly() {
    let settings = Settings { adopted: true, ..plain() };
    let mut run = Run::new(settings);
    assert_eq!(reported(&mut run, Input::Signal(SIGINT)), []);
    assert_eq!(reported(&mut run, started()), []);
    for input in [Input::Signal(SIGQUIT), Input::Signal(SIGWINCH), Input::TerminalGone] {
        assert_eq!(reported(&mut run, input), []);
    }
    let ended = Output::Send(JobInput::Signal { signal: 15 });
    assert_eq!(reported(&mut run, Input::Signal(SIGTERM)), [ended]);
    // The program's spawned ranks stop with it, and mpirun does not.
    let suspend = Output::Send(JobInput::Suspend);
    assert_eq!(reported(&mut run, Input::Signal(SIGTSTP)), [suspend]);
    assert_eq!(reported(&mut run, Input::News(JobNews::Suspended)), []);
    let resume = Output::Send(JobInput::Resume);
    assert_eq!(reported(&mut run, Input::Signal(SIGCONT)), [resume]);
    // The program died of a signal from its user.
    let failure = Failure::NotFinalized { rank: Rank(0) };
    reported(&mut run, Input::News(JobNews::Failed { host: "h1".into(), failure }));
    let end = Input::News(JobNews::Ended { code: 1 });
    assert_eq!(reported(&mut run, end), [Output::Finish(1)]);
}

#[test]
fn ends_of_several_hosts_are_in_rank_order() {
    let mut run = run(4);
    let ends = |host: &str, ranks: [u32; 2]| {
        let ends = ranks.map(|rank| (100 + rank, RankEnd::Exited(0))).to_vec();
        let ranks = RankSet::from_iter(ranks.map(Rank));
        Input::News(JobNews::Ends { host: host.into(), world: None, ranks, ends })
    };
    reported(&mut run, ends("h1", [0, 3]));
    reported(&mut run, ends("h2", [1, 2]));
    reported(&mut run, Input::News(JobNews::Ended { code: 0 }));
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
        assert_eq!(reported(&mut run, lost()), [Output::Print(text.into())]);
        assert_eq!(reported(&mut run, lost()), [], "the line is printed once");
        let end = Input::News(JobNews::Ended { code });
        assert_eq!(reported(&mut run, end), [Output::Finish(own)]);
        assert!(run.was_cut_short());
    }
}

#[test]
fn a_connection_that_closes_before_the_end_is_a_failure_of_the_suite() {
    let mut run = run(1);
    let outputs = reported(&mut run, Input::Closed);
    assert_eq!(outputs.last(), Some(&Output::Finish(exit::SUITE)));
}

/// A job without any message yet.
fn submitted() -> Run {
    Run::new(Settings { size: 2, ..plain() })
}

#[test]
fn a_job_that_did_not_start_is_submitted_once_more_and_not_twice() {
    let mut run = submitted();
    let notice = Input::News(JobNews::Notice(Notice::major("a host was drained".to_owned())));
    assert_eq!(reported(&mut run, notice).len(), 1);
    assert_eq!(reported(&mut run, Input::News(JobNews::StdinUnwanted)), []);
    assert_eq!(reported(&mut run, Input::Closed), [Output::Resubmit]);
    let outputs = reported(&mut run, Input::Closed);
    assert_eq!(outputs.last(), Some(&Output::Finish(exit::SUITE)));
    assert!(matches!(&outputs[0], Output::Print(text) if text.contains("no rank has run")));
}

#[test]
fn a_resubmitted_job_starts_and_ends_like_any_other() {
    let mut run = submitted();
    assert_eq!(reported(&mut run, Input::Signal(SIGWINCH)), []);
    assert_eq!(reported(&mut run, Input::Closed), [Output::Resubmit]);
    let forwarded = Output::Send(JobInput::Signal { signal: 28 });
    assert_eq!(reported(&mut run, started()), [forwarded]);
    assert_eq!(reported(&mut run, Input::News(JobNews::Ended { code: 0 })), [Output::Finish(0)]);
}

#[test]
fn a_job_that_started_or_failed_or_sent_garbage_is_never_resubmitted() {
    let failed = || failed(RankEnd::NotStarted);
    for last in [started(), failed(), Input::Garbled, Input::Signal(SIGINT)] {
        let mut run = submitted();
        let mut outputs = all_of(&mut run, last);
        outputs.extend(all_of(&mut run, Input::Closed));
        assert!(!outputs.contains(&Output::Resubmit), "{outputs:?}");
    }
}

#[test]
fn programs_on_their_way_are_shown_until_all_is_sent() {
    let mut run = Run::new(plain());
    let mut shown = |sent, bytes, done| {
        let news = JobNews::Staging { sent, bytes, done, hosts: 2 };
        match reported(&mut run, Input::News(news)).as_slice() {
            [Output::Progress(text)] => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    let text = "sends the programs: 1 of 3 KiB, 0 of 2 hosts have them";
    assert_eq!(shown(1500, 2500, 0).as_deref(), Some(text));
    let text = "sends the programs: 7 of 21 MiB, 1 of 2 hosts have them";
    assert_eq!(shown(8_000_000, 21 << 20, 1).as_deref(), Some(text));
    assert_eq!(shown(21 << 20, 21 << 20, 2), None);
}
