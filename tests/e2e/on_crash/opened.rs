//! On a terminal: the debugger opens at crashed ranks, which stay stopped at their crash.

use nix::sys::signal::Signal;

use super::crasher;
use crate::members::Members;
use crate::process;
use crate::pty::{INTERRUPT, SUSPEND, Terminal};
use crate::run::wait_until;
use crate::suite::{Suite, skip};

const PROMPT: &str = "(mpigdb) ";
const OPENS: &str = "; the debugger opens there, the job ends when you quit it (q)\n";

/// A terminal with a job that crashes, and the file that makes some of its ranks crash.
struct Scene {
    terminal: Terminal,
    file: std::path::PathBuf,
}

impl Scene {
    /// Types `mpirun -on-crash gdb ARGUMENTS`.
    fn of(suite: &Suite, before: &str, arguments: &str) -> Self {
        let mut terminal = Terminal::with_shell(suite, "");
        terminal.enter(&format!("{before} $MPIRUN -on-crash gdb {arguments}"));
        Self { terminal, file: suite.path("work/now") }
    }

    /// A script in which ranks of the shell pattern `later` crash when the file exists, and ranks of `at_once`
    /// crash immediately. The other ranks wait.
    fn script(program: &str, later: &str, at_once: &str) -> String {
        format!(
            "sh -c 'case $PMI_RANK in \
             {later}) until test -e now; do sleep 0.01; done;; \
             {at_once}) ;; *) exec {program} wait;; esac; exec {program} segv'"
        )
    }

    fn now(&self) {
        std::fs::write(&self.file, "").expect("a file");
    }

    fn opens(&mut self, ranks: &str) {
        self.terminal.shows(&format!("mpirun: {ranks}"));
        self.terminal.shows(PROMPT);
    }

    /// Types a command at the prompt, and waits for its output and the next prompt.
    fn shows(&mut self, command: &str, text: &str) {
        self.terminal.enter(command);
        self.terminal.shows(&format!("{command}\n"));
        self.terminal.shows(text);
        self.terminal.shows(PROMPT);
    }

    /// Quits the session, after which the job ends.
    fn quits(mut self, code: i32, says: &str) {
        self.terminal.enter("q");
        self.terminal.shows(says);
        self.terminal.shows_prompt();
        assert_eq!(self.terminal.exit_code(), code);
        self.terminal.leave();
    }
}

#[test]
fn the_debugger_opens_at_a_crashed_rank_and_the_job_ends_after_quit() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    for (what, signal, place, code) in
        [("segv", "SIGSEGV", "in broken", 139), ("abort", "SIGABRT", "main (argc=3", 134)]
    {
        let mut scene = Scene::of(&suite, "", &format!("-n 3 {program} {what} 1"));
        scene.terminal.shows("mpirun: rank 1 of host ");
        scene.terminal.shows(&format!(": {signal}{OPENS}1: stopped in "));
        scene.terminal.shows(PROMPT);
        scene.shows("bt", place);
        scene.shows("print asleep", "1: $1 = 0\n");
        scene.shows("z ?", "1: stopped in");
        scene.quits(code, "rank 1: killed by signal");
        suite.no_job_is_left();
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn ranks_of_several_hosts_that_crash_together_share_one_session() {
    let program = crasher!();
    let ring = Members::new().option(&["--ncpus", "2"]).with(2);
    let rundir = format!("MPD_RUNDIR={}", ring.rundir(1).display());
    let script = Scene::script(&program, "1|2", "none");
    let mut scene = Scene::of(&ring.suite, &rundir, &format!("-n 4 {script}"));
    wait_until("the ranks that wait", || ring.suite.running("crasher").len() == 2);
    scene.now();
    let who = "rank 1 of host d1: SIGSEGV, rank 2 of host d2: SIGSEGV";
    scene.opens(&format!("{who}{OPENS}1-2: stopped in broken at crasher.c:"));
    scene.shows("print nowhere", "1-2: $1 = (const volatile int *) 0x0\n");
    scene.shows("z 2", "");
    scene.shows("up", "2: #1 ");
    scene.quits(139, "killed by signal 11");
    ring.suite.no_job_is_left();
}

#[test]
fn ranks_that_crash_later_get_a_separate_session() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    for (option, end) in [("", "the job ends"), ("-on-failure continue", "the job continues")] {
        let script = Scene::script(&program, "2", "0");
        let mut scene = Scene::of(&suite, "", &format!("{option} -n 3 {script}"));
        scene.opens("rank 0 of host ");
        assert!(scene.terminal.screen().contains(end), "{}", scene.terminal.screen());
        scene.now();
        wait_until("it has crashed", || held(&suite) == 2);
        scene.terminal.enter("q");
        scene.opens("rank 2 of host ");
        scene.shows("bt", "2: #0 ");
        if option.is_empty() {
            scene.quits(139, "killed by signal 11");
        } else {
            scene.terminal.enter("q");
            wait_until("one is left", || held(&suite) == 0);
            scene.terminal.press(INTERRUPT);
            scene.terminal.shows_prompt();
            scene.terminal.leave();
        }
        std::fs::remove_file(suite.path("work/now")).expect("the file");
        suite.no_job_is_left();
    }
    suite.only_the_daemon_is_left();
}

/// The job's mpirun. The debugger is its child and runs the same program.
fn mpirun_of_job(suite: &Suite) -> i32 {
    let both = suite.running("mpirun");
    let has_debugger = |one: &&process::Process| both.iter().any(|other| other.parent == one.pid);
    both.iter().find(has_debugger).expect("mpirun").pid
}

/// The number of processes that are stopped at a crash.
fn held(suite: &Suite) -> usize {
    let is_held = |process: &process::Process| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid));
        stat.is_ok_and(|stat| stat.contains(") T ") || stat.contains(") t "))
    };
    let programs = suite.running("crasher");
    programs.iter().filter(|program| is_held(program) && !is_waiting(program)).count()
}

fn is_waiting(process: &process::Process) -> bool {
    let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
    line.ends_with(b"\0wait\0")
}

#[test]
fn keys_go_to_the_debugger_while_it_is_open() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let mut scene = Scene::of(&suite, "", &format!("-n 2 {program} segv 0"));
    scene.opens("rank 0 of host ");
    scene.terminal.press(INTERRUPT);
    scene.shows("print 4 + 1", "0: $1 = 5\n");
    scene.terminal.press(SUSPEND);
    scene.terminal.shows("Stopped");
    scene.terminal.shows_prompt();
    scene.terminal.enter("fg");
    scene.terminal.shows("fg\n");
    scene.shows("print 4 + 2", "0: $2 = 6\n");
    scene.quits(139, "killed by signal 11");
    suite.only_the_daemon_is_left();
}

#[test]
fn gdba_to_a_traced_rank_without_a_crash_is_refused() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let mut scene = Scene::of(&suite, "", &format!("-a target -n 2 {program} segv 0"));
    scene.opens("rank 0 of host ");
    let out = suite.mpirun(["-gdba", "target", "-r", "1"]).input("quit\n").deadline(60).output();
    out.says(&["runs with -on-crash and has not crashed"]);
    scene.quits(139, "killed by signal 11");
    let job = super::caught(&suite, "1").args(["-a", "batch", &program, "wait"]).start();
    job.shows("waiting");
    let out = suite.mpirun(["-gdba", "batch"]).input("quit\n").deadline(60).output();
    out.says(&["its shim traces it"]);
    job.send(Signal::SIGINT);
    job.wait().code(130);
    suite.only_the_daemon_is_left();
}

#[test]
fn a_killed_mpirun_or_closed_terminal_leaves_nothing_of_an_opened_session() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    for signal in [Some(Signal::SIGKILL), Some(Signal::SIGTERM), None] {
        let mut scene = Scene::of(&suite, "", &format!("-n 3 {program} segv"));
        scene.opens("ranks 0-2 of host ");
        let Some(signal) = signal else {
            scene.terminal.hang_up();
            break;
        };
        process::send(mpirun_of_job(&suite), signal);
        scene.terminal.shows_prompt();
        suite.no_job_is_left_but(&["bash"]);
        scene.terminal.leave();
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn the_end_of_a_job_kills_ranks_stopped_at_a_crash() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    // Long enough that the debugger opens first, also on a busy machine.
    let mut scene = Scene::of(&suite, "", &format!("-timeout 8 -n 2 {program} segv"));
    scene.opens("ranks 0-1 of host ");
    scene.terminal.shows("longer than its limit");
    wait_until("they are gone", || suite.running("crasher").is_empty());
    scene.quits(124, "");
    suite.only_the_daemon_is_left();
}

#[test]
fn a_signal_ends_a_background_job_whose_debugger_waits() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let script = Scene::script(&program, "1", "none");
    let mut scene = Scene::of(&suite, "", &format!("-n 2 {script}"));
    wait_until("the rank that waits", || suite.running("crasher").len() == 1);
    scene.terminal.press(SUSPEND);
    scene.terminal.shows("Stopped");
    scene.terminal.enter("bg");
    scene.now();
    scene.terminal.shows("it waits for the foreground (fg)");
    let mpirun = suite.running("mpirun").first().expect("mpirun").pid;
    process::send(mpirun, Signal::SIGTERM);
    wait_until("the job has ended", || suite.running("mpirun").is_empty());
    suite.no_job_is_left_but(&["bash"]);
    scene.terminal.leave();
    suite.only_the_daemon_is_left();
}

#[test]
fn a_rank_with_several_crashing_processes_ends_after_quit() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let script = format!("sh -c 'for i in 1 2 3 4 5 6; do {program} segv; done; exit 7'");
    let mut scene = Scene::of(&suite, "", &format!("-n 1 {script}"));
    scene.opens("rank 0 of host ");
    scene.quits(7, "");
    suite.only_the_daemon_is_left();
}

#[test]
fn the_terminal_is_restored_when_mpirun_is_killed_during_a_session() {
    let program = crasher!();
    let suite = Suite::new();
    suite.start_daemon();
    let after = "until stty -a | grep -q \" icanon\"; do sleep 0.01; done; echo in order";
    // Shells other than bash do not reset the terminal.
    let mut scene = Scene::of(&suite, "sh -c '", &format!("-n 1 {program} segv; {after}'"));
    scene.opens("rank 0 of host ");
    process::send(mpirun_of_job(&suite), Signal::SIGKILL);
    scene.terminal.shows("\nin order");
    scene.terminal.shows_prompt();
    suite.no_job_is_left_but(&["bash"]);
    scene.terminal.leave();
    suite.only_the_daemon_is_left();
}

#[test]
fn a_debugger_that_cannot_open_is_reported_and_the_job_ends() {
    let program = crasher!();
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let script = Scene::script(&program, "1", "none");
    let mut scene = Scene::of(&suite, "", &format!("-n 2 {script}"));
    wait_until("the rank that waits", || suite.running("crasher").len() == 1);
    process::send(daemon.pid, Signal::SIGTERM);
    wait_until("the daemon is gone", || !suite.socket().exists());
    scene.now();
    scene.terminal.shows("the debugger opens there");
    scene.terminal.shows("mpigdb: cannot list the running jobs: no daemon is running");
    scene.terminal.shows("killed by signal 11");
    scene.terminal.shows_prompt();
    assert_eq!(scene.terminal.exit_code(), 139);
    scene.terminal.leave();
    suite.gone(&[]);
}

#[test]
fn without_a_daemon_the_debugger_also_opens_at_a_crash() {
    let program = crasher!();
    let suite = Suite::new();
    let mut scene = Scene::of(&suite, "", &format!("-n 3 {program} segv 1"));
    scene.opens("rank 1 of host ");
    scene.shows("bt", "in broken");
    scene.shows("print asleep", "1: $1 = 0\n");
    scene.quits(139, "rank 1: killed by signal");
    suite.gone(&[]);
}

#[test]
fn without_a_session_the_place_of_a_crash_is_reported_at_the_end() {
    let program = crasher!();
    let suite = Suite::new();
    let has_no_session = |option: &str, before: &str| {
        let mut scene = Scene::of(&suite, "", &format!("{option} -n 2 {program} segv 1"));
        scene.terminal.shows(before);
        scene.terminal.shows("positions of ranks at SIGSEGV:\n");
        scene.terminal.shows_prompt();
        assert_eq!(scene.terminal.exit_code(), 139);
        scene.terminal.leave();
    };
    let private = suite.rundir().join("private");
    std::fs::write(&private, "").expect("a file in the place of the directory");
    has_no_session("", "no debugger will open at a crash");
    suite.gone(&[]);
    std::fs::remove_file(private).expect("the file");
    suite.start_daemon();
    has_no_session("-batch", "");
    suite.only_the_daemon_is_left();
}
