//! The driver of one rank's gdb, without a manager: the test is at the other end of its pipes.

use std::fs::File;
use std::io::{PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mpd_io::passing;
use mpd_io::spawn::{Extra, Spawn};
use mpd_tests::surroundings::setting;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::process::{self, Process};
use crate::run::wait_until;
use crate::suite::{Suite, skip};

const PATIENCE: Duration = Duration::from_secs(60);

/// A driver, and the manager that this test is to it.
struct Driver<'a> {
    suite: &'a Suite,
    pid: Pid,
    commands: PipeWriter,
    control: Option<UnixStream>,
    lines: Option<Receiver<String>>,
    output: Option<File>,
    serial: u32,
}

/// gdb and the program to debug, or nothing where they could not be had.
fn means() -> Option<(String, String)> {
    let directory = setting("MPD_TEST_DEBUG_DIR")?;
    Some((setting("MPD_TEST_GDB")?, format!("{directory}/debuggee")))
}

macro_rules! means {
    () => {
        match means() {
            Some(means) => means,
            None => return skip("no gdb, or no program to debug"),
        }
    };
}

impl<'a> Driver<'a> {
    fn start(suite: &'a Suite, gdb: &str, words: &[&str]) -> Self {
        let mut driver = Self::start_unread(suite, gdb, words);
        driver.read();
        driver
    }

    fn start_unread(suite: &'a Suite, gdb: &str, words: &[&str]) -> Self {
        let program = suite.program("mpd");
        let argv = ["mpdgdb", "--debugger", gdb].into_iter().chain(words.iter().copied());
        let home = format!("HOME={}", suite.path("home").display());
        let path = format!("PATH={}", std::env::var("PATH").expect("a PATH"));
        let environment = [&home[..], &path, "LC_ALL=C", "PMI_FD=3", "PMI_RANK=0"];
        let mut spawn = Spawn::new(program.as_bytes(), argv, environment).expect("no NUL");
        let work = suite.path("work").display().to_string();
        spawn.directory(work.as_bytes()).expect("no NUL");
        let (commands_read, commands) = std::io::pipe().expect("a pipe");
        let (output, lines) = std::io::pipe().expect("a pipe");
        let (control, theirs) = UnixStream::pair().expect("a socket");
        let error = std::io::stderr();
        let fds = [commands_read.as_fd(), lines.as_fd(), error.as_fd(), theirs.as_fd()];
        let extra = Extra::default();
        let pid = spawn.start(&fds, extra, None).expect("the driver starts");
        let output = Some(File::from(OwnedFd::from(output)));
        Self { suite, pid, commands, control: Some(control), lines: None, output, serial: 0 }
    }

    /// Takes lines from now on.
    fn read(&mut self) {
        let (sender, lines) = channel();
        let output = self.output.take().expect("read once");
        std::thread::spawn(move || {
            for line in std::io::BufRead::lines(std::io::BufReader::new(output)) {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        self.lines = Some(lines);
    }

    fn next(&self) -> String {
        let lines = self.lines.as_ref().expect("it is read");
        lines.recv_timeout(PATIENCE).expect("another line")
    }

    /// Lines up to a mark of the last command, and that without its number.
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
        writeln!(self.commands, "{} {command}", self.serial).expect("it reads");
    }

    fn ask(&mut self, command: &str) -> (Vec<String>, String) {
        self.send(command);
        self.answer()
    }

    /// The state that a command leads to.
    fn state(&mut self, command: &str) -> String {
        self.ask(command).1
    }

    /// Passes a PMI connection that says this, and returns our end.
    fn pass(&self, text: &str) -> UnixStream {
        let (mut ours, theirs) = UnixStream::pair().expect("a socket");
        ours.write_all(text.as_bytes()).expect("it takes a few bytes");
        passing::pass(self.control.as_ref().expect("a socket"), b'P', &theirs)
            .expect("it takes one");
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

fn begins(lines: &[String], begin: &str) -> bool {
    lines.iter().any(|line| line.starts_with(begin))
}

/// The value that gdb has printed.
fn number(said: &[String]) -> i64 {
    let value = said.last().and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no number: {said:?}"))
}

#[test]
fn a_program_is_stopped_stepped_through_and_let_go_as_in_plain_gdb() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program]);
    assert_eq!(driver.answer().1, "idle");
    let (said, state) = driver.ask("cli break work");
    assert!(begins(&said, "~Breakpoint 1 at ") && state == "idle", "{said:?}");
    let (said, state) = driver.ask("run run");
    assert!(state.starts_with("stopped work debuggee.c:"), "{state}");
    assert!(state.ends_with(" breakpoint-hit"), "{state}");
    assert!(begins(&said, "~Breakpoint 1, work (round=0) at "), "{said:?}");
    assert!(driver.state("cli next").ends_with("end-stepping-range"));
    assert_eq!(driver.ask("cli print round").0, ["~$1 = 0"]);
    assert!(driver.state("cli finish").starts_with("stopped main "));
    assert_eq!(driver.ask("cli print nothing").0, ["!No symbol \"nothing\" in current context."]);
    assert_eq!(driver.ask("complete info sha").0, ["?info sharedlibrary"]);
    assert_eq!(driver.ask("cli shell printf hello; cat").0, ["~hello"]);
    let (said, _) = driver.ask("cli define two");
    assert!(said.len() == 1 && said[0].starts_with('!'), "{said:?}");
    assert_eq!(driver.ask("cli delete").0, [""; 0]);
    let (said, state) = driver.ask("cli continue");
    assert_eq!(said, ["~Continuing.", "~[program exited with code 3]"]);
    assert_eq!(state, "exited 3");
    driver.quit();
}

#[test]
fn each_run_has_the_pmi_connection_that_was_passed_for_it() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program, "connection"]);
    for text in ["first", "second"] {
        driver.pass("stale");
        let ours = driver.pass(text);
        let (said, state) = driver.ask("run run");
        assert!(said.contains(&format!(">connection {text}")), "{said:?}");
        assert_eq!(state, "exited 3");
        // Nobody else holds the far end.
        let read = std::io::Read::read(&mut &ours, &mut [0; 8]);
        assert_eq!(read.expect("the end of the connection"), 0);
    }
    let (said, _) = driver.ask("run run");
    assert!(said.contains(&">connection none".to_owned()), "{said:?}");
    let (said, _) = driver.ask("run run environment");
    assert!(said.contains(&">0 0 0".to_owned()), "{said:?}");
    driver.quit();
}

#[test]
fn a_crash_is_a_stop_and_then_a_death() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program, "crash"]);
    let (said, state) = driver.ask("run run");
    let text = "~Program received signal SIGSEGV, Segmentation fault.".to_owned();
    assert!(said.contains(&text), "{said:?}");
    assert!(state.starts_with("stopped main ") && state.ends_with("signal-received SIGSEGV"));
    let (said, state) = driver.ask("cli continue");
    assert_eq!(state, "died SIGSEGV");
    let text = "~Program terminated with signal SIGSEGV, Segmentation fault.".to_owned();
    assert!(said.contains(&text), "{said:?}");
    driver.quit();
}

#[test]
fn no_line_of_output_is_lost_when_nobody_reads_for_a_while() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start_unread(&suite, &gdb, &[&program, "lines", "400000"]);
    driver.send("run run");
    // The program waits when driver, pipe (up to 1 MiB) and terminal hold all that they may.
    wait_until("the program waits", || {
        let ranks = suite.running("debuggee");
        ranks.iter().any(|rank| {
            let waits = std::fs::read_to_string(format!("/proc/{}/wchan", rank.pid));
            waits.is_ok_and(|text| text.contains("tty") || text.contains("wait_woken"))
        })
    });
    driver.read();
    let (said, state) = driver.answer();
    let lines: Vec<_> = said.iter().filter_map(|line| line.strip_prefix(">line ")).collect();
    assert_eq!(lines.len(), 400_000);
    assert!(lines.iter().enumerate().all(|(number, line)| *line == number.to_string()));
    assert_eq!(state, "exited 3");
    driver.quit();
}

#[test]
fn a_running_program_is_interrupted_looked_at_and_killed() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program, "threads"]);
    driver.send("run run");
    while driver.next() != ">spinning" {}
    assert_eq!(driver.ask("cli print 1").0, ["!this rank is running"]);
    let (said, state) = driver.ask("interrupt");
    assert!(state.ends_with("signal-received SIGINT"), "{state}: {said:?}");
    let (said, _) = driver.ask("stacks");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("#main at debuggee.c:") || said[0].contains("debuggee.c:"));
    assert!(said[1].contains("worker at") && said[1].contains("\tspin at"), "{said:?}");
    assert_eq!(driver.state("cli continue &"), "running");
    assert_eq!(driver.ask("cli print 1"), (vec!["~$1 = 1".to_owned()], "running".to_owned()));
    process::send(driver.pid.as_raw(), Signal::SIGINT);
    assert!(driver.answer().1.ends_with("signal-received SIGINT"));
    driver.send("cli continue");
    assert_eq!(driver.state("kill"), "idle");
    driver.quit();
}

#[test]
fn a_program_that_blocks_interrupts_is_interrupted_and_goes_on() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program, "block"]);
    driver.send("run run");
    while driver.next() != ">spinning" {}
    for _ in 0..2 {
        let (said, state) = driver.ask("interrupt");
        assert!(state.ends_with("signal-received SIGSTOP"), "{state}: {said:?}");
        driver.ask("cli set var turns = -1");
        assert_eq!(driver.state("cli continue &"), "running");
        wait_until("it goes on", || number(&driver.ask("cli print turns").0) > 0);
    }
    assert_eq!(driver.state("kill"), "idle");
    driver.quit();
}

#[test]
fn an_interrupt_straight_after_the_start_waits_for_the_program() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program, "threads"]);
    driver.send("run run");
    let (said, state) = driver.ask("interrupt");
    assert!(state.ends_with("signal-received SIGINT"), "{state}: {said:?}");
    driver.send("run run");
    assert_eq!(driver.state("kill"), "idle");
    driver.quit();
}

/// What the user of a gdb may have set for its command line.
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
fn what_the_user_has_set_for_gdb_does_not_confuse_the_driver() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    std::fs::create_dir_all(suite.path("home")).expect("a home");
    std::fs::write(suite.path("home").join(".gdbinit"), GDBINIT).expect("a file");
    let mut driver = Driver::start(&suite, &gdb, &[&program, "connection"]);
    assert_eq!(driver.answer().1, "idle");
    driver.ask("cli break work");
    let ours = driver.pass("first");
    let (said, state) = driver.ask("run run");
    drop(ours);
    assert!(said.contains(&">connection first".to_owned()), "{said:?}");
    assert!(said.contains(&"~hooked".to_owned()), "{said:?}");
    assert!(state.starts_with("stopped work ") && state.ends_with(" breakpoint-hit"), "{state}");
    assert!(
        !said.iter().any(|line| line.contains("process ") || line.contains('\x1a')),
        "{said:?}"
    );
    driver.ask("cli delete");
    let (said, state) = driver.ask("cli continue");
    assert!(said.contains(&"~[program exited with code 3]".to_owned()), "{said:?}");
    assert_eq!(state, "exited 3");
    driver.send("run run threads");
    while driver.next() != ">spinning" {}
    assert!(driver.ask("interrupt").1.ends_with("signal-received SIGINT"));
    driver.send("cli continue");
    assert_eq!(driver.state("kill"), "idle");
    driver.quit();
}

#[test]
fn a_gdb_that_was_killed_takes_the_program_along_and_the_driver_stays() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program, "threads"]);
    driver.send("run run");
    while driver.next() != ">spinning" {}
    process::send(driver.gdb().pid, Signal::SIGKILL);
    let (said, state) = driver.answer();
    let text = "!gdb was killed by SIGKILL; this rank cannot be debugged any more";
    assert_eq!(said, [text]);
    assert_eq!(state, "ended");
    suite.gone(&[driver.pid.as_raw()]);
    assert_eq!(driver.ask("cli print 1"), (vec!["!gdb is gone".to_owned()], "ended".to_owned()));
    driver.quit();
}

#[test]
fn a_program_reads_what_is_typed_up_to_its_end() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program, "echo"]);
    driver.send("run run");
    while driver.next() != "+name? " {}
    driver.send("input hello");
    assert_eq!(driver.next(), ">got 6");
    // Much longer than a terminal's line.
    driver.send(&format!("input {}", "x".repeat(30_000)));
    assert_eq!(driver.next(), ">got 30001");
    driver.send("eof");
    driver.serial = 1;
    assert_eq!(driver.answer().1, "exited 3");
    driver.serial = 4;
    driver.quit();
}

#[test]
fn a_signal_to_the_driver_is_one_to_the_program() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program, "signal"]);
    driver.send("run run");
    while driver.next() != ">waiting" {}
    process::send(driver.pid.as_raw(), Signal::SIGUSR1);
    let (said, state) = driver.answer();
    assert!(said.contains(&">signal USR1".to_owned()), "{said:?}");
    assert_eq!(state, "exited 3");
    driver.send("run run");
    while driver.next() != ">waiting" {}
    process::send(driver.pid.as_raw(), Signal::SIGXCPU);
    let (said, state) = driver.answer();
    assert!(state.ends_with("signal-received SIGXCPU"), "{state}: {said:?}");
    process::send(driver.pid.as_raw(), Signal::SIGTERM);
    assert_eq!(driver.answer().1, "ended");
    driver.ended();
}

#[test]
fn a_process_that_was_attached_to_lives_on() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let other = suite.command(&program).arg("threads").stderr(Stdio::null()).start();
    other.shows("spinning");
    for then in ["cli print 1", "cli continue &"] {
        let pid = other.pid().to_string();
        let mut driver = Driver::start(&suite, &gdb, &["--attach", &pid]);
        let (said, state) = driver.answer();
        assert!(state.starts_with("stopped "), "{state}: {said:?}");
        assert_eq!(driver.ask("cli print answer").0, ["~$1 = 42"]);
        driver.ask(then);
        assert_eq!(driver.ask("quit").1, "ended");
        assert_eq!(waitpid(driver.pid, None), Ok(WaitStatus::Exited(driver.pid, 0)));
        wait_until("it runs on", || other.process().state == 'R' || other.process().state == 'S');
    }
    other.send(Signal::SIGKILL);
    drop(other);
    suite.gone(&[]);
}

#[test]
fn without_a_manager_driver_gdb_and_program_end() {
    let (gdb, program) = means!();
    let suite = Suite::new();
    let mut driver = Driver::start(&suite, &gdb, &[&program, "threads"]);
    driver.send("run run");
    while driver.next() != ">spinning" {}
    driver.control = None;
    driver.ended();
}
