use proptest::prelude::*;

use super::*;
use mpd_wire::message::EXEC;

const NOW: Time = Time::ZERO;
const SIGINT: i32 = 2;
const SIGSEGV: i32 = 11;

fn shim(terminal: bool, tracing: Option<Tracing>) -> Shim {
    Shim::new(Abilities { terminal, tracing, gdb: false })
}

fn debugging() -> Shim {
    Shim::new(Abilities { gdb: true, ..Abilities::default() })
}

fn handle(shim: &mut Shim, input: Input) -> Vec<Output> {
    shim.handle(NOW, input);
    std::iter::from_fn(|| shim.poll_output()).collect()
}

fn started(terminal: bool, tracing: Option<Tracing>) -> Shim {
    let mut shim = shim(terminal, tracing);
    assert_eq!(handle(&mut shim, Input::Connected), [Output::Start]);
    let report = Output::Report(ShimReport::Started { pid: 7 });
    assert_eq!(handle(&mut shim, Input::Started(7)), [report]);
    shim
}

fn crashed(pid: u32) -> Input {
    Input::Crashed { pid, tid: pid + 1, signal: SIGSEGV }
}

fn ended(end: ProgramEnd) -> [Output; 2] {
    [Output::Report(ShimReport::Ended(end.clone())), Output::Exit(end)]
}

fn order(order: ShimOrder) -> Input {
    Input::Order(order)
}

#[test]
fn signals_before_the_start_reach_the_program_after_it() {
    let mut shim = shim(true, None);
    assert!(handle(&mut shim, Input::Signal(SIGINT)).is_empty());
    assert_eq!(handle(&mut shim, Input::Connected), [Output::Start]);
    assert!(handle(&mut shim, order(ShimOrder::Signal { signal: SIGTERM })).is_empty());
    assert!(handle(&mut shim, Input::Signal(SIGINT)).is_empty());
    let outputs = handle(&mut shim, Input::Started(7));
    assert_eq!(outputs[1..], [Output::Signal(SIGINT), Output::Signal(SIGTERM)]);
}

#[test]
fn a_program_that_does_not_start_gives_its_step_and_error() {
    for terminal in [false, true] {
        let mut shim = shim(terminal, Some(Tracing::Stacks));
        handle(&mut shim, Input::Connected);
        let end = ProgramEnd::NotStarted { step: EXEC.to_owned(), errno: 8 };
        assert_eq!(handle(&mut shim, Input::NotStarted(EXEC, 8)), ended(end));
    }
}

#[test]
fn a_terminal_is_drained_before_the_end() {
    let mut shim = started(true, None);
    let end = ProgramEnd::Exited(3);
    assert_eq!(handle(&mut shim, Input::Ended(end.clone())), [Output::Drain]);
    assert_eq!(handle(&mut shim, Input::Drained), ended(end));
}

#[test]
fn a_lost_reader_ends_the_shim_as_sigpipe_would() {
    let mut shim = started(true, None);
    handle(&mut shim, Input::OutputLost);
    handle(&mut shim, Input::Ended(ProgramEnd::Exited(0)));
    let end = ProgramEnd::Killed { signal: SIGPIPE, core: false };
    assert_eq!(handle(&mut shim, Input::Drained), ended(end));
}

#[test]
fn a_new_size_goes_to_the_terminal_and_its_signal_is_not_sent_twice() {
    let mut shim = started(true, None);
    assert_eq!(handle(&mut shim, Input::Signal(SIGWINCH)), [Output::Signal(SIGWINCH)]);
    let size = ShimOrder::Resize { columns: 100, lines: 30 };
    assert_eq!(handle(&mut shim, order(size)), [Output::Resize(100, 30)]);
    assert_eq!(handle(&mut shim, Input::Signal(SIGWINCH)), [Output::Resize(100, 30)]);
    let mut plain = started(false, Some(Tracing::Stacks));
    assert!(handle(&mut plain, order(ShimOrder::Resize { columns: 1, lines: 1 })).is_empty());
    assert_eq!(handle(&mut plain, Input::Signal(SIGWINCH)), [Output::Signal(SIGWINCH)]);
}

#[test]
fn gdb_reads_the_stacks_of_one_process_after_the_other() {
    let mut shim = started(false, Some(Tracing::Stacks));
    assert_eq!(handle(&mut shim, crashed(20)), [Output::Attach(20)]);
    assert!(handle(&mut shim, crashed(30)).is_empty());
    let mark = |serial| Input::Marked { after: 0, serial, state: b"stopped".to_vec() };
    let command = |text: &str| [Output::Command(text.as_bytes().to_vec())];
    assert_eq!(handle(&mut shim, mark(0)), command("1 stacks 21\n"));
    handle(&mut shim, Input::DebuggerLine(b"#main at a.c:1".to_vec()));
    assert_eq!(handle(&mut shim, mark(1)), command("2 quit\n"));
    // The program ends while gdb still looks at its other process.
    assert!(handle(&mut shim, Input::Ended(ProgramEnd::Exited(0))).is_empty());
    let outputs = handle(&mut shim, Input::GdbEnded);
    let stacks = vec!["main at a.c:1".to_owned()];
    let crash = Crash { signal: 11, stacks, problem: None, held: false };
    let expected = [
        Output::LetDie(20, SIGSEGV),
        Output::Attach(30),
        Output::Report(ShimReport::Crashed(crash)),
    ];
    assert_eq!(outputs, expected);
    handle(&mut shim, Input::DebuggerLine(b"!cannot attach".to_vec()));
    let outputs = handle(&mut shim, Input::GdbEnded);
    assert_eq!(outputs[0], Output::LetDie(30, SIGSEGV));
    assert_eq!(outputs[2..], ended(ProgramEnd::Exited(0)));
}

#[test]
fn a_gdb_that_does_not_answer_is_killed_and_the_crash_is_reported() {
    let mut shim = started(false, Some(Tracing::Stacks));
    handle(&mut shim, crashed(20));
    let until = shim.poll_timeout().unwrap();
    assert_eq!(until, NOW + LOOK_WITHIN);
    shim.handle_timeout(until);
    assert_eq!(shim.poll_output(), Some(Output::KillGdb));
    assert_eq!(shim.poll_timeout(), None);
    let outputs = handle(&mut shim, Input::GdbEnded);
    let Output::Report(ShimReport::Crashed(crash)) = &outputs[1] else { panic!("{outputs:?}") };
    assert!(crash.problem.is_some() && !crash.held);
}

#[test]
fn only_the_held_processes_that_the_manager_knows_continue() {
    let mut shim = started(true, Some(Tracing::Hold));
    for pid in [20, 30] {
        let report = Output::Report(ShimReport::Crashed(Crash::held(11)));
        assert_eq!(handle(&mut shim, crashed(pid)), [report]);
    }
    let go_on = |crashes| order(ShimOrder::Continue { crashes });
    assert_eq!(handle(&mut shim, go_on(1)), [Output::LetDie(20, SIGSEGV)]);
    assert!(handle(&mut shim, go_on(1)).is_empty());
    assert_eq!(handle(&mut shim, go_on(2)), [Output::LetDie(30, SIGSEGV)]);
}

#[test]
fn without_a_manager_nothing_is_held() {
    let mut shim = started(false, Some(Tracing::Hold));
    handle(&mut shim, crashed(20));
    assert_eq!(handle(&mut shim, Input::ManagerGone), [Output::LetDie(20, SIGSEGV)]);
    assert_eq!(handle(&mut shim, crashed(30)), [Output::LetDie(30, SIGSEGV)]);
}

#[test]
fn no_more_crashed_processes_wait_than_the_bound() {
    let mut shim = started(false, Some(Tracing::Hold));
    for pid in 0..u32::try_from(MAX_QUEUED).unwrap() {
        assert_eq!(handle(&mut shim, crashed(pid)).len(), 1);
    }
    assert_eq!(handle(&mut shim, crashed(1000)), [Output::LetDie(1000, SIGSEGV)]);
}

#[test]
fn commands_and_connections_go_to_gdb_and_credit_comes_back() {
    let mut shim = debugging();
    assert_eq!(handle(&mut shim, Input::Connected), [Output::PassConnection]);
    let piece = |piece: &str, last| order(ShimOrder::Command { piece: piece.to_owned(), last });
    let credit = |more| Output::Report(ShimReport::Commands { more });
    let outputs = handle(&mut shim, piece("1 cli print", false));
    assert_eq!(outputs, [Output::Command(b"1 cli print".to_vec()), credit(11)]);
    let outputs = handle(&mut shim, piece(" 1\n2", true));
    assert_eq!(outputs, [Output::Command(b" 12\n".to_vec()), credit(4)]);
    assert_eq!(handle(&mut shim, Input::Connected), [Output::PassConnection]);
}

#[test]
fn under_gdb_sigterm_quits_and_other_signals_are_the_programs() {
    let mut shim = debugging();
    assert_eq!(handle(&mut shim, Input::Signal(SIGINT)), [Output::SignalDebugged(SIGINT)]);
    assert!(handle(&mut shim, order(ShimOrder::Signal { signal: SIGTSTP })).is_empty());
    for quit in [Input::Signal(SIGTERM), Input::ManagerGone, order(ShimOrder::Quit)] {
        assert_eq!(handle(&mut shim, quit), [Output::QuitGdb]);
    }
    assert_eq!(handle(&mut shim, Input::GdbEnded), ended(ProgramEnd::Exited(0)));
}

#[test]
fn a_mark_without_credit_holds_back_the_output_after_it() {
    let mut shim = debugging();
    let mark = |at| Input::Marked { after: at, serial: 1, state: b"idle".to_vec() };
    for at in 0..u64::from(MARK_CREDIT) {
        assert_eq!(handle(&mut shim, mark(at)).len(), 1);
        assert_eq!(shim.output_limit(), u64::MAX);
    }
    assert!(handle(&mut shim, mark(500)).is_empty() && handle(&mut shim, mark(600)).is_empty());
    assert_eq!(shim.output_limit(), 500);
    let outputs = handle(&mut shim, order(ShimOrder::Marks { more: 1 }));
    let text = "1 idle".to_owned();
    assert_eq!(outputs, [Output::Report(ShimReport::Mark { after: 500, text })]);
    assert_eq!(shim.output_limit(), 600);
}

fn any_input() -> impl Strategy<Value = Input> {
    let pid = 10_u32..20;
    prop_oneof![
        Just(Input::Connected),
        Just(Input::ManagerGone),
        Just(Input::GdbEnded),
        Just(Input::Drained),
        Just(Input::OutputLost),
        Just(Input::Started(7)),
        Just(Input::NotStarted(EXEC, 2)),
        Just(Input::Ended(ProgramEnd::Exited(1))),
        (1..32).prop_map(Input::Signal),
        (1..32).prop_map(|signal| order(ShimOrder::Signal { signal })),
        pid.prop_map(crashed),
        (0_u32..4).prop_map(|crashes| order(ShimOrder::Continue { crashes })),
        (0_u32..3).prop_map(|serial| Input::Marked { after: 0, serial, state: vec![] }),
        Just(Input::DebuggerLine(b"#main".to_vec())),
    ]
}

proptest! {
    #[test]
    fn every_crashed_process_dies_once_and_the_end_is_reported_once(
        terminal in any::<bool>(),
        tracing in prop_oneof![Just(Tracing::Stacks), Just(Tracing::Hold)],
        inputs in prop::collection::vec(any_input(), 0..60),
    ) {
        let mut shim = started(terminal, Some(tracing));
        let (mut crashed, mut died, mut ends, mut looks) = (0, 0, 0, 0_i32);
        let rest = [Input::ManagerGone, Input::Ended(ProgramEnd::Exited(1)), Input::Drained];
        let rest = rest.into_iter().chain(std::iter::repeat_n(Input::GdbEnded, 70));
        for input in inputs.into_iter().chain(rest) {
            crashed += i32::from(matches!(input, Input::Crashed { .. }));
            if input == Input::GdbEnded {
                looks = 0;
            }
            for output in handle(&mut shim, input) {
                died += i32::from(matches!(output, Output::LetDie(..)));
                ends += i32::from(matches!(output, Output::Exit(_)));
                looks += i32::from(matches!(output, Output::Attach(_)));
            }
            prop_assert!(looks <= 1, "one gdb at a time");
        }
        prop_assert_eq!((died, ends), (crashed, 1));
    }
}
