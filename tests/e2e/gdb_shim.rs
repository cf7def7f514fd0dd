//! A launcher shim with gdb, without a manager: the test holds the other end of its control socket and its pipe.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use mpd_io::network::control::{Control, Received};
use mpd_io::process::spawn::{Extra, Spawn};
use mpd_tests::surroundings::setting;
use mpd_wire::message::{ProgramEnd, ShimOrder, ShimReport, pieces_of_command};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::socket::{Shutdown, shutdown};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::process::{self, Process};
use crate::run::wait_until;
use crate::suite::{Suite, skip};

const PATIENCE: Duration = Duration::from_secs(60);

/// A shim; the test plays its manager.
struct Shim<'a> {
    suite: &'a Suite,
    pid: Pid,
    control: Control,
    lines: Option<Receiver<String>>,
    output: Option<File>,
    serial: u32,
}

/// gdb and the program to debug, or `None` if one of them is not available.
fn gdb_and_program() -> Option<(String, String)> {
    let directory = setting("MPD_TEST_DEBUG_DIR")?;
    Some((setting("MPD_TEST_GDB")?, format!("{directory}/debuggee")))
}

macro_rules! gdb_and_program {
    () => {
        match gdb_and_program() {
            Some(gdb_and_program) => gdb_and_program,
            None => return skip("no gdb, or no program to debug"),
        }
    };
}

impl<'a> Shim<'a> {
    fn start(suite: &'a Suite, gdb: &str, arguments: &[&str]) -> Self {
        let mut shim = Self::start_unread(suite, gdb, arguments);
        shim.read();
        shim
    }

    fn start_unread(suite: &'a Suite, gdb: &str, words: &[&str]) -> Self {
        let options = ["--debug", "--gdb", gdb, "--", words[0]];
        Self::begin(suite, &[&options[..], words].concat())
    }

    fn begin(suite: &'a Suite, words: &[&str]) -> Self {
        let program = suite.program("mpd");
        let argv = ["mpdshim", "--shim"].into_iter().chain(words.iter().copied());
        let home = format!("HOME={}", suite.path("home").display());
        let path = format!("PATH={}", std::env::var("PATH").expect("a PATH"));
        let environment = [&home[..], &path, "LC_ALL=C", "PMI_FD=3", "PMI_RANK=0"];
        let mut spawn = Spawn::new(program.as_bytes(), argv, environment).expect("no NUL");
        let work = suite.path("work").display().to_string();
        spawn.directory(work.as_bytes()).expect("no NUL");
        let null = File::open("/dev/null").expect("the null device");
        let (output, lines) = std::io::pipe().expect("a pipe");
        let (control, theirs) = Control::pair().expect("a socket");
        let error = std::io::stderr();
        let fds = [null.as_fd(), lines.as_fd(), error.as_fd(), theirs.as_fd()];
        let extra = Extra::default();
        let pid = spawn.start(&fds, extra, None).expect("the shim starts");
        let output = Some(File::from(OwnedFd::from(output)));
        Self { suite, pid, control, lines: None, output, serial: 0 }
    }

    /// Reads lines from now on.
    fn read(&mut self) {
        let (sender, lines) = channel();
        let output = self.output.take().expect("read once");
        let control = self.control.as_fd().try_clone_to_owned().expect("a descriptor");
        std::thread::spawn(move || Reading::of(output, Control::adopt(control), sender).run());
        self.lines = Some(lines);
    }

    fn next(&self) -> String {
        let lines = self.lines.as_ref().expect("it is read");
        lines.recv_timeout(PATIENCE).expect("another line")
    }

    /// The lines up to the mark of the last command, and the text of this mark without its number.
    fn answer(&self) -> (Vec<String>, String) {
        let begin = format!("={} ", self.serial);
        let mut lines = Vec::new();
        loop {
            let line = self.next();
            match line.strip_prefix(&begin) {
                Some(state) => return (lines, state.to_owned()),
                None => lines.push(line),
            }
        }
    }

    fn send(&mut self, command: &str) {
        self.serial += 1;
        for order in pieces_of_command(&format!("{} {command}", self.serial)) {
            self.control.send(&order, None).expect("it takes orders");
        }
        wait_until("it takes all pieces", || {
            self.control.flush().expect("it reads");
            !self.control.has_waiting()
        });
    }

    fn ask(&mut self, command: &str) -> (Vec<String>, String) {
        self.send(command);
        self.answer()
    }

    /// The state after a command.
    fn state(&mut self, command: &str) -> String {
        self.ask(command).1
    }

    /// Passes a PMI connection with this text, and returns the test's end.
    fn pass(&mut self, text: &str) -> UnixStream {
        let (mut ours, theirs) = UnixStream::pair().expect("a socket");
        ours.write_all(text.as_bytes()).expect("it takes a few bytes");
        self.control.send(&ShimOrder::Connect, Some(theirs.into())).expect("it takes one");
        ours
    }

    fn gdb(&self) -> Process {
        let mut gdb = None;
        wait_until("gdb", || {
            gdb = self.suite.running("gdb").into_iter().next();
            gdb.is_some()
        });
        gdb.expect("a gdb")
    }

    fn ended(&self) {
        assert_eq!(waitpid(self.pid, None), Ok(WaitStatus::Exited(self.pid, 0)));
        self.suite.gone(&[]);
    }

    fn quit(mut self) {
        assert_eq!(self.ask("quit"), (vec![], "ended".to_owned()));
        self.ended();
    }
}

/// Inserts marks between the lines, like a manager.
struct Reading {
    output: File,
    control: Control,
    sender: Sender<String>,
    bytes: Vec<u8>,
    passed: u64,
    marks: VecDeque<(u64, String)>,
    is_over: bool,
}

impl Reading {
    fn of(output: File, control: Control, sender: Sender<String>) -> Self {
        let (bytes, marks) = (Vec::new(), VecDeque::new());
        Self { output, control, sender, bytes, passed: 0, marks, is_over: false }
    }

    fn run(mut self) {
        while !self.is_over {
            let fds = [self.output.as_fd(), self.control.as_fd()];
            let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            poll(&mut fds, PollTimeout::NONE).expect("poll");
            if fds[0].any() == Some(true) {
                let mut buffer = vec![0; 64 << 10];
                let count = self.output.read(&mut buffer).expect("output");
                self.bytes.extend(&buffer[..count]);
                self.is_over = count == 0;
            }
            self.take_reports();
            self.pass_on();
        }
    }

    fn take_reports(&mut self) {
        while let Ok(Received::Message(report, _)) = self.control.receive() {
            match report {
                ShimReport::Mark { after, text } => {
                    self.marks.push_back((after, text));
                    let _ = self.control.send(&ShimOrder::Marks { more: 1 }, None);
                }
                ShimReport::Ended(end) => assert_eq!(end, ProgramEnd::Exited(0)),
                ShimReport::Commands { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn pass_on(&mut self) {
        let mut rest = 0;
        loop {
            while self.marks.front().is_some_and(|(after, _)| *after <= self.passed) {
                let mark = self.marks.pop_front().map(|(_, text)| format!("={text}"));
                let _ = self.sender.send(mark.expect("a mark"));
            }
            let Some(end) = self.bytes[rest..].iter().position(|&byte| byte == b'\n') else {
                break;
            };
            let line = String::from_utf8_lossy(&self.bytes[rest..rest + end]).into_owned();
            let _ = self.sender.send(line);
            rest += end + 1;
            self.passed += end as u64 + 1;
        }
        self.bytes.drain(..rest);
    }
}

#[test]
fn each_run_uses_the_pmi_connection_that_was_passed_for_it() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    let mut shim = Shim::start(&suite, &gdb, &[&program, "connection"]);
    for text in ["first", "second"] {
        shim.pass("stale");
        let ours = shim.pass(text);
        let (said, state) = shim.ask("run run");
        assert!(said.contains(&format!(">connection {text}")), "{said:?}");
        assert_eq!(state, "exited 3");
        // No other process holds the far end.
        let read = Read::read(&mut &ours, &mut [0; 8]);
        assert_eq!(read.expect("the end of the connection"), 0);
    }
    let (said, _) = shim.ask("run run");
    assert!(said.contains(&">connection none".to_owned()), "{said:?}");
    let (said, _) = shim.ask("run run environment");
    assert!(said.contains(&">0 0 0".to_owned()), "{said:?}");
    shim.quit();
}

#[test]
fn a_crash_stops_the_program_and_then_kills_it() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    let mut shim = Shim::start(&suite, &gdb, &[&program, "crash"]);
    let (said, state) = shim.ask("run run");
    let text = "~Program received signal SIGSEGV, Segmentation fault.".to_owned();
    assert!(said.contains(&text), "{said:?}");
    assert!(state.starts_with("stopped main ") && state.ends_with("signal-received SIGSEGV"));
    let (said, state) = shim.ask("cli continue");
    assert_eq!(state, "died SIGSEGV");
    let text = "~Program terminated with signal SIGSEGV, Segmentation fault.".to_owned();
    assert!(said.contains(&text), "{said:?}");
    shim.quit();
}

#[test]
fn no_output_line_is_lost_while_the_pipe_is_not_read() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    let mut shim = Shim::start_unread(&suite, &gdb, &[&program, "lines", "400000"]);
    shim.send("run run");
    // The program waits when shim, pipe (up to 1 MiB) and terminal are full.
    wait_until("the program waits", || {
        let ranks = suite.running("debuggee");
        ranks.iter().any(|rank| {
            let waits = std::fs::read_to_string(format!("/proc/{}/wchan", rank.pid));
            waits.is_ok_and(|text| text.contains("tty") || text.contains("wait_woken"))
        })
    });
    shim.read();
    let (said, state) = shim.answer();
    let lines: Vec<_> = said.iter().filter_map(|line| line.strip_prefix(">line ")).collect();
    assert_eq!(lines.len(), 400_000);
    assert!(lines.iter().enumerate().all(|(number, line)| *line == number.to_string()));
    assert_eq!(state, "exited 3");
    shim.quit();
}

#[test]
fn a_running_program_is_interrupted_inspected_and_killed() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    let mut shim = Shim::start(&suite, &gdb, &[&program, "threads"]);
    shim.send("run run");
    while shim.next() != ">spinning" {}
    assert_eq!(shim.ask("cli print 1").0, ["!this rank is running"]);
    let (said, state) = shim.ask("interrupt");
    assert!(state.ends_with("signal-received SIGINT"), "{state}: {said:?}");
    let (said, _) = shim.ask("stacks");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("#main at debuggee.c:") || said[0].contains("debuggee.c:"));
    assert!(said[1].contains("worker at") && said[1].contains("\tspin at"), "{said:?}");
    assert_eq!(shim.state("cli continue &"), "running");
    assert_eq!(shim.ask("cli print 1"), (vec!["~$1 = 1".to_owned()], "running".to_owned()));
    process::send(shim.pid.as_raw(), Signal::SIGINT);
    assert!(shim.answer().1.ends_with("signal-received SIGINT"));
    shim.send("cli continue");
    assert_eq!(shim.state("kill"), "idle");
    shim.quit();
}

/// Possible settings of a user for the command line of gdb.
const GDBINIT: &str = "set prompt (me)
set pagination on
set confirm on
set non-stop on
set mi-async off
set height 5
set width 20
set annotate 1
set print inferior-events on
set print thread-events on
set startup-with-shell off
set exec-wrapper /bin/false
set inferior-tty /dev/null
handle SIGINT nostop noprint pass
handle SIGUSR1 stop print
define hook-stop
printf \"hooked\\n\"
end
";

#[test]
fn the_users_gdb_settings_do_not_affect_the_shim() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    std::fs::create_dir_all(suite.path("home")).expect("a home");
    std::fs::write(suite.path("home").join(".gdbinit"), GDBINIT).expect("a file");
    let mut shim = Shim::start(&suite, &gdb, &[&program, "connection"]);
    assert_eq!(shim.answer().1, "idle");
    shim.ask("cli break work");
    let ours = shim.pass("first");
    let (said, state) = shim.ask("run run");
    drop(ours);
    assert!(said.contains(&">connection first".to_owned()), "{said:?}");
    assert!(said.contains(&"~hooked".to_owned()), "{said:?}");
    assert!(state.starts_with("stopped work ") && state.ends_with(" breakpoint-hit"), "{state}");
    assert!(
        !said.iter().any(|line| line.contains("process ") || line.contains('\x1a')),
        "{said:?}"
    );
    shim.ask("cli delete");
    let (said, state) = shim.ask("cli continue");
    assert!(said.contains(&"~[program exited with code 3]".to_owned()), "{said:?}");
    assert_eq!(state, "exited 3");
    shim.send("run run threads");
    while shim.next() != ">spinning" {}
    assert!(shim.ask("interrupt").1.ends_with("signal-received SIGINT"));
    shim.send("cli continue");
    assert_eq!(shim.state("kill"), "idle");
    shim.quit();
}

#[test]
fn a_killed_gdb_ends_the_program_but_not_the_shim() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    let mut shim = Shim::start(&suite, &gdb, &[&program, "threads"]);
    shim.send("run run");
    while shim.next() != ">spinning" {}
    process::send(shim.gdb().pid, Signal::SIGKILL);
    let (said, state) = shim.answer();
    let text = "!gdb was killed by SIGKILL; this rank cannot be debugged any more";
    assert_eq!(said, [text]);
    assert_eq!(state, "ended");
    suite.gone(&[shim.pid.as_raw()]);
    assert_eq!(shim.ask("cli print 1"), (vec!["!gdb is gone".to_owned()], "ended".to_owned()));
    shim.quit();
}

#[test]
fn a_command_longer_than_a_message_arrives_complete() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    let mut shim = Shim::start(&suite, &gdb, &[&program]);
    assert_eq!(shim.answer().1, "idle");
    shim.ask("cli set max-value-size unlimited");
    let long = "x".repeat(200_000);
    let (said, _) = shim.ask(&format!("cli print sizeof(\"{long}\")"));
    assert_eq!(said, ["~$1 = 200001"]);
    shim.quit();
}

#[test]
fn a_program_reads_typed_input_up_to_end_of_file() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    let mut shim = Shim::start(&suite, &gdb, &[&program, "echo"]);
    shim.send("run run");
    while shim.next() != "+name? " {}
    shim.send("input hello");
    assert_eq!(shim.next(), ">got 6");
    // Much longer than a terminal's line.
    shim.send(&format!("input {}", "x".repeat(30_000)));
    assert_eq!(shim.next(), ">got 30001");
    shim.send("eof");
    shim.serial = 1;
    assert_eq!(shim.answer().1, "exited 3");
    shim.serial = 4;
    shim.quit();
}

#[test]
fn the_shim_forwards_signals_to_the_program() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    let mut shim = Shim::start(&suite, &gdb, &[&program, "signal"]);
    shim.send("run run");
    while shim.next() != ">waiting" {}
    process::send(shim.pid.as_raw(), Signal::SIGUSR1);
    let (said, state) = shim.answer();
    assert!(said.contains(&">signal USR1".to_owned()), "{said:?}");
    assert_eq!(state, "exited 3");
    shim.send("run run");
    while shim.next() != ">waiting" {}
    process::send(shim.pid.as_raw(), Signal::SIGXCPU);
    let (said, state) = shim.answer();
    assert!(state.ends_with("signal-received SIGXCPU"), "{state}: {said:?}");
    process::send(shim.pid.as_raw(), Signal::SIGTERM);
    assert_eq!(shim.answer().1, "ended");
    shim.ended();
}

#[test]
fn without_a_manager_shim_gdb_and_program_end() {
    let (gdb, program) = gdb_and_program!();
    let suite = Suite::new();
    let mut shim = Shim::start(&suite, &gdb, &[&program, "threads"]);
    shim.send("run run");
    while shim.next() != ">spinning" {}
    shutdown(shim.control.as_raw_fd(), Shutdown::Both).expect("its end");
    shim.ended();
}
