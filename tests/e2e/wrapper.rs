//! `pty`, by itself and as `mpirun -pty`.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Instant;

use nix::sys::signal::Signal;

use crate::mpi;
use crate::process::{self, Process};
use crate::pty::{INTERRUPT, SUSPEND, Terminal};
use crate::run::{Run, wait_until};
use crate::suite::Suite;

/// Prints for each standard stream whether it is a terminal.
const STREAMS: &str = "import os; print([os.isatty(n) for n in range(3)])";
const ALL: &str = "[True, True, True]\n";

fn pty<'a>(suite: &Suite, arguments: impl IntoIterator<Item = &'a str>) -> Run {
    suite.command(suite.program("pty")).args(arguments)
}

/// A shell command in `pty`, without input.
fn shell(suite: &Suite, text: &str) -> Run {
    pty(suite, ["sh", "-c", text]).stdin(Stdio::null())
}

/// `count` pseudo-random bytes of all values.
fn bytes(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_be_bytes()[0]
    };
    (0..count).map(next).collect()
}

#[test]
fn pty_ends_with_the_code_or_signal_of_its_program() {
    let suite = Suite::new();
    shell(&suite, "exit 7").output().code(7).quiet();
    for signal in [Signal::SIGSEGV, Signal::SIGTERM, Signal::SIGKILL, Signal::SIGPIPE] {
        let text = format!("ulimit -c unlimited; kill -{} $$", signal as i32);
        let output = shell(&suite, &text).output();
        assert_eq!(output.exit_code(), None, "{signal}: {output}");
        output.ended_by(signal).quiet();
    }
    let realtime = shell(&suite, "kill -40 $$").output();
    assert_eq!(realtime.exit_code(), None, "{realtime}");
    pty(&suite, ["./nowhere"])
        .output()
        .code(127)
        .says(&["pty: cannot run ./nowhere: No such file"]);
    pty(&suite, ["nowhere"]).output().code(127);
    pty(&suite, ["/tmp"]).output().code(126).says(&["/tmp: Permission denied"]);
    suite.gone(&[]);
}

#[test]
fn a_program_in_pty_has_its_controlling_terminal_on_all_three_streams() {
    let suite = Suite::new();
    pty(&suite, ["python3", "-c", STREAMS]).input("").output().code(0).prints(ALL);
    let text = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && : </dev/tty && ps -o pid=,sid=,tpgid= -p $$";
    let output = shell(&suite, text).output();
    let numbers: Vec<String> = output.out().split_whitespace().map(str::to_owned).collect();
    assert_eq!(numbers.len(), 3, "{output}");
    assert_eq!(numbers[0], numbers[1], "the program leads a session");
    assert_eq!(numbers[0], numbers[2], "in the foreground");
    shell(&suite, "stty size").env("COLUMNS", "91").env("LINES", "17").output().prints("17 91\n");
    shell(&suite, "stty size").output().prints("24 80\n");
    suite.gone(&[]);
}

#[test]
fn a_program_in_pty_inherits_further_descriptors() {
    let suite = Suite::new();
    let text = format!(
        "{} sh -c 'cat <&7' 7</etc/passwd </dev/null | cmp - /etc/passwd",
        suite.program("pty")
    );
    suite.bash(&text).output().code(0).quiet();
    suite.gone(&[]);
}

#[test]
fn piped_input_is_not_echoed_and_passes_unchanged_with_its_end() {
    let suite = Suite::new();
    pty(&suite, ["cat"]).input("a\nb\nno end").output().code(0).prints("a\nb\nno end");
    pty(&suite, ["cat"])
        .input("\u{3}\u{4}\r\u{11}\u{16}\u{7f}x\n")
        .output()
        .prints("\u{3}\u{4}\r\u{11}\u{16}\u{7f}x\n");
    pty(&suite, ["sh", "-c", "cat; cat; cat; echo over"]).input("x\n").output().prints("x\nover\n");
    shell(&suite, "cat; echo over").output().prints("over\n");
    let inner = suite.program("pty");
    pty(&suite, [&*inner, &inner, "cat"]).input("in\nside").output().prints("in\nside");
    let line = "x".repeat(300_000);
    pty(&suite, ["sh", "-c", "sleep 0.2; wc -c"]).input(line).output().prints("300000\n");
    suite.gone(&[]);
}

#[test]
fn ten_megabytes_pass_unchanged_both_ways_in_raw_mode() {
    let suite = Suite::new();
    let sent = bytes(10 << 20);
    let text = format!("stty raw -echo; head -c {}", sent.len());
    let output = pty(&suite, ["sh", "-c", &text]).input(sent.clone()).output();
    output.code(0).quiet();
    assert!(output.stdout == sent, "{} bytes of {}", output.stdout.len(), sent.len());
    suite.gone(&[]);
}

#[test]
fn all_output_before_the_exit_of_a_program_arrives() {
    let suite = Suite::new();
    for size in [1_usize, 4095, 4096, 65_536, 300_000] {
        let output = shell(&suite, &format!("head -c {size} /dev/zero")).output();
        assert_eq!(output.stdout.len(), size);
    }
    suite.gone(&[]);
}

#[test]
fn interactive_python_and_a_shell_work_through_a_pipe() {
    let suite = Suite::new();
    let mut running = pty(&suite, ["python3", "-i"]).env("TERM", "dumb").input_pipe().start();
    running.shows(">>> ");
    let mut stdin = running.stdin();
    stdin.write_all(b"6*7\n").expect("a pipe");
    running.shows("42");
    stdin.write_all(b"print('to the', 'end')").expect("a pipe");
    drop(stdin);
    running.shows("to the end");
    running.wait().code(0);
    let text = "sleep 60 & jobs\nkill %1\necho b\"\"ye\n";
    let bash = pty(&suite, ["bash", "--norc", "--noprofile", "-i"]).env("TERM", "dumb").input(text);
    let output = bash.output();
    assert!(output.out().contains("Running") && output.out().contains("bye"), "{output}");
    suite.gone(&[]);
}

#[test]
fn a_grandchild_that_holds_the_terminal_does_not_delay_pty() {
    let suite = Suite::new();
    for stays in ["sleep 60", "yes"] {
        let began = Instant::now();
        let output =
            shell(&suite, &format!("(trap '' HUP; exec {stays}) & echo out; exit 3")).output();
        output.code(3);
        assert!(output.out().contains("out\n"), "{output}");
        assert!(began.elapsed().as_secs() < 20);
        for process in suite.running(stays.split(' ').next().unwrap_or_default()) {
            process::send(process.pid, Signal::SIGKILL);
        }
    }
    suite.gone(&[]);
}

#[test]
fn pty_forwards_signals_to_the_foreground_of_its_terminal() {
    let suite = Suite::new();
    let text =
        "trap 'echo one' USR1; trap 'echo two; exit 5' USR2; echo ready; while :; do read x; done";
    let running = pty(&suite, ["bash", "-c", text]).input_pipe().start();
    running.shows("ready");
    running.send(Signal::SIGUSR1);
    running.shows("one");
    running.send(Signal::SIGUSR2);
    running.wait().code(5);
    for signal in
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGALRM, Signal::SIGXCPU]
    {
        let running = shell(&suite, "echo ready; exec sleep 60").start();
        running.shows("ready");
        running.send(signal);
        running.wait().ended_by(signal);
    }
    let script =
        "trap 'echo forty; exit 5' 40; echo ready; kill -40 $PPID; while :; do read x; done";
    let output = pty(&suite, ["bash", "-c", script]).input_pipe().start();
    output.shows("forty");
    output.wait().code(5);
    let running = shell(&suite, "echo ready; exec sleep 60").start();
    running.shows("ready");
    running.send(Signal::SIGTSTP);
    wait_until("it is stopped", || suite.running("sleep").iter().all(Process::is_stopped));
    running.send(Signal::SIGCONT);
    wait_until("it continues", || !suite.running("sleep").iter().any(Process::is_stopped));
    running.send(Signal::SIGKILL);
    running.wait().ended_by(Signal::SIGKILL);
    suite.gone(&[]);
}

#[test]
fn a_program_in_pty_ends_when_its_reader_closes() {
    let suite = Suite::new();
    let text =
        format!("{} yes </dev/null | head -n 2; echo ${{PIPESTATUS[*]}}", suite.program("pty"));
    suite.bash(&text).output().prints("y\ny\n141 0\n");
    suite.gone(&[]);
}

#[test]
fn keys_at_the_outer_terminal_reach_the_program_in_pty() {
    let suite = Suite::new();
    let mut terminal = Terminal::with_shell(&suite, "");
    let pty = suite.program("pty");
    terminal.enter("stty -g > before");
    terminal.shows_prompt();
    terminal.enter(&format!("PS1='IN''SIDE> ' {pty} bash --norc --noprofile --noediting -i"));
    terminal.shows("INSIDE> ");
    terminal.enter("sleep 60 & jobs; fg");
    terminal.shows("Running");
    terminal.shows("sleep 60\n");
    wait_until("it sleeps", || suite.running("sleep").len() == 1);
    terminal.press(SUSPEND);
    terminal.shows("Stopped");
    terminal.shows("INSIDE> ");
    terminal.enter("fg");
    terminal.shows("sleep 60\n");
    terminal.press(INTERRUPT);
    terminal.shows("INSIDE> ");
    terminal.enter("exit 9");
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 9);
    terminal.enter(&format!("{pty} sh -c 'kill -SEGV $$'"));
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 139);
    terminal.enter("stty -g > after; cmp before after && echo \"un\"changed");
    terminal.shows("unchanged");
    terminal.leave();
    suite.gone(&[]);
}

#[test]
fn pty_passes_size_changes_of_its_terminal() {
    let suite = Suite::new();
    let mut terminal = Terminal::with_shell(&suite, "");
    terminal.resize(101, 31);
    // A shell's trap would not run for a signal that arrives during the trap.
    let script = "import os, signal, sys
def say(*_): print('size', *os.get_terminal_size())
signal.signal(signal.SIGWINCH, say)
say()
while True: signal.pause()
";
    std::fs::write(suite.path("work/watch"), script).expect("a script");
    terminal.enter(&format!("{} python3 watch", suite.program("pty")));
    terminal.shows("size 101 31\n");
    for (columns, lines) in [(77, 13), (200, 60)] {
        terminal.resize(columns, lines);
        terminal.shows(&format!("size {columns} {lines}\n"));
    }
    terminal.press(INTERRUPT);
    terminal.shows_prompt();
    terminal.leave();
    suite.gone(&[]);
}

#[test]
fn a_program_without_a_shell_is_stopped_and_continued_with_pty() {
    let suite = Suite::new();
    let mut terminal = Terminal::with_shell(&suite, "");
    terminal.enter(&format!("{} sleep 60", suite.program("pty")));
    wait_until("it sleeps", || suite.running("sleep").len() == 1);
    for _ in 0..2 {
        terminal.press(SUSPEND);
        terminal.shows("Stopped");
        terminal.shows_prompt();
        assert!(suite.running("sleep").iter().all(Process::is_stopped));
        terminal.enter("stty -a | grep -o ' icanon'");
        terminal.shows(" icanon");
        terminal.shows_prompt();
        terminal.enter("fg");
        wait_until("both continue", || {
            !suite.running("sleep").iter().chain(&suite.running("pty")).any(Process::is_stopped)
        });
    }
    terminal.press(INTERRUPT);
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 130);
    terminal.leave();
    suite.gone(&[]);
}

#[test]
fn a_program_that_stops_itself_stops_pty_until_the_shell_continues_it() {
    let suite = Suite::new();
    let mut terminal = Terminal::with_shell(&suite, "");
    // A program that reads keys, like an editor, and stops itself at any time.
    let script = "import os, signal, termios, tty
before = termios.tcgetattr(0)
for word in ('once', 'again'):
    tty.setraw(0)
    print('editing', word, end='', flush=True)
    os.read(0, 1)
    termios.tcsetattr(0, termios.TCSANOW, before)
    os.kill(0, signal.SIGSTOP)
print('over')
";
    std::fs::write(suite.path("work/edit"), script).expect("a script");
    terminal.enter(&format!("{} python3 edit", suite.program("pty")));
    for word in ["once", "again"] {
        terminal.shows(&format!("editing {word}"));
        terminal.press(SUSPEND);
        terminal.shows("Stopped");
        terminal.shows_prompt();
        assert!(suite.running("python3").iter().all(Process::is_stopped));
        terminal.enter("fg");
    }
    terminal.shows("over\n");
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 0);
    terminal.leave();
    suite.gone(&[]);
}

#[test]
fn closing_the_outer_terminal_hangs_up_the_inner_one() {
    let suite = Suite::new();
    let mut terminal = Terminal::with_shell(&suite, "");
    let script = "trap 'echo hung >up; exit' HUP; while :; do sleep 0.05; done";
    terminal.enter(&format!("{} bash -c \"{script}\"", suite.program("pty")));
    wait_until("it sleeps", || !suite.running("sleep").is_empty());
    terminal.hang_up();
    suite.gone(&[]);
    assert_eq!(
        std::fs::read_to_string(suite.path("work/up")).expect("the file of the trap"),
        "hung\n"
    );
}

#[test]
fn mpirun_pty_runs_each_rank_on_its_own_terminal() {
    let suite = Suite::new();
    suite.start_daemon();
    let streams = ["-n", "3", "-pty", "python3", "-c", STREAMS];
    suite.mpirun(streams).output().code(0).prints(&ALL.repeat(3));
    let name = ["-n", "1", "-pty", "sh", "-c", "echo $0; stty size"];
    suite.mpirun(name).env("COLUMNS", "91").env("LINES", "17").output().prints("sh\n17 91\n");
    let mixed = ["-n", "1", "-pty", "test", "-t", "1", ":", "-n", "1", "test", "!", "-t", "1"];
    suite.mpirun(mixed).output().code(0);
    suite.mpirun(["-gpty", "-n", "2", "sh", "-c", "exit 7"]).output().code(7);
    suite.mpirun(["-pty", "sh", "-c", "kill -SEGV $$"]).output().code(139).says(&["signal 11"]);
    suite.mpirun(["-pty", "nowhere"]).output().code(127).says(&["\"nowhere\"", "search path"]);
    suite.mpirun(["-n", "2", "-pty", "cat"]).input("a\nb").output().code(0).prints("a\nb");
    suite.only_the_daemon_is_left();
}

#[test]
fn ranks_on_terminals_write_line_by_line_and_read_answers() {
    let suite = Suite::new();
    let text = "print('question'); print('got', input())";
    let arguments = ["-n", "4", "-s", "all", "-pty", "python3", "-c", text];
    let mut running = suite.mpirun(arguments).input_pipe().start();
    wait_until("four lines", || running.stdout() == "question\n".repeat(4));
    running.stdin().write_all(b"this\n").expect("a pipe");
    running.wait().code(0);
    suite.gone(&[]);
}

#[test]
fn ranks_get_terminals_without_the_program_pty() {
    let suite = Suite::new();
    for name in ["mpd", "mpirun"] {
        std::fs::copy(suite.program(name), suite.path("bin").join(name)).expect("a copy");
    }
    let output = suite.command(suite.path("bin/mpirun")).args(["-pty", "test", "-t", "0"]).output();
    output.code(0).quiet();
    suite.gone(&[]);
}

#[test]
fn a_prompt_of_a_rank_on_a_terminal_is_shown_once() {
    let suite = Suite::new();
    let mut terminal = Terminal::with_shell(&suite, "");
    terminal.resize(101, 31);
    terminal.enter("$MPIRUN -n 2 -s 0 -pty env TERM=dumb python3 -i");
    terminal.shows(">>> ");
    terminal.shows(">>> ");
    terminal.enter("import os; print('ans', 6*7, tuple(os.get_terminal_size()))");
    terminal.shows("ans 42 (101, 31)\n");
    let shown = terminal.screen().matches("import os").count();
    assert!(shown <= 2, "{}", terminal.screen());
    terminal.enter("exit()");
    terminal.shows_prompt();
    assert_eq!(terminal.exit_code(), 0);
    terminal.leave();
    suite.gone(&[]);
}

#[test]
fn terminals_of_ranks_get_size_changes_of_mpiruns_terminal() {
    let suite = Suite::new();
    suite.start_daemon();
    let mut terminal = Terminal::with_shell(&suite, "");
    terminal.resize(101, 31);
    // A shell's trap would not run for a signal that arrives during the trap.
    let script = "while :; do now=$(stty size); [ \"$now\" = \"$was\" ] || echo $now; was=$now; sleep 0.05; done";
    std::fs::write(suite.path("work/watch"), script).expect("a script");
    terminal.enter("$MPIRUN -n 2 -pty bash ./watch");
    terminal.shows("31 101\n31 101\n");
    for (columns, lines) in [(77, 13), (200, 60), (101, 31)] {
        terminal.resize(columns, lines);
        let text = format!("{lines} {columns}\n");
        terminal.shows(&text.repeat(2));
    }
    terminal.press(INTERRUPT);
    terminal.shows_prompt();
    terminal.enter("$MPIRUN -n 1 -pty sh -c 'ls /proc/self/fd | tr \"\\n\" \" \"; stty size'");
    terminal.shows("0 1 2 3 4 31 101\n");
    terminal.shows_prompt();
    terminal.leave();
    suite.only_the_daemon_is_left();
}

#[test]
fn a_job_on_terminals_that_is_interrupted_or_killed_leaves_no_process() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let running = suite.mpirun(["-n", "3", "-pty", "sleep", "60"]).start();
        wait_until("three ranks", || suite.running("sleep").len() == 3);
        running.send(signal);
        running.wait();
        suite.gone(&[daemon.pid]);
    }
}

#[test]
fn mpi_programs_run_on_terminals() {
    for library in mpi::libraries() {
        let suite = Suite::new();
        suite.start_daemon();
        let hello = library.program("hello").display().to_string();
        for arguments in [vec!["-n", "4", "-pty"], vec!["-n", "4", &suite.program("pty")]] {
            let output = library.dress(suite.mpirun(&arguments).arg(&hello).deadline(120)).output();
            output.code(0);
            assert_eq!(
                output.out().matches(" of 4 appnum 0").count(),
                4,
                "{}: {output}",
                library.name
            );
        }
        suite.only_the_daemon_is_left();
    }
}
