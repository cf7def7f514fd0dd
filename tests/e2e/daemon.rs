//! The daemon continues whatever a console does, and only one daemon serves a run directory.

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mpd_tests::random::Random;
use mpd_tests::surroundings::setting;
use nix::sys::signal::Signal;

use crate::process::{self, Process};
use crate::run::{Run, comes_true, sample, wait_until};
use crate::signals::Recorders;
use crate::suite::{Suite, is_root, skip};

#[test]
fn a_daemon_serves_as_soon_as_its_command_returns() {
    let suite = Suite::new();
    for _ in 0..sample(10, 100) {
        let daemon = suite.start_daemon();
        assert!(UnixStream::connect(suite.socket()).is_ok());
        process::send(daemon.pid, Signal::SIGTERM);
        wait_until("it has ended", || suite.processes().is_empty());
        assert!(!suite.socket().exists(), "its socket is gone with it");
    }
}

#[test]
fn ps_and_pgrep_find_daemons_managers_and_shims_by_name() {
    for has_daemon in [true, false] {
        let suite = Suite::new();
        if has_daemon {
            assert_eq!(suite.start_daemon().name, "mpd");
        }
        let watched = setting("MPD_TEST_GDB").is_some();
        let arguments: &[&str] = if watched { &["-on-crash", "gdb"] } else { &[] };
        let job = suite.mpirun(arguments).args(["-n", "2", "sleep", "60"]).start();
        let mut expected = vec!["mpd", "mpdman", "mpirun", "sleep", "sleep"];
        if watched {
            expected.extend(["mpdshim", "mpdshim"]);
        }
        expected.sort_unstable();
        wait_until("every process has its name", || {
            let mut names: Vec<_> = suite.processes().into_iter().map(|p| p.name).collect();
            names.sort_unstable();
            names == expected
        });
        job.send(Signal::SIGTERM);
        job.wait();
    }
}

#[test]
fn the_status_of_a_daemon_shows_its_pid_and_its_jobs() {
    let suite = Suite::new();
    assert_eq!(suite.status_output().failed().exit_code(), Some(1), "no daemon yet");
    let daemon = suite.start_daemon_with(&["--name", "my-ring"]);
    assert_eq!(suite.status()["name"], "my-ring");
    assert!(suite.managers().is_empty());
    let (recorders, job) = Recorders::start(&suite, 2, "d");
    assert_eq!(suite.managers(), [suite.manager().pid]);
    assert!(suite.status()["jobs"][0]["job"].is_string());
    recorders.stop();
    job.wait().code(0);
    wait_until("the job is forgotten", || suite.managers().is_empty());
    assert_eq!(suite.daemon().pid, daemon.pid);
}

#[test]
fn a_second_daemon_of_a_run_directory_is_refused_with_a_reason() {
    let suite = Suite::new();
    let first = suite.start_daemon();
    for arguments in [&["--daemon"][..], &[]] {
        let output = suite.mpd(arguments).output();
        output.failed().says(&[&suite.rundir().display().to_string()]).brief();
    }
    assert_eq!(suite.daemon().pid, first.pid);
}

#[test]
fn a_daemon_replaces_a_stale_socket() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    process::send(daemon.pid, Signal::SIGKILL);
    wait_until("it is dead", || suite.processes().is_empty());
    assert!(suite.socket().exists());
    assert_eq!(suite.status_output().exit_code(), Some(1));
    // mpirun also works with a stale socket.
    suite.mpirun(["-n", "2", "echo", "x"]).output().code(0).quiet().prints("x\nx\n");
    assert_ne!(suite.start_daemon().pid, daemon.pid);
    suite.mpirun(["-n", "2", "echo", "x"]).output().code(0).quiet().prints("x\nx\n");
}

#[test]
fn an_unusable_run_directory_is_named_in_the_error() {
    let suite = Suite::new();
    let long = format!("/tmp/{}", "x".repeat(200));
    for directory in ["/proc/no-such/dir", "/dev/null", long.as_str()] {
        let output = suite.mpd(&["--daemon", "--rundir", directory]).output();
        output.failed().says(&[directory]).brief();
    }
    assert!(!std::path::Path::new(&long).exists(), "nothing is made where it cannot serve");
}

#[test]
fn a_run_directory_open_to_other_users_is_refused_or_closed() {
    let suite = Suite::new();
    suite.allow("run", 0o777);
    let output = suite.mpd(&["--daemon"]).output();
    if output.exit_code() == Some(0) {
        let mode = std::fs::metadata(suite.rundir()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "served in a directory that others may enter");
        process::send(suite.daemon().pid, Signal::SIGTERM);
    } else {
        output.says(&[&suite.rundir().display().to_string()]).brief();
    }
}

#[test]
fn sigterm_sigint_and_sighup_end_a_daemon_and_remove_its_files() {
    let suite = Suite::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let log = suite.path("foreground.log").display().to_string();
        let daemon = suite.mpd(&["--log-file", &log]).start();
        wait_until("it serves", || suite.status_output().exit_code() == Some(0));
        assert_eq!(suite.daemon().pid, daemon.pid());
        daemon.send(signal);
        daemon.wait().code(0);
        assert!(!suite.socket().exists());
        suite.gone(&[]);
    }
}

#[test]
fn a_signal_at_the_moment_when_the_socket_appears_removes_it_again() {
    let suite = Suite::new();
    let log = suite.path("foreground.log").display().to_string();
    for _ in 0..20 {
        let daemon = suite.mpd(&["--log-file", &log]).start();
        let begin = Instant::now();
        // Without a pause: the daemon is still starting.
        while !suite.socket().exists() {
            assert!(begin.elapsed() < Duration::from_secs(60), "no socket");
        }
        daemon.send(Signal::SIGTERM);
        daemon.wait().code(0);
        assert!(!suite.socket().exists());
    }
    suite.gone(&[]);
}

#[test]
fn invalid_bytes_from_consoles_affect_neither_daemon_nor_jobs() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let (recorders, job) = Recorders::start(&suite, 2, "d");
    let mut random = Random::new(99);
    for _ in 0..sample(200, 10_000) {
        let mut console = UnixStream::connect(suite.socket()).expect("it serves");
        let length = random.size(100_000);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.bits().to_le_bytes()[0]).collect();
        if random.below(2) == 0 && length > 5 {
            // A correct header with invalid content.
            let inside = u32::try_from(length - 4).expect("it is short").to_be_bytes();
            bytes[..4].copy_from_slice(&inside);
            bytes[4] = 0;
        }
        // The daemon may close at the first bytes.
        let _ = console.write_all(&bytes);
    }
    assert_serves(&suite, &daemon);
    recorders.stop();
    job.wait().code(0).quiet();
    suite.only_the_daemon_is_left();
}

#[test]
fn a_daemon_closes_the_connection_of_a_console_that_sends_invalid_bytes() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    for bytes in
        [&b"\xff\xff\xff\xff\x00"[..], b"GET / HTTP/1.0\r\n\r\n", &[0; 64], b"\0\0\0\x06\0{x:1}"]
    {
        let mut console = UnixStream::connect(suite.socket()).expect("it serves");
        console.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        console.write_all(bytes).expect("it reads");
        let mut answer = Vec::new();
        let ended = console.read_to_end(&mut answer);
        let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(ended.as_ref().map_or_else(reset, |_| true), "{bytes:?}: {ended:?}");
    }
    assert_serves(&suite, &daemon);
}

#[test]
fn consoles_that_send_half_a_frame_or_nothing_delay_no_other_console() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let mut silent = Vec::new();
    for number in 0..50 {
        let mut console = UnixStream::connect(suite.socket()).expect("it serves");
        if number % 2 == 0 {
            console.write_all(&[0, 0, 1, 0, 0, b'{']).expect("it reads");
        }
        silent.push(console);
    }
    assert_serves(&suite, &daemon);
    drop(silent);
    assert_serves(&suite, &daemon);
    let few = daemon.descriptors();
    assert!(comes_true(Duration::from_secs(10), || daemon.descriptors() <= few.min(32)));
}

#[test]
fn an_mpirun_killed_at_any_moment_leaves_no_process() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let mut random = Random::new(7);
    for _ in 0..sample(40, 1_000) {
        let job = suite.mpirun(["-n", "4", "sleep", "60"]).start();
        // At any moment of its start or of its run.
        std::thread::sleep(Duration::from_micros(random.bits() % 20_000));
        // The drop kills it and waits for its end.
        drop(job);
    }
    suite.only_the_daemon_is_left();
    assert_serves(&suite, &daemon);
}

#[test]
fn a_daemon_outlives_the_shell_that_started_it() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let parent = Process::read(daemon.pid).expect("it lives").parent;
    assert_ne!(parent, i32::try_from(std::process::id()).expect("a pid"));
    let session = std::fs::read_to_string(format!("/proc/{}/stat", daemon.pid)).expect("stat");
    let (_, fields) = session.rsplit_once(')').expect("a name");
    let fields: Vec<_> = fields.split_whitespace().collect();
    assert_eq!(fields[3], daemon.pid.to_string(), "it leads a session of its own");
    assert_eq!(fields[4], "0", "it has no terminal");
    for (number, target) in
        [0, 1].map(|n| (n, std::fs::read_link(format!("/proc/{}/fd/{n}", daemon.pid))))
    {
        assert_eq!(target.expect("a descriptor").to_string_lossy(), "/dev/null", "{number}");
    }
}

#[test]
fn a_daemon_does_not_answer_another_user() {
    if !is_root() {
        return skip("another user's console: needs root, to become another user");
    }
    let suite = Suite::as_user(60_204);
    suite.start_daemon();
    // Even if the directories permit access.
    for path in ["", "bin", "run", "run/mpd.sock"] {
        suite.allow(path, 0o777);
    }
    let rundir = suite.rundir().display().to_string();
    let run = suite.as_self(suite.program("t-run")).arg("uid=60205").directory("/");
    let output = run.arg(suite.program("mpd")).args(["--status", "--rundir", &rundir]).output();
    output.failed();
    assert!(!output.out().contains("\"pid\""), "{output}");
    suite.allow("run", 0o700);
    suite.status();
}

fn assert_serves(suite: &Suite, daemon: &Process) {
    assert_eq!(suite.daemon().pid, daemon.pid, "the same daemon as before");
    suite.mpirun(["-n", "2", "echo", "x"]).output().code(0).quiet().prints("x\nx\n");
}

#[test]
fn a_relative_run_directory_is_resolved_in_the_callers_directory() {
    let suite = Suite::new();
    let socket = suite.path("work/r/mpd.sock");
    let asked = |run: Run| run.output().exit_code() == Some(0);
    let job = || suite.mpirun(["-n", "2", "echo", "x"]).env("MPD_RUNDIR", "r");
    for option in [true, false] {
        let daemon = |arguments: &[&str]| {
            let run = suite.mpd(arguments);
            if option { run.args(["--rundir", "r"]) } else { run.env("MPD_RUNDIR", "r") }
        };
        let log = suite.path("relative.log").display().to_string();
        let running = daemon(&["--log-file", &log]).start();
        wait_until("it serves", || asked(daemon(&["--status"])));
        job().output().code(0).quiet().prints("x\nx\n");
        assert!(socket.exists());
        running.send(Signal::SIGTERM);
        running.wait().code(0);
        assert!(!socket.exists(), "its socket is gone with it");
        daemon(&["--daemon", "--log-file", &log]).output().code(0);
        job().output().code(0).quiet().prints("x\nx\n");
        let serving = suite.processes().into_iter().find(Process::is_daemon).expect("a daemon");
        process::send(serving.pid, Signal::SIGTERM);
        suite.gone(&[]);
        assert!(!socket.exists(), "its socket is gone with it");
    }
}

#[test]
fn a_job_runs_although_the_default_run_directory_belongs_to_another_user() {
    if !is_root() {
        return skip("directories of two users: needs root, to be both");
    }
    let suite = Suite::as_user(60_206);
    for directory in ["theirs", "theirs/mpd"] {
        suite.new_directory(directory);
        chown(suite.path(directory), Some(60_202), Some(60_202)).expect("chown");
    }
    let job = || {
        let run = suite.mpirun(["-n", "2", "echo", "x"]).without_env("MPD_RUNDIR");
        run.env("XDG_RUNTIME_DIR", suite.path("theirs")).output()
    };
    job().code(0).quiet().prints("x\nx\n");
    // The next candidate directory. The job created it, so that consoles find the job, and removed it.
    let host = suite.command("hostname").output().out();
    let name = format!("mpd-60206-{}", host.trim());
    assert!(
        !std::fs::exists(format!("/tmp/{name}")).expect("/tmp"),
        "the run directory of the job"
    );
    let taken = tempfile::Builder::new()
        .prefix(&name)
        .rand_bytes(0)
        .tempdir_in("/tmp")
        .expect("a directory of root");
    let name = taken.path().display().to_string();
    job().code(0).says(&[&name]).brief().prints("x\nx\n");
    let run = suite.mpirun(["-n", "2", "true"]).env("MPD_RUNDIR", &name);
    run.output().code(125).says(&[&name]).brief();
    suite.gone(&[]);
}
