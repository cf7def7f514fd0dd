//! Jobs without a daemon: consoles of the run directory find and reach them like jobs of a normal daemon.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use mpd_tests::surroundings::setting;
use mpd_wire::frame;
use mpd_wire::message::{Opening, RingRequest, VERSION};
use nix::sys::signal::Signal;

use crate::process::{self, Process};
use crate::run::{Output, Run, Running, wait_until};
use crate::suite::{Suite, is_root, skip};

/// A console of the run directory.
fn console(suite: &Suite, name: &str, arguments: &[&str]) -> Run {
    suite.command(suite.program(name)).args(arguments)
}

/// The listed jobs: a line `PID SID` for each process.
fn listed(suite: &Suite, arguments: &[&str]) -> Vec<String> {
    let output = console(suite, "mpdlistjobs", arguments).arg("--tree").output();
    let lines = output.code(0).quiet().out();
    lines.lines().map(|line| line.trim().to_owned()).collect()
}

/// The sockets of private rings.
fn sockets(suite: &Suite) -> Vec<PathBuf> {
    let entries = fs::read_dir(suite.rundir().join("private")).into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    sockets.map(|entry| entry.path()).collect()
}

/// A job that sleeps after it has printed `up`, and its name.
fn sleeping(suite: &Suite, options: &[&str]) -> (Running, String) {
    let arguments = ["sh", "-c", "echo up; exec sleep 1000"];
    let job = suite.mpirun(options).args(arguments).deadline(60).start();
    job.shows("up");
    let name = format!("p{}", job.pid());
    // The manager reports its ranks to the daemon independently of the console.
    wait_until("it is listed", || {
        listed(suite, &["-j", &name]).iter().any(|line| line.starts_with("rank "))
    });
    (job, name)
}

fn ended_on_request(job: Running) {
    job.wait().failed().says(&["killed on request"]);
}

#[test]
fn consoles_list_signal_and_kill_jobs_without_a_daemon_by_name() {
    let suite = Suite::new();
    let (first, one) = sleeping(&suite, &["-n", "2"]);
    let (second, two) = sleeping(&suite, &["-n", "1", "-a", "ocean"]);
    let all = listed(&suite, &[]);
    let heads = |all: &[String]| all.iter().filter(|l| l.contains(" of ")).count();
    assert_eq!(heads(&all), 2, "{all:?}");
    assert!(all.iter().any(|l| l.starts_with(&format!("{one}@"))), "{all:?}");
    assert_eq!(all.iter().filter(|l| l.starts_with("rank ")).count(), 3, "{all:?}");
    assert_eq!(heads(&listed(&suite, &["-a", "ocean"])), 1);
    console(&suite, "mpdsigjob", &["INT", "-j", &one]).output().code(0).quiet();
    first.wait().code(130);
    console(&suite, "mpdkilljob", &["-a", "ocean"]).output().code(0).quiet();
    ended_on_request(second);
    assert!(sockets(&suite).is_empty(), "a daemon removes its socket");
    console(&suite, "mpdkilljob", &[&two]).output().code(1).brief().says(&["no job p"]);
    suite.gone(&[]);
}

#[test]
fn consoles_accept_the_job_id_that_mpirun_prints() {
    let suite = Suite::new();
    let arguments = ["-v", "-n", "1", "sh", "-c", "echo up; exec sleep 1000"];
    let job = suite.mpirun(arguments).start();
    job.shows("up");
    let printed =
        || job.stderr().split_whitespace().find(|word| word.contains('@')).map(str::to_owned);
    wait_until("mpirun prints the id", || printed().is_some());
    let id = printed().expect("an id");
    assert!(id.starts_with(&format!("p{}@", job.pid())), "{id}");
    console(&suite, "mpdkilljob", &[&id]).output().code(0).quiet();
    ended_on_request(job);
    suite.gone(&[]);
}

#[test]
fn private_jobs_are_listed_with_daemon_jobs_and_ambiguous_names_refused() {
    let suite = Suite::new();
    let (private, name) = sleeping(&suite, &["-n", "1", "-a", "ocean"]);
    suite.start_daemon();
    let arguments = ["-n", "1", "-a", "ocean", "sh", "-c", "echo up; exec sleep 1000"];
    let standing = suite.mpirun(arguments).deadline(60).start();
    standing.shows("up");
    wait_until("both are listed", || {
        let all = listed(&suite, &[]);
        let of = |start: &str| all.iter().any(|l| l.starts_with(start) && l.contains("'ocean'"));
        of("1@") && of(&format!("{name}@"))
    });
    for arguments in [&["mpdkilljob", "-a", "ocean"][..], &["mpdsigjob", "INT", "-a", "ocean"]] {
        let refused = console(&suite, arguments[0], &arguments[1..]).output();
        refused.code(1).brief().says(&["there are several: 1@", &format!("{name}@"), "by its id"]);
    }
    let refused = suite.mpirun(["-stacks", "ocean"]).output();
    refused.code(125).brief().says(&["there are several: 1@", &format!("{name}@")]);
    console(&suite, "mpdkilljob", &["1"]).output().code(0).quiet();
    ended_on_request(standing);
    // The daemon reaps the manager independently of the end of mpirun.
    wait_until("one of them is left", || {
        listed(&suite, &[]).iter().filter(|line| line.contains("'ocean'")).count() == 1
    });
    console(&suite, "mpdkilljob", &["-a", "ocean"]).output().code(0).quiet();
    ended_on_request(private);
    suite.only_the_daemon_is_left();
}

#[test]
fn no_console_suggests_to_start_a_daemon_while_a_private_job_runs() {
    let suite = Suite::new();
    let advice =
        |name: &str, arguments: &[&str]| console(&suite, name, arguments).output().code(1).err();
    assert!(advice("mpdtrace", &[]).contains("start one with 'mpd --daemon'"));
    let (job, name) = sleeping(&suite, &["-n", "1"]);
    for (program, arguments) in
        [("mpdtrace", &[][..]), ("mpdtop", &["--once"]), ("mpdkilljob", &["7"]), ("mpdnames", &[])]
    {
        let error = advice(program, arguments);
        assert!(error.contains(&name) && !error.contains("mpd --daemon"), "{error}");
    }
    job.send(Signal::SIGTERM);
    job.wait().code(143);
    suite.gone(&[]);
}

#[test]
fn mpdstdin_switches_the_input_of_a_private_job_to_another_rank() {
    let suite = Suite::new();
    let arguments =
        ["-n", "2", "-s", "none", "-stdin-switch", "-l", "sh", "-c", "echo up; exec cat"];
    let mut job = suite.mpirun(arguments).input_pipe().start();
    job.shows("0: up").shows("1: up");
    let name = format!("p{}", job.pid());
    let switch = || console(&suite, "mpdstdin", &[&name, "1"]).output();
    // The manager reports its pipes to the daemon independently of the console.
    wait_until("it is switched", || switch().exit_code() == Some(0));
    job.stdin().write_all(b"hello\n").expect("mpirun reads");
    let output = job.wait();
    output.code(0);
    assert_eq!(output.sorted_lines(), ["0: up", "1: hello", "1: up"]);
    suite.gone(&[]);
}

/// The program that waits until a debugger releases it; `None` if gdb is not installed.
fn patient() -> Option<String> {
    setting("MPD_TEST_GDB")?;
    Some(format!("{}/patient", setting("MPD_TEST_DEBUG_DIR")?))
}

macro_rules! patient {
    () => {
        match patient() {
            Some(program) => program,
            None => return skip("no gdb, or no program to debug"),
        }
    };
}

#[test]
fn stacks_and_gdba_work_for_a_private_job() {
    let program = patient!();
    let suite = Suite::new();
    let job = suite.mpirun(["-n", "2", &program]).deadline(120).start();
    let name = format!("p{}", job.pid());
    wait_until("both ranks", || job.stdout().matches("ready").count() == 2);
    let stacks = suite.mpirun(["-stacks", &name]).deadline(60).output();
    assert!(stacks.code(0).quiet().out().contains("0-1: main"), "{stacks}");
    let look = suite.mpirun(["-gdba", &name]).input("print answer\nquit\n").deadline(60).output();
    assert!(look.code(0).out().contains("1: $1 = 43\n"), "{look}");
    suite.mpirun(["-gdba", &name]).input("detach\n").deadline(60).output().code(0);
    // The ranks run again, and end when they are released. That also ends the session which has released them.
    let mut last = suite.mpirun(["-gdba", &name]).input_pipe().deadline(60).start();
    let mut input = last.stdin();
    input.write_all(b"set var released = 1\ndetach\n").expect("the session reads");
    job.wait().code(3);
    drop(input);
    last.wait();
    suite.gone(&[]);
}

#[test]
fn an_open_debugger_does_not_delay_the_end_of_a_private_job() {
    let program = patient!();
    let suite = Suite::new();
    let job = suite.mpirun(["-n", "1", &program]).deadline(60).start();
    job.shows("ready");
    let name = format!("p{}", job.pid());
    let mut session = suite.mpirun(["-gdba", &name]).input_pipe().deadline(60).start();
    session.shows("stopped in");
    let mut input = session.stdin();
    input.write_all(b"set var released = 1\ncontinue\n").expect("the session reads");
    job.wait().code(3);
    // The session's input is still open.
    session.wait().failed().says(&["killed on request"]);
    drop(input);
    suite.gone(&[]);
}

#[test]
fn a_private_ring_refuses_other_jobs_and_exit_requests() {
    let suite = Suite::new();
    let (job, _) = sleeping(&suite, &["-n", "1"]);
    // A run directory whose daemon is the private daemon.
    let false_one = suite.new_directory("false");
    suite.allow("false", 0o700);
    symlink(&sockets(&suite)[0], suite.path("false/mpd.sock")).expect("a link");
    let asked = |run: Run| -> Output { run.env("MPD_RUNDIR", &false_one).output() };
    let refused = asked(suite.mpirun(["-n", "1", "touch", "ran"]));
    refused.code(125).says(&["the job of one mpirun"]);
    assert!(!suite.path("work/ran").exists());
    for program in ["mpdallexit", "mpdtrace", "mpdnames"] {
        asked(console(&suite, program, &[])).code(1).says(&["the job of one mpirun"]);
    }
    asked(suite.mpd(&["--status"])).failed().says(&["the job of one mpirun"]);
    assert!(job.process().is_alive());
    job.send(Signal::SIGTERM);
    job.wait().code(143);
    suite.gone(&[]);
}

/// Connects to a socket, sends bytes, and prints whether an answer arrived.
const ASK: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try:
    s.sendall(bytes.fromhex(sys.argv[2]))
    print('answered' if s.recv(1) else 'closed')
except (BrokenPipeError, ConnectionResetError):
    print('closed')
";

#[test]
fn another_user_gets_no_answer_from_a_private_ring() {
    if !is_root() {
        return skip("another user's console: needs root, to become another user");
    }
    let suite = Suite::as_user(60_211);
    let job = suite.mpirun(["-n", "1", "sh", "-c", "echo up; exec sleep 1000"]).start();
    job.shows("up");
    let sockets = sockets(&suite);
    let [socket] = &sockets[..] else { panic!("{sockets:?}") };
    let mut request = Vec::new();
    let opening = Opening::Ring { version: VERSION, request: RingRequest::Jobs };
    frame::encode_message(&opening, &mut request);
    let request = mpd_wire::hex::encode(&request);
    let ask = |user: &str| {
        let run = suite.as_self(suite.program("t-run")).arg(user).directory("/");
        let socket = socket.to_str().expect("a path");
        run.args(["python3", "-c", ASK, socket, &request]).deadline(30).output()
    };
    ask("uid=60211").code(0).prints("answered\n");
    ask("uid=60212").failed().says(&["PermissionError"]);
    // Even if the directories permit access.
    ["run", "run/private"].into_iter().for_each(|path| suite.allow(path, 0o777));
    suite.allow(socket, 0o777);
    ask("uid=60212").code(0).prints("closed\n");
    ["run", "run/private"].into_iter().for_each(|path| suite.allow(path, 0o700));
    ask("uid=60211").code(0).prints("answered\n");
    job.send(Signal::SIGTERM);
    job.wait().code(143);
}

#[test]
fn the_next_console_removes_only_the_socket_of_a_killed_daemon() {
    let suite = Suite::new();
    let (killed, name) = sleeping(&suite, &["-n", "1"]);
    let daemon = suite.processes().into_iter().find(Process::is_daemon).expect("a daemon");
    let (other, other_name) = sleeping(&suite, &["-n", "1"]);
    process::send(daemon.pid, Signal::SIGKILL);
    killed.send(Signal::SIGTERM);
    killed.wait().failed();
    assert_eq!(sockets(&suite).len(), 2);
    let all = listed(&suite, &[]);
    assert!(!all.iter().any(|line| line.starts_with(&name)), "{all:?}");
    assert_eq!(sockets(&suite), [suite.rundir().join("private").join(&other_name)]);
    console(&suite, "mpdkilljob", &[&other_name]).output().code(0).quiet();
    ended_on_request(other);
    suite.gone(&[]);
}

#[test]
fn with_an_unwritable_run_directory_a_job_runs_unlisted() {
    let suite = if is_root() { Suite::as_user(60_213) } else { Suite::new() };
    suite.allow("run", 0o500);
    suite.mpirun(["-n", "2", "echo", "x"]).output().code(0).quiet().prints("x\nx\n");
    suite.allow("run", 0o700);
    assert!(!suite.rundir().join("private").exists());
    // A file in the place of the directory is also not writable.
    fs::write(suite.rundir().join("private"), "").expect("a file");
    suite.mpirun(["-n", "2", "echo", "x"]).output().code(0).quiet().prints("x\nx\n");
}

#[test]
fn a_missing_run_directory_is_created_with_mode_700() {
    let suite = Suite::new();
    let rundir = suite.path("tmp/new");
    let job = suite.mpirun(["-n", "1", "sh", "-c", "echo up; exec sleep 1000"]);
    let job = job.env("MPD_RUNDIR", &rundir).start();
    job.shows("up");
    for path in [rundir.clone(), rundir.join("private")] {
        let mode = fs::metadata(&path).expect("it was made").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", path.display());
    }
    let name = format!("p{}", job.pid());
    let kill = console(&suite, "mpdkilljob", &[&name]).env("MPD_RUNDIR", &rundir);
    kill.output().code(0).quiet();
    ended_on_request(job);
    fs::remove_dir_all(rundir).expect("an unused directory");
    suite.gone(&[]);
}

#[test]
fn a_umask_without_owner_permissions_does_not_affect_a_private_job() {
    let suite = Suite::new();
    let run = suite.command(suite.program("t-run")).arg("umask=777").arg(suite.program("mpirun"));
    let job = run.args(["-n", "1", "sh", "-c", "echo up; exec sleep 1000"]).start();
    job.shows("up");
    let sockets = sockets(&suite);
    let mode = fs::metadata(&sockets[0]).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let name = format!("p{}", job.pid());
    console(&suite, "mpdkilljob", &[&name]).output().code(0).quiet();
    ended_on_request(job);
}

/// The system calls of a daemon that name an object of its private ring in the run directory. The trace shows
/// the descriptor of the socket with its path.
fn calls_for_the_listing(suite: &Suite, strace: &str) -> Vec<String> {
    let run = suite.command(strace).args(["-f", "-yy", "-o", "trace", "-e", "trace=!execve"]);
    let run = run.arg(suite.program("mpirun")).args(["-n", "1", "true"]);
    run.deadline(120).output().code(0);
    let trace = fs::read_to_string(suite.path("work/trace")).expect("a trace");
    let directory = suite.rundir().join("private").display().to_string();
    let calls = trace.lines().filter(|line| line.contains(&directory));
    let calls: Vec<(&str, &str)> = calls.filter_map(|line| line.split_once(' ')).collect();
    // A child uses the same numbers for other descriptors.
    let daemon = calls.iter().find(|(_, call)| call.trim_start().starts_with("bind("));
    let daemon = daemon.expect("a socket").0;
    calls.iter().filter(|(pid, _)| *pid == daemon).map(|(_, call)| (*call).to_owned()).collect()
}

#[test]
fn listing_a_private_job_costs_six_system_calls_and_two_for_its_directory() {
    let Some(strace) = setting("MPD_TEST_STRACE") else { return skip("no strace") };
    let suite = Suite::new();
    let socket = 1;
    let alone = calls_for_the_listing(&suite, &strace);
    assert!(alone.len() + socket <= 8, "{alone:#?}");
    let (other, name) = sleeping(&suite, &["-n", "1"]);
    let beside = calls_for_the_listing(&suite, &strace);
    assert!(beside.len() + socket <= 6, "{beside:#?}");
    console(&suite, "mpdkilljob", &[&name]).output().code(0).quiet();
    ended_on_request(other);
}

#[test]
fn the_last_private_job_removes_an_empty_default_run_directory() {
    let suite = Suite::new();
    let session = suite.path("tmp/session");
    fs::create_dir(&session).expect("a directory");
    suite.allow("tmp/session", 0o700);
    let job = |arguments: &[&str]| {
        let run = suite.mpirun(arguments).without_env("MPD_RUNDIR");
        run.env("XDG_RUNTIME_DIR", &session)
    };
    let first = job(&["-n", "1", "sh", "-c", "echo up; exec sleep 1000"]).deadline(60).start();
    first.shows("up");
    job(&["-n", "1", "true"]).output().code(0).quiet();
    assert!(session.join("mpd/private").exists(), "another job uses it");
    first.send(Signal::SIGTERM);
    first.wait().code(143);
    assert_eq!(fs::read_dir(&session).expect("it is there").count(), 0);
    // Consoles find jobs that begin while others end, and at last no job is left.
    let many: Vec<Running> =
        (0..12).map(|_| job(&["-n", "1", "true"]).deadline(60).start()).collect();
    for job in many {
        job.wait().code(0).quiet();
    }
    assert_eq!(fs::read_dir(&session).expect("it is there").count(), 0);
    // A directory that its user chose stays.
    suite.mpirun(["-n", "1", "true"]).output().code(0).quiet();
    assert!(suite.rundir().exists() && !suite.rundir().join("private").exists());
    fs::remove_dir(session).expect("it is empty");
    suite.gone(&[]);
}
