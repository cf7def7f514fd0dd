use proptest::prelude::*;

use super::texts::{Normal, normal};
use super::*;

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

/// A driver, and the test's side of its gdb.
struct Bench {
    driver: Driver,
    /// Lines that the driver sent, without newlines.
    said: Vec<String>,
    /// Commands to gdb, with their tokens.
    asked: Vec<String>,
    others: Vec<Output>,
}

impl Bench {
    fn new(attach: Option<u32>) -> Self {
        let driver = Driver::new(&Setup {
            attach,
            terminal: b"/dev/pts/9".to_vec(),
            wrapper: b"/proc/7/exe --debugged".to_vec(),
            once: false,
            variables: vec![(b"LINES".to_vec(), None)],
        });
        Self { driver, said: vec![], asked: vec![], others: vec![] }
    }

    /// A bench whose driver has sent its first mark.
    fn ready() -> Self {
        let mut bench = Self::new(None);
        bench.drain();
        for command in bench.asked.clone() {
            let token = command.split('-').next().unwrap().to_owned();
            bench.gdb(&format!("{token}^done"));
        }
        assert_eq!(bench.take(), ["=0 idle"]);
        bench.asked.clear();
        bench
    }

    /// A bench whose program was run by command 1 and has stopped.
    fn stopped() -> Self {
        let mut bench = Self::ready();
        bench.command("1 run run");
        bench.runs();
        bench.stops();
        bench.take();
        bench
    }

    fn drain(&mut self) {
        while let Some(output) = self.driver.poll_output() {
            match output {
                Output::Say(line) => {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    self.said.push(text.strip_suffix('\n').unwrap().to_owned());
                }
                Output::Mark(serial, state) => {
                    self.said.push(format!("={serial} {}", String::from_utf8_lossy(&state)));
                }
                Output::ToGdb(line) => {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    self.asked.push(text.strip_suffix('\n').unwrap().to_owned());
                }
                other => self.others.push(other),
            }
        }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.driver.handle(at(0), input);
        self.drain();
    }

    fn command(&mut self, line: &str) {
        self.handle(Input::Commands(format!("{line}\n").as_bytes()));
    }

    fn gdb(&mut self, line: &str) {
        self.handle(Input::Gdb(format!("{line}\n").as_bytes()));
    }

    /// Answers the last command that gdb received.
    fn answers(&mut self, record: &str) {
        let token = self.asked.last().unwrap().split('-').next().unwrap().to_owned();
        self.gdb(&format!("{token}{record}"));
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn runs(&mut self) {
        self.gdb(r#"=thread-group-started,id="i1",pid="77""#);
        self.answers("^running");
        self.gdb(r#"*running,thread-id="all""#);
    }

    fn stops(&mut self) {
        self.gdb(
            r#"*stopped,reason="breakpoint-hit",frame={func="f(int, char)",file="t.c",line="6"}"#,
        );
        self.answers(r#"^done,value="off""#);
    }
}

#[test]
fn settings_are_silent_and_earlier_text_of_gdb_is_sent() {
    let mut bench = Bench::new(None);
    bench.drain();
    bench.gdb(r#"~"Reading symbols from ./t...\n""#);
    let commands = bench.asked.clone();
    assert!(commands.iter().any(|c| c.contains("unset environment LINES")));
    assert!(commands.iter().any(|c| c.contains("set exec-wrapper /proc/7/exe --debugged")));
    assert!(commands.last().unwrap().ends_with("-inferior-tty-set /dev/pts/9"));
    for command in &commands {
        let token = command.split('-').next().unwrap();
        bench.gdb(&format!("{token}^error,msg=\"no\""));
        bench.gdb(r#"~"Signal        Stop\n""#);
    }
    assert_eq!(bench.take()[..2], ["~Reading symbols from ./t...", "=0 idle"]);
}

#[test]
fn the_mark_of_a_stop_comes_after_all_text_of_the_stop() {
    let mut bench = Bench::ready();
    bench.command("1 run run");
    bench.runs();
    bench.gdb(r#"~"\nBreakpoint 1, f () at t.c:6\n""#);
    bench
        .gdb(r#"*stopped,reason="breakpoint-hit",frame={func="f(int, char)",file="t.c",line="6"}"#);
    bench.gdb(r#"~"$1 = 1""#);
    assert_eq!(bench.take(), ["~Breakpoint 1, f () at t.c:6"]);
    bench.answers(r#"^done,value="off""#);
    assert_eq!(bench.take(), ["~$1 = 1", "=1 stopped f(int,char) t.c:6 breakpoint-hit"]);
}

#[test]
fn a_breakpoint_whose_commands_continue_is_no_stop() {
    let mut bench = Bench::ready();
    bench.command("1 run run");
    bench.runs();
    bench.gdb(r#"*stopped,reason="breakpoint-hit""#);
    bench.gdb(r#"*running,thread-id="all""#);
    bench.answers("^done");
    assert_eq!(bench.take(), [""; 0]);
    bench.gdb(r#"*stopped,reason="exited",exit-code="0310""#);
    bench.answers("^done");
    assert_eq!(bench.take(), ["=1 exited 200"]);
}

#[test]
fn while_it_runs_a_command_is_refused_and_an_interrupt_is_a_signal() {
    let mut bench = Bench::ready();
    bench.command("1 run run");
    bench.runs();
    bench.command("2 cli print 1");
    assert_eq!(bench.take(), ["!this rank is running", "=2 running"]);
    bench.others.clear();
    bench.command("3 interrupt");
    assert_eq!(bench.others, [Output::Interrupt(77)]);
    assert_eq!(bench.take(), [""; 0]);
    bench.stops();
    let place = "stopped f(int,char) t.c:6 breakpoint-hit";
    assert_eq!(bench.take(), [format!("=1 {place}"), format!("=3 {place}")]);
    bench.command("4 interrupt");
    assert_eq!(bench.take(), [format!("=4 {place}")]);
}

#[test]
fn an_interrupt_before_the_start_waits_for_it() {
    let mut bench = Bench::ready();
    bench.command("1 run run");
    bench.command("2 interrupt");
    assert_eq!(bench.others, []);
    bench.runs();
    assert_eq!(bench.others[0], Output::Interrupt(77));
    bench.command("3 cli python while True: pass");
    bench.stops();
    bench.command("4 cli python while True: pass");
    bench.command("5 interrupt");
    assert_eq!(bench.others.last(), Some(&Output::InterruptGdb));
    bench.take();
    bench.answers("^done");
    let said = bench.take();
    assert!(said[0].starts_with('!'), "{said:?}");
    assert!(said[1].starts_with("=4 ") && said[2].starts_with("=5 "), "{said:?}");
}

#[test]
fn a_stop_in_the_background_is_marked_with_the_last_serial() {
    let mut bench = Bench::ready();
    bench.command("1 cli run &");
    bench.runs();
    assert_eq!(bench.take(), ["=1 running"]);
    bench.command("2 cli print 1");
    bench.gdb(r#"~"$1 = 1\n""#);
    bench.answers("^done");
    assert_eq!(bench.take(), ["~$1 = 1", "=2 running"]);
    bench.stops();
    assert_eq!(bench.take(), ["=2 stopped f(int,char) t.c:6 breakpoint-hit"]);
}

#[test]
fn a_kill_of_a_running_program_is_reported_in_the_drivers_text() {
    let mut bench = Bench::ready();
    bench.command("1 run run");
    bench.runs();
    bench.command("2 kill");
    assert_eq!(bench.others.last(), Some(&Output::Signal(77, KILL)));
    bench.gdb(r#"~"\nProgram terminated with signal ""#);
    bench.gdb(r#"~"SIGKILL, Killed.\n""#);
    bench.gdb(r#"~"The program no longer exists.\n""#);
    bench.gdb(r#"=thread-group-exited,id="i1""#);
    bench.gdb(r#"*stopped,reason="exited-signalled",signal-name="SIGKILL""#);
    bench.answers("^done");
    assert_eq!(bench.take(), ["~[program killed]", "=1 idle", "=2 idle"]);
    bench.command("3 kill");
    assert_eq!(bench.take(), ["=3 idle"]);
}

const NO_PROCESS: &str = r#"Couldn't get registers: No such process."#;

impl Bench {
    /// gdb fails to resume the program, although it has reported that the program runs.
    fn fails_to_go_on(&mut self, asked: usize) {
        let token = self.asked[asked].split('-').next().unwrap().to_owned();
        self.gdb(&format!(r#"&"{NO_PROCESS}\n""#));
        self.gdb(&format!(r#"{token}^error,msg="{NO_PROCESS}""#));
    }

    /// A bench whose program has stopped and is resumed by the last command.
    fn going_on() -> Self {
        let mut bench = Self::ready();
        bench.command("1 run run");
        bench.runs();
        bench.stops();
        bench.take();
        bench.asked.clear();
        bench.command("2 cli continue");
        bench.answers("^running");
        bench.gdb(r#"*running,thread-id="all""#);
        bench
    }
}

#[test]
fn a_kill_that_gdb_takes_for_an_error_is_done_by_gdb() {
    let mut bench = Bench::going_on();
    bench.command("3 kill");
    bench.fails_to_go_on(0);
    assert!(bench.asked.last().unwrap().ends_with("\"kill\""));
    bench.gdb(r#"=thread-group-exited,id="i1""#);
    assert_eq!(bench.take(), [""; 0]);
    bench.answers("^done");
    assert_eq!(bench.take(), ["~[program killed]", "=2 idle", "=3 idle"]);
    assert_eq!(bench.driver.poll_timeout(), None);
    bench.command("4 run run");
    bench.runs();
    assert!(bench.driver.has_program());
}

#[test]
fn a_late_report_of_the_end_makes_gdbs_own_kill_fail_silently() {
    let mut bench = Bench::going_on();
    bench.command("3 kill");
    bench.fails_to_go_on(0);
    let kill = bench.asked.last().unwrap().split('-').next().unwrap().to_owned();
    bench.gdb(r#"=thread-group-exited,id="i1""#);
    bench.gdb(r#"*stopped,reason="exited-signalled",signal-name="SIGKILL""#);
    let why = "The program is not being run.";
    bench.gdb(&format!(r#"&"{why}\n""#));
    bench.gdb(&format!(r#"{kill}^error,msg="{why}""#));
    bench.answers("^done");
    assert_eq!(bench.take(), ["~[program killed]", "=2 idle", "=3 idle"]);
}

#[test]
fn a_kill_whose_end_is_not_reported_in_time_is_done_by_gdb() {
    let mut bench = Bench::going_on();
    bench.command("3 kill");
    assert_eq!(bench.driver.poll_timeout(), Some(at(0) + DIES));
    bench.driver.handle_timeout(at(0) + DIES);
    bench.drain();
    assert!(bench.asked.last().unwrap().ends_with("\"kill\""));
    bench.driver.handle_timeout(at(0) + DIES + DIES);
    bench.drain();
    assert_eq!(bench.others.last(), Some(&Output::InterruptGdb));
    bench.answers(r#"^error,msg="no""#);
    assert_eq!(bench.take(), ["~[program killed]", "=2 idle", "=3 idle"]);
}

#[test]
fn a_kill_of_a_program_that_has_just_stopped_is_done_by_gdb() {
    let mut bench = Bench::going_on();
    bench.command("3 kill");
    bench.gdb(r#"*stopped,reason="breakpoint-hit""#);
    assert!(bench.asked.last().unwrap().ends_with("\"kill\""));
    bench.answers("^done");
    assert_eq!(bench.take(), ["~[program killed]", "=2 idle", "=3 idle"]);
}

#[test]
fn a_program_that_cannot_be_resumed_has_the_state_that_gdb_reports() {
    let mut bench = Bench::going_on();
    bench.command("3 interrupt");
    bench.fails_to_go_on(0);
    assert!(bench.asked.last().unwrap().ends_with("-thread-info"));
    bench.answers(
        r#"^done,threads=[{id="1",frame={func="f",file="t.c",line="6"},state="stopped"}],current-thread-id="1""#,
    );
    let said = bench.take();
    assert_eq!(said[0], format!("~{NO_PROCESS}"));
    assert!(said[1].starts_with("!gdb could not"));
    assert_eq!(said[2..], ["=2 stopped f t.c:6 ?", "=3 stopped f t.c:6 ?"]);
    // Another program can be resumed nevertheless.
    bench.command("4 cli continue");
    let asked = bench.asked.len() - 1;
    bench.answers("^running");
    bench.fails_to_go_on(asked);
    bench.answers(r#"^done,threads=[{id="1",state="running"}],current-thread-id="1""#);
    assert!(!bench.take().iter().any(|line| line.starts_with('=')));
    bench.stops();
    assert_eq!(bench.take(), ["=4 stopped f(int,char) t.c:6 breakpoint-hit"]);
}

#[test]
fn the_signal_of_an_interrupt_is_not_delivered_to_the_program() {
    let mut bench = Bench::going_on();
    bench.command("3 interrupt");
    bench.gdb(r#"*stopped,reason="signal-received",signal-name="SIGSTOP""#);
    let asked = bench.asked.len();
    assert!(bench.asked[asked - 2].ends_with("\"queue-signal 0\""));
    bench.answers("^done");
    let place = "stopped ? ? signal-received SIGSTOP";
    assert_eq!(bench.take(), [format!("=2 {place}"), format!("=3 {place}")]);
}

#[test]
fn an_error_is_reported_once_and_an_answer_after_text_is_found() {
    let mut bench = Bench::ready();
    bench.command("1 cli bogus");
    bench.gdb(r#"&"warning: w\n""#);
    bench.gdb(r#"&"Undefined command: \"bogus\".\n""#);
    bench.answers(r#"^error,msg="Undefined command: \"bogus\".""#);
    assert_eq!(bench.take(), ["~warning: w", "!Undefined command: \"bogus\".", "=1 idle"]);
    bench.command("2 cli !printf hi");
    assert!(bench.asked.last().unwrap().ends_with("\"shell exec </dev/null; printf hi\""));
    let token = bench.asked.last().unwrap().split('-').next().unwrap().to_owned();
    bench.gdb(&format!("hi{token}^done"));
    assert_eq!(bench.take(), ["~hi", "=2 idle"]);
    bench.command("3 cli shell");
    assert_eq!(bench.take()[1], "=3 idle");
}

#[test]
fn more_input_that_gdb_asks_for_ends_at_once() {
    let mut bench = Bench::ready();
    bench.command("1 cli define two");
    bench.gdb(r#"~">""#);
    assert_eq!(bench.asked.last().unwrap(), "end");
    bench.gdb(r#"~">""#);
    bench.asked.truncate(1);
    bench.answers("^done");
    let said = bench.take();
    assert!(said.len() == 2 && said[0].starts_with('!') && said[1] == "=1 idle", "{said:?}");
    bench.command("2 cli printf \">\"");
    bench.gdb(r#"~">""#);
    bench.answers("^done");
    assert_eq!(bench.take(), ["~>", "=2 idle"]);
}

#[test]
fn stacks_begin_with_the_outermost_frame_of_each_thread() {
    let mut bench = Bench::stopped();
    bench.command("2 stacks");
    bench.answers(r#"^done,threads=[{id="2"},{id="1"}],current-thread-id="1""#);
    assert!(bench.asked.last().unwrap().contains("--thread 1 "));
    bench.answers(
        r#"^done,stack=[frame={level="0",func="f",file="t.c",line="6"},frame={level="1",func="g",from="/lib/l.so"}]"#,
    );
    bench.answers(r#"^done,stack=[frame={level="0",addr="0x1",func="??"}]"#);
    let said = bench.take();
    assert_eq!(said[..2], ["#g in /lib/l.so\tf at t.c:6", "#??"]);
    assert!(said[2].starts_with("=2 stopped "));
    bench.command("3 stacks 77");
    bench.answers(
        r#"^done,threads=[{id="1",target-id="Thread 0x7f (LWP 70)"},{id="300",target-id="LWP 77"}]"#,
    );
    assert!(bench.asked.last().unwrap().contains("--thread 300 "), "the one that was named first");
}

#[test]
fn a_thread_that_gdb_cannot_read_is_named_among_the_stacks_of_the_others() {
    let mut bench = Bench::stopped();
    bench.command("2 stacks");
    bench.answers(r#"^done,threads=[{id="1"},{id="2"},{id="3"}],current-thread-id="1""#);
    bench.answers(r#"^done,stack=[frame={level="0",func="f",file="t.c",line="6"}]"#);
    assert!(bench.asked.last().unwrap().contains("--thread 2 "));
    bench.gdb(r#"&"Cannot access memory at address 0x8\n""#);
    bench.answers(r#"^error,msg="Cannot access memory at address 0x8""#);
    assert!(bench.asked.last().unwrap().contains("--thread 3 "));
    bench.answers(r#"^done,stack=[frame={level="0",func="g",from="/lib/l.so"}]"#);
    let said = bench.take();
    let unread = "#?? (thread 2: Cannot access memory at address 0x8)";
    assert_eq!(said[..3], ["#f at t.c:6", unread, "#g in /lib/l.so"]);
    assert!(said.len() == 4 && said[3].starts_with("=2 stopped "), "{said:?}");
    bench.command("3 stacks");
    bench.answers(r#"^error,msg="No threads.""#);
    assert_eq!(bench.take()[0], "!No threads.", "all are asked for at once");
}

#[test]
fn output_is_sent_in_lines_and_in_pieces_of_lines_that_pause() {
    let mut bench = Bench::ready();
    bench.handle(Input::Program(b"a\r\nname? "));
    assert_eq!(bench.take(), [">a"]);
    assert_eq!(bench.driver.poll_timeout(), Some(at(200)));
    assert!(!bench.driver.awaits_look(at(199)) && bench.driver.awaits_look(at(200)));
    bench.driver.handle(at(200), Input::Look(&[]));
    bench.drain();
    assert_eq!(bench.take(), ["+name? "]);
    bench.handle(Input::Program(b"\nx"));
    assert_eq!(bench.take(), [">"]);
    bench.gdb(r#"=thread-group-exited,id="i1""#);
    assert_eq!(bench.take(), [">x"]);
    bench.handle(Input::Program(&[b'y'; MAX_TEXT + 5]));
    bench.handle(Input::Program(b"\n"));
    let lengths: Vec<_> = bench.take().iter().map(String::len).collect();
    assert_eq!(lengths, [MAX_TEXT + 1, 6]);
}

#[test]
fn a_line_is_not_divided_while_its_terminal_is_not_read() {
    let mut bench = Bench::ready();
    bench.handle(Input::Program(b"line 4"));
    bench.driver.handle(at(150), Input::Unread);
    bench.driver.handle(at(200), Input::Look(&[]));
    bench.drain();
    assert_eq!((bench.take().len(), bench.driver.poll_timeout()), (0, Some(at(350))));
    bench.handle(Input::Program(b"2\n"));
    bench.driver.handle(at(400), Input::Unread);
    assert_eq!((bench.take(), bench.driver.poll_timeout()), (vec![">line 42".to_owned()], None));
}

#[test]
fn a_line_is_not_divided_while_the_program_gets_no_cpu() {
    let mut bench = Bench::ready();
    bench.handle(Input::Program(b"line 4"));
    let thread = Task { id: 7, ran: Duration::from_millis(30) };
    for _ in 0..10 {
        let due = bench.driver.poll_timeout().unwrap();
        bench.driver.handle(due, Input::Look(&[thread]));
        bench.drain();
        assert!(!bench.driver.awaits_look(due));
    }
    assert_eq!(bench.take(), [""; 0]);
    bench.handle(Input::Program(b"2\n"));
    assert_eq!((bench.take(), bench.driver.poll_timeout()), (vec![">line 42".to_owned()], None));
}

#[test]
fn an_answer_that_is_too_long_to_be_read_is_still_an_answer() {
    let mut bench = Bench::ready();
    let long = "x".repeat(2 * MAX_LINE);
    let many = "{name=\"x\"},".repeat(70_000);
    let reported = "!gdb has answered \"done\", and more than can be read here";
    bench.command("1 complete b");
    bench.answers(&format!("^done,completion=\"b\",matches=[\"{long}\"]"));
    assert_eq!(bench.take(), [reported, "=1 idle"]);
    bench.command("2 cli info x");
    bench.answers(&format!("^done,x=[{many}1]"));
    assert_eq!(bench.take(), [reported, "=2 idle"]);
    bench.command("3 cli python raise gdb.GdbError('x' * 2000000)");
    bench.answers(&format!("^error,msg=\"{long}\""));
    assert_eq!(bench.take(), [&reported.replace("done", "error"), "=3 idle"]);
    bench.command("4 cli shell head -c 2000000 /dev/zero");
    let token = bench.asked.last().unwrap().split('-').next().unwrap().to_owned();
    bench.gdb(&format!("{long}{token}^done"));
    assert_eq!(bench.take().last().unwrap(), "=4 idle");
}

#[test]
fn a_stop_that_is_too_long_to_be_read_is_a_stop_at_an_unknown_place() {
    let mut bench = Bench::ready();
    bench.command("1 run run");
    bench.runs();
    let value = "1".repeat(2 * MAX_LINE);
    let frame = format!("{{func=\"f\",args=[{{name=\"s\",value=\"{value}");
    bench.gdb(&format!("*stopped,reason=\"breakpoint-hit\",frame={frame}"));
    bench.answers("^done,value=\"off\"");
    assert_eq!(bench.take(), ["=1 stopped ? ? breakpoint-hit"]);
}

#[test]
fn the_end_of_gdb_answers_every_command() {
    let mut bench = Bench::ready();
    bench.command("1 cli print 1");
    bench.command("2 cli print 2");
    bench.handle(Input::GdbEnded("was killed by SIGKILL"));
    let said = bench.take();
    assert!(said[0].starts_with("!gdb was killed by SIGKILL; "));
    assert_eq!(said[1..], ["=1 ended", "=2 ended"]);
    bench.command("3 kill");
    assert_eq!(bench.take()[1], "=3 ended");
    bench.command("4 quit");
    assert_eq!(bench.take(), ["=4 ended"]);
    assert_eq!(bench.others, [Output::End]);
}

#[test]
fn a_gdb_that_does_not_exit_in_time_is_killed() {
    let mut bench = Bench::ready();
    bench.command("1 run run");
    bench.runs();
    bench.command("2 quit");
    assert_eq!(bench.others.last(), Some(&Output::Signal(77, KILL)));
    assert!(bench.asked.last().unwrap().ends_with("-gdb-exit"));
    assert_eq!(bench.driver.poll_timeout(), Some(at(0) + LEAVE));
    bench.driver.handle_timeout(at(0) + LEAVE);
    bench.drain();
    assert_eq!(bench.others.last(), Some(&Output::KillGdb));
    bench.handle(Input::GdbEnded("was killed by SIGKILL"));
    assert_eq!(bench.take(), ["=1 ended", "=2 ended"]);
    assert_eq!(bench.others.last(), Some(&Output::End));
}

#[test]
fn an_attached_process_is_detached_when_it_has_stopped() {
    let mut bench = Bench::new(Some(77));
    bench.drain();
    for command in bench.asked.clone() {
        let token = command.split('-').next().unwrap().to_owned();
        bench.gdb(&format!("{token}^done"));
    }
    assert!(bench.asked.last().unwrap().ends_with("\"attach 77\""));
    bench.gdb(r#"~"Attaching to process 77\n""#);
    bench.gdb(r#"=thread-group-started,id="i1",pid="77""#);
    bench.answers("^done");
    assert_eq!(bench.take(), [] as [&str; 0]);
    bench.gdb(r#"*stopped,frame={func="f",args=[]}"#);
    bench.answers("^done");
    assert_eq!(bench.take(), ["=0 stopped f ? ?"]);
    bench.command("1 cli continue");
    bench.answers("^running");
    bench.gdb(r#"*running,thread-id="all""#);
    bench.command("2 quit");
    assert_eq!(bench.others, [Output::Interrupt(77)]);
}

#[test]
fn an_empty_line_is_left_out_before_a_stop_and_nowhere_else() {
    let mut bench = Bench::ready();
    bench.command("1 cli echo");
    bench.gdb(r#"~"\n\nThread 1 \"t\" hit Hardware watchpoint 2: x\n\nOld value = 0\n""#);
    bench.gdb(r#"~"a\n\nb\n\n""#);
    bench.answers("^done");
    let said =
        ["~", "~Hardware watchpoint 2: x", "~Old value = 0", "~a", "~", "~b", "~", "=1 idle"];
    assert_eq!(bench.take(), said);
}

#[test]
fn texts_do_not_contain_differences_between_ranks() {
    let same = |line: &str| normal(line.as_bytes()) == Normal::Same;
    let instead = |line: &str| match normal(line.as_bytes()) {
        Normal::Instead(text) => String::from_utf8(text).unwrap(),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(
        instead("[Inferior 1 (process 5) exited with code 0310]"),
        "[program exited with code 200]"
    );
    assert_eq!(instead("[Inferior 1 (process 5) exited normally]"), "[program exited normally]");
    assert_eq!(instead("[Inferior 1 (process 5) killed]"), "[program killed]");
    assert_eq!(
        instead("Detaching from program: /a b/t, process 5"),
        "Detaching from program: /a b/t"
    );
    assert_eq!(
        instead("[Switching to thread 2 (Thread 0x7f (LWP 5))](running)"),
        "[Switching to thread 2 (Thread 0x7f)](running)"
    );
    assert_eq!(
        instead("Thread 1 \"a b\" hit Breakpoint 1, f () at t.c:6"),
        "Breakpoint 1, f () at t.c:6"
    );
    let signal = "received signal SIGINT, Interrupt.";
    assert_eq!(instead(&format!("Thread 1 \"t\" {signal}")), format!("Program {signal}"));
    assert!(same("Thread 2 \"t\" hit Breakpoint 1, f () at t.c:6"));
    assert_eq!(instead("Starting program: /bin/t "), "Starting program: /bin/t");
    for line in [
        "[Detaching after fork from child process 5]",
        "[New Thread 0x7f (LWP 5)]",
        "[Thread 0x7f (LWP 5) exited]",
        "[Thread debugging using libthread_db enabled]",
        "Using host libthread_db library \"/lib/libthread_db.so.1\".",
    ] {
        assert_eq!(normal(line.as_bytes()), Normal::Nothing, "{line}");
    }
    for line in ["", "Breakpoint 1, main () at t.c:8", " (LWP ", " (LWP x)", "[Inferior 1"] {
        assert!(same(line), "{line}");
    }
}

/// Lines that gdb may send at any time.
fn records() -> impl Strategy<Value = String> {
    let token = 1_u32..40;
    let class = prop::sample::select(vec!["done", "running", "error,msg=\"no\""]);
    prop_oneof![
        (token, class).prop_map(|(token, class)| format!("{token}^{class}")),
        Just("*running,thread-id=\"all\"".to_owned()),
        Just("*stopped,reason=\"exited-normally\"".to_owned()),
        Just("*stopped,frame={func=\"f\"}".to_owned()),
        Just("=thread-group-started,id=\"i1\",pid=\"7\"".to_owned()),
        Just("=thread-group-exited,id=\"i1\"".to_owned()),
        Just("~\">\"".to_owned()),
        Just("&\"text\"".to_owned()),
        "[ -~]{0,20}",
    ]
}

fn words() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "cli next",
        "cli c &",
        "run run",
        "kill",
        "interrupt",
        "complete b",
        "stacks",
        "cli !",
        "x",
    ])
}

proptest! {
    /// With any text of gdb: in the end each command has had exactly one mark of its own. Before or
    /// together with that mark, later marks may repeat the state.
    #[test]
    fn every_command_is_answered(
        script in prop::collection::vec(prop_oneof![records().prop_map(Ok), words().prop_map(Err)], 0..60),
    ) {
        let mut bench = Bench::ready();
        let mut serial = 0;
        for step in script {
            match step {
                Ok(record) => bench.gdb(&record),
                Err(word) => {
                    serial += 1;
                    bench.command(&format!("{serial} {word}"));
                }
            }
        }
        bench.handle(Input::GdbEnded("has ended"));
        let said = bench.take();
        for number in 1..=serial {
            let begin = format!("={number} ");
            prop_assert!(said.iter().any(|line| line.starts_with(&begin)), "{number}: {said:?}");
        }
        prop_assert!(bench.driver.queue.is_empty() && bench.driver.pending.is_none());
    }
}
