//! Recordings of daemons and managers: they replay, they are private, and they hold no secrets. A recording
//! that fails does not affect its program.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use mpd_wire::message::{Payload, RingRequest};

use crate::attacker::key_in;
use crate::members::Members;
use crate::run::{Output, wait_until};
use crate::suite::Suite;

const SECRET: &str = "the value of a variable that stays at home";

fn recording(ring: &Members, index: usize) -> PathBuf {
    ring.suite.path(format!("d{index}.recording"))
}

/// Two daemons that record.
fn recorded_ring() -> Members {
    let ring = Members::new();
    for index in 1..=2 {
        let entry = ring.indices().first().map(|first| ring.member(*first).address.to_string());
        let join = entry.iter().flat_map(|entry| ["--join", entry]);
        let command = ring.mpd(index).args(["--ncpus", "2"]).args(join);
        ring.started(index, command.arg("--record").arg(recording(&ring, index)));
    }
    ring.agree();
    ring
}

fn replay(suite: &Suite, path: &Path, more: &[&str]) -> Output {
    suite.command(suite.program("mpd")).arg("--replay").arg(path).args(more).output()
}

/// The recordings of managers in a directory.
fn recordings_in(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

fn is_private(path: &Path) -> bool {
    fs::metadata(path).expect("a recording").permissions().mode() & 0o777 == 0o600
}

#[test]
fn recordings_of_ring_and_job_replay_and_are_private_without_secrets() {
    let ring = recorded_ring();
    let directory = ring.suite.new_directory("recordings");
    let key = key_in(&ring.suite.path("home/key"));
    let env = ring.suite.program("t-env");
    let arguments = ["-record", &directory, "-n", "4", &env, "MPD_JOB_COOKIE", "MY_SECRET"];
    let job = ring.mpirun(1, &arguments).env("MY_SECRET", SECRET).output();
    let text = job.code(0).out();
    let variable = text.lines().find_map(|line| line.strip_prefix("env MPD_JOB_COOKIE "));
    let mark = variable.and_then(|value| value.rsplit(' ').next()).map(decoded);
    let mark = mark.unwrap_or_else(|| panic!("no cookie: {text}"));
    // The number of the host follows.
    let cookie = &mark[..32];
    let managers = recordings_in(&directory);
    let names = managers.iter().map(|path| path.file_name().expect("a name").to_string_lossy());
    assert_eq!(names.collect::<Vec<_>>(), ["1@d1.d1.recording", "1@d1.d2.recording"]);
    drop(ring.ask(1, RingRequest::ExitAll));
    ring.indices().into_iter().for_each(|index| ring.forget(index));

    let daemons = [1, 2].map(|index| recording(&ring, index));
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let base64 = String::from(Payload::from(SECRET.as_bytes()));
    let secrets = [
        key.to_vec(),
        hex.into_bytes(),
        SECRET.as_bytes().to_vec(),
        base64.trim_end_matches('=').as_bytes().to_vec(),
        cookie.to_vec(),
        decoded(std::str::from_utf8(cookie).expect("digits")),
    ];
    for path in daemons.iter().chain(&managers) {
        assert!(is_private(path), "{}", path.display());
        let bytes = fs::read(path).expect("a recording");
        let has = |secret: &Vec<u8>| bytes.windows(secret.len()).any(|piece| piece == secret);
        assert!(!secrets.iter().any(has), "a secret is in {}", path.display());
        let end = "steps, the same outputs; then the program ended\n";
        let replayed = replay(&ring.suite, path, &[]);
        assert!(replayed.code(0).quiet().out().ends_with(end), "{replayed}");
    }
    let replayed = replay(&ring.suite, &managers[0], &["--until", "1", "--state"]).code(0).out();
    assert!(replayed.contains("1 +") && !replayed.contains("\n2 +"), "{replayed}");
    assert!(replayed.contains("Manager {"), "{replayed}");
    ring.suite.gone(&[]);
}

/// The bytes of hexadecimal digits.
fn decoded(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[test]
fn a_replay_prints_the_first_step_whose_outputs_differ() {
    let suite = Suite::new();
    suite.start_daemon();
    let directory = suite.new_directory("recordings");
    suite.mpirun(["-record", &directory, "-n", "2", "true"]).output().code(0).quiet();
    let [path] = &recordings_in(&directory)[..] else { panic!("not one recording") };
    let text = fs::read_to_string(path).expect("a recording");
    let changed = text.replacen("{\"exited\":0}", "{\"exited\":3}", 1);
    assert_ne!(text, changed);
    fs::write(path, changed).expect("a recording");
    let replayed = replay(&suite, path, &[]);
    let last = replayed.code(1).out().lines().last().expect("a line").to_owned();
    assert!(last.starts_with("step ") && last.contains(" differs: "), "{last}");
    fs::write(path, "no recording\n").expect("a file");
    replay(&suite, path, &[]).code(1).says(&["the file is no recording"]);
    suite.only_the_daemon_is_left();
}

#[test]
fn a_daemon_refuses_to_record_to_a_link_or_a_device() {
    let suite = Suite::new();
    let aim = suite.path("aim");
    fs::write(&aim, "mine\n").expect("a file");
    symlink(&aim, suite.path("link")).expect("a link");
    for (path, why) in [(suite.path("link"), "symbolic link"), ("/dev/full".into(), "device")] {
        let daemon = suite.mpd(&["--daemon", "--record"]).arg(path).output();
        daemon.code(1).says(&["cannot record in", why]);
    }
    assert_eq!(fs::read_to_string(&aim).expect("a file"), "mine\n");
    suite.gone(&[]);
}

#[test]
fn a_job_whose_managers_cannot_record_runs_with_a_warning() {
    let suite = Suite::new();
    suite.start_daemon();
    let job = suite.mpirun(["-record", "/no/such/directory", "-n", "2", "echo", "here"]).output();
    job.code(0).says(&["cannot record in /no/such/directory/", "No such file"]);
    assert_eq!(job.out(), "here\nhere\n");
    suite.only_the_daemon_is_left();
}

#[test]
fn a_full_disk_ends_only_the_recording_of_a_daemon() {
    let ring = Members::new();
    let path = recording(&ring, 1);
    // A limit on the size of files replaces a full disk: it permits the header and little more.
    let command = ring.mpd_under(1, &["file-size=2000"]).arg("--log-file").arg("/dev/null");
    ring.started(1, command.arg("--record").arg(&path));
    ring.agree();
    let is_full = || fs::metadata(&path).is_ok_and(|file| file.len() == 2000);
    wait_until("the recording is full", || {
        ring.lap(1);
        is_full()
    });
    ring.mpirun(1, &["-n", "2", "true"]).output().code(0).quiet();
    assert_eq!(ring.lap(1), ["d1"]);
    let replayed = replay(&ring.suite, &path, &[]).code(0).out();
    assert!(replayed.contains("the same outputs before the last step"), "{replayed}");
}
