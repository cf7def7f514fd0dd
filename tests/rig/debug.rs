//! `mpirun -d` across hosts: one session for the gdbs of all hosts.

use std::io::Write as _;
use std::path::Path;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use mpd_tests::surroundings::{setting, skip};
use nix::sys::signal::Signal;

use crate::jobs::booted;
use crate::mpi::test_environment;
use crate::process;
use crate::rig::{Rig, RigOptions, number};
use crate::run::{Run, Running, sample, wait_until};

/// How long a step of 64 ranks may take on a busy machine; the promise is one second.
const STEP: Duration = Duration::from_secs(20);

/// A session with commands from a pipe.
struct Session {
    job: Running,
    stdin: ChildStdin,
    done: usize,
}

impl Session {
    fn start(run: Run) -> Self {
        let mut job = run.deadline(300).input_pipe().start();
        let stdin = job.stdin();
        Self { job, stdin, done: 0 }
    }

    /// Runs commands and waits for the result of the last one. Returns the time of all commands.
    fn does(&mut self, commands: &[&str]) -> Duration {
        let begin = Instant::now();
        self.done += 1;
        for command in commands {
            writeln!(self.stdin, "{command}").expect("it reads");
        }
        let done = format!("done {}.", self.done);
        writeln!(self.stdin, "echo {done}\\n").expect("it reads");
        self.job.shows(&format!(": {done}\n"));
        begin.elapsed()
    }

    fn quits(self) -> String {
        let Self { job, mut stdin, .. } = self;
        writeln!(stdin, "quit").expect("it reads");
        let output = job.wait();
        output.code(0);
        output.out()
    }
}

/// The hosts and the program to debug, or `None` if one of them is not available.
fn hosts(count: usize) -> Option<(Rig, Vec<String>, String)> {
    let Some(directory) = setting("MPD_TEST_DEBUG_DIR") else {
        skip("no gdb, or no program to debug");
        return None;
    };
    let above = Path::new(&directory).parent().expect("a directory").display().to_string();
    let options = RigOptions { hosts: Some(count), share: vec![above], ..RigOptions::default() };
    let (rig, hosts) = booted(options)?;
    Some((rig, hosts, format!("{directory}/debuggee")))
}

fn debug(rig: &Rig, host: &str, ranks: usize, each: usize, program: &[&str]) -> Session {
    let (ranks, each) = (ranks.to_string(), each.max(1).to_string());
    let arguments = [&["-d", "-np", &ranks, "-ppn", &each][..], program].concat();
    Session::start(rig.mpirun(host, &arguments))
}

#[test]
fn a_session_of_mpi_ranks_on_four_hosts_reads_like_one_of_gdb() {
    let (Some(directory), Some(library)) =
        (setting("MPD_TEST_MPICH5_DIR"), setting("MPD_TEST_MPICH5_LIB"))
    else {
        return skip("MPICH 5 is not there");
    };
    let options = RigOptions { hosts: Some(4), share: test_environment(), ..RigOptions::default() };
    let Some((rig, hosts)) = booted(options) else { return };
    let program = format!("{directory}/world");
    for (ranks, each, sum) in [(3, 1, 6), (8, 2, 56)] {
        let arguments =
            ["-genv", "FI_PROVIDER", "tcp", "-genv", "LD_LIBRARY_PATH", &library, &program];
        let mut session = debug(&rig, &hosts[0], ranks, each, &arguments);
        let begin = Instant::now();
        session.does(&["break work", "run", "z 0", "next", "z", "next", "print twice"]);
        session.does(&["continue"]);
        let took = begin.elapsed().as_secs_f64();
        let shown = session.quits();
        let last = ranks - 1;
        let all = format!("0-{last}");
        for line in [
            format!("{all}: Breakpoint 1 at "),
            "0: Breakpoint 1, work (round=0) at world.c:13\n".into(),
            format!("{last}: Breakpoint 1, work (round={last}) at world.c:13\n"),
            format!("{all}: 13\t    int twice = round * 2;\n"),
            "0: 14\t    return twice;\n".into(),
            "0: 15\t}\n".into(),
            format!("{last}: $1 = {}\n", 2 * last),
            format!("sum {sum} of {ranks} ranks\n"),
            "[program exited normally]\n".into(),
        ] {
            assert!(shown.contains(&line), "{line}\n--\n{shown}");
        }
        rig.figure(&format!("a session of {ranks} MPI ranks under gdb: {took:.1} s"));
        rig.is_clean("after the session", &hosts);
    }
    rig.ends(&hosts[0]);
}

#[test]
fn a_step_of_sixty_four_ranks_prints_the_same_as_a_step_of_one() {
    let Some((rig, hosts, program)) = hosts(number("MPD_RIG_HOSTS", 4)) else { return };
    let ranks: usize = number("MPD_RIG_RANKS", sample(16, 64));
    let mut shown = Vec::new();
    for count in [1, ranks] {
        let begin = Instant::now();
        let mut session =
            debug(&rig, &hosts[0], count, ranks / hosts.len(), &[&program, "environment"]);
        session.does(&["break work"]);
        let started = begin.elapsed();
        let ran = session.does(&["run"]);
        let mut steps: Vec<Duration> = (0..5).map(|_| session.does(&["next"])).collect();
        steps.sort_unstable();
        session.does(&["continue", "continue"]);
        let out = session.quits();
        let [started, ran, median, worst] =
            [started, ran, steps[2], steps[4]].map(|time| time.as_secs_f64());
        rig.figure(&format!(
            "{count} ranks under gdb: first prompt after {started:.1} s, run to a breakpoint {ran:.2} s, \
             next and one command more {median:.3} s (worst of five {worst:.3} s), {} bytes shown",
            out.len()
        ));
        assert!(steps[2] < STEP, "{steps:?}");
        rig.is_clean("after the session", &hosts);
        shown.push(out);
    }
    let [one, all] = [shown[0].len(), shown[1].len()];
    assert!(all < 2 * one, "{all} bytes of {ranks} ranks, {one} of one:\n{}", shown[1]);
    rig.ends(&hosts[0]);
}

#[test]
fn a_power_cut_ends_a_debugger_session_with_the_name_of_the_host() {
    let Some((mut rig, hosts, program)) = hosts(number("MPD_RIG_HOSTS", 4)) else { return };
    let mut session = debug(&rig, &hosts[0], 8, 2, &[&program]);
    session.does(&["break work", "run", "next"]);
    rig.control(&["kill", &hosts[2]]);
    let begin = Instant::now();
    session.job.wait().failed().says(&[&hosts[2]]);
    let ended = begin.elapsed().as_secs_f64();
    let left: Vec<String> = hosts.iter().filter(|host| **host != hosts[2]).cloned().collect();
    rig.is_clean("power cut under a session", &left);
    let clean = begin.elapsed().as_secs_f64();
    rig.figure(&format!(
        "power cut under a session: it ended after {ended:.1} s, all clean after {clean:.1} s"
    ));
    rig.ends(&hosts[0]);
}

#[test]
fn a_killed_mpirun_of_a_session_leaves_no_gdb_and_no_program() {
    let Some((rig, hosts, program)) = hosts(number("MPD_RIG_HOSTS", 4)) else { return };
    for runs in [false, true] {
        let mut session =
            debug(&rig, &hosts[0], 8, 2, &[&program, if runs { "threads" } else { "" }]);
        session.does(&["break work", if runs { "print 1" } else { "run" }]);
        if runs {
            writeln!(session.stdin, "run").expect("it reads");
            session.job.shows(": spinning\n");
        }
        let of_the_session = |name: &str| {
            let found = rig.processes(&hosts).into_iter().map(|found| found.process);
            found.filter(|process| process.runs(name)).collect::<Vec<_>>()
        };
        wait_until("all programs", || of_the_session("debuggee").len() == 8);
        let console = of_the_session("mpirun").pop().expect("mpirun");
        process::send(console.pid, Signal::SIGKILL);
        let took = rig.is_clean("kill -9 of mpirun under a session", &hosts);
        let took = took.as_secs_f64();
        rig.figure(&format!("kill -9 of mpirun under a session: all clean after {took:.1} s"));
    }
    rig.ends(&hosts[0]);
}
