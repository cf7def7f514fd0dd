//! A6 to A10, A22, A23: locations of keys, owners of trusted files, inherited descriptors and readable memory.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_wire::message::Payload;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;

use crate::attacks::Target;
use crate::members::Members;
use crate::naive::Bytes32;
use crate::process::{self, Process};
use crate::run::{comes_true, wait_until};
use crate::suite::{Suite, is_root, skip};

#[test]
fn a6_the_key_is_in_no_command_line_environment_or_log() {
    let target = Target::of(3);
    let job = target.ring.mpirun(1, &["-n", "2", "sleep", "60"]).start();
    wait_until("it runs", || target.ring.suite.running("sleep").len() == 2);
    let hex: String = target.key.iter().map(|byte| format!("{byte:02x}")).collect();
    let base64 = String::from(Payload::from(&target.key[..]));
    let forms = [target.key.to_vec(), hex.clone().into_bytes(), hex.to_uppercase().into_bytes()];
    let forms = [&forms[..], &[base64.trim_end_matches('=').as_bytes().to_vec()]].concat();
    let contains_key =
        |bytes: &[u8]| forms.iter().any(|f| bytes.windows(f.len()).any(|piece| piece == f));
    assert!(contains_key(
        &std::fs::read(target.ring.suite.path("home/key")).expect("the key file")
    ));
    let processes = target.ring.suite.processes();
    assert!(processes.len() > 6, "{processes:?}");
    for Process { pid, .. } in processes {
        for file in ["cmdline", "environ"] {
            let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            assert!(!contains_key(&text), "in {file} of {pid}");
        }
    }
    for index in 1..=3 {
        assert!(!contains_key(target.ring.log(index).as_bytes()), "in the log of d{index}");
        let saved = target.ring.rundir(index).join("ring.json");
        assert!(!contains_key(&std::fs::read(saved).expect("the list")), "in the list of d{index}");
    }
    job.send(Signal::SIGTERM);
    job.wait();
}

#[test]
fn a7_an_unsafe_key_file_is_refused_with_a_hint_for_the_repair() {
    let suite = Suite::new();
    let good = format!("ring default\n{}\n", "0123456789abcdef".repeat(4));
    let make = |name: &str, text: &str, mode: u32| {
        let path = suite.path("home").join(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("chmod");
        path
    };
    let (linked, other) = (suite.path("home/symlink"), suite.path("home/other-name"));
    let (pipe, hard) = (suite.path("home/pipe"), make("hard", &good, 0o600));
    symlink(make("aim", &good, 0o600), &linked).expect("a link");
    std::fs::hard_link(&hard, other).expect("a link");
    nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o600)).expect("a pipe");
    let mut cases = vec![
        (make("open", &good, 0o644), "mode 644", "chmod 600"),
        (make("group", &good, 0o660), "mode 660", "chmod 600"),
        (linked, "symbolic link", "put the file itself"),
        (pipe, "not a regular file", "remove it"),
        (hard, "2 hard links", "mv "),
        (make("empty", "", 0o600), "empty", "copy it again"),
        (make("short", &good[..good.len() - 3], 0o600), "248 bits, 256", "copy it again"),
        (make("word", "ring default\nsecret\n", 0o600), "line 2", "copy it again"),
    ];
    if is_root() {
        let theirs = make("theirs", &good, 0o600);
        chown(&theirs, Some(60_203), Some(60_203)).expect("chown");
        cases.push((theirs, "belongs to user 60203", "copy of your own"));
    } else {
        skip("a key file of another user: needs root");
    }
    for (path, problem, repair) in cases {
        let path = path.display().to_string();
        let output = suite.mpd(&["--daemon", "--ifhn", "127.0.0.1", "--key", &path]).output();
        output.code(1).says(&[&path, problem, repair]).brief();
        assert!(!output.err().contains("0123"), "the key is printed: {output}");
        suite.gone(&[]);
    }
}

#[test]
fn a8_each_ring_has_its_own_random_key() {
    let keys: BTreeSet<Bytes32> = (0..3)
        .map(|_| {
            let target = Target::of(1);
            let file = target.ring.suite.path("home/key");
            let mode = std::fs::metadata(file).expect("a key file").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
            target.key
        })
        .collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| key.iter().collect::<BTreeSet<_>>().len() > 8), "not random");
}

#[test]
fn a9_another_users_object_at_the_run_directorys_path_is_not_touched() {
    if !is_root() {
        return skip("another user's run directory: needs root");
    }
    let (alice, bob) = (60_207, 60_208);
    let suite = Suite::as_user(alice);
    let home = suite.path("home");
    let tree_index = suite.path("place");
    std::fs::create_dir(&tree_index).expect("a directory");
    for kind in ["directory", "file", "symlink", "socket"] {
        let path: PathBuf = tree_index.join(kind);
        match kind {
            "directory" => std::fs::create_dir(&path).expect("a directory"),
            "file" => std::fs::write(&path, "").expect("a file"),
            "symlink" => symlink(&home, &path).expect("a link"),
            _ => drop(UnixListener::bind(&path).expect("a socket")),
        }
        std::os::unix::fs::lchown(&path, Some(bob), Some(bob)).expect("chown");
        let before = std::fs::symlink_metadata(&path).expect("it is there");
        for arguments in [&["--daemon"][..], &["--status"]] {
            let output = suite.mpd(arguments).arg("--rundir").arg(&path).output();
            output.code(1).says(&[&path.display().to_string(), "user 60208"]).brief();
        }
        let after = std::fs::symlink_metadata(&path).expect("it is there");
        assert_eq!(
            (before.ino(), before.mtime_nsec()),
            (after.ino(), after.mtime_nsec()),
            "{kind}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(&home).expect("home").collect();
    assert!(left.is_empty(), "in alice's home: {left:?}");
}

#[test]
fn a10_of_fifty_daemons_started_at_once_exactly_one_serves() {
    let suite = Suite::new();
    let log = suite.path("mpd.log").display().to_string();
    let arguments = ["--daemon", "--ifhn", "127.0.0.1", "--log-file", &log];
    let start = || suite.mpd(&arguments).deadline(120).start();
    let started: Vec<_> = (0..50).map(|_| start()).collect();
    let ended: Vec<_> = started.into_iter().map(crate::run::Running::wait).collect();
    let (served, refused): (Vec<_>, Vec<_>) =
        ended.iter().partition(|output| output.exit_code() == Some(0));
    assert_eq!(served.len(), 1);
    for output in refused {
        output.code(1).says(&["already running", &suite.rundir().display().to_string()]);
        assert_eq!(output.err().lines().count(), 1, "{output}");
    }
    wait_until("one is left", || suite.processes().len() == 1);
    process::send(suite.daemon().pid, Signal::SIGKILL);
    start().wait().code(0);
    suite.adopt(suite.daemon().pid, &suite.rundir(), log.as_ref());
}

/// The TCP sockets of this host, as /proc/PID/fd names them, except for those that listen on 127.0.0.1. A manager
/// has one for its PMIx clients.
fn tcp_sockets() -> BTreeSet<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let tables = tables.map(Result::unwrap_or_default);
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let others = lines.filter(|line| !(line.contains(" 0100007F:") && line.contains(" 0A ")));
    let inodes = others.filter_map(|line| line.split_whitespace().nth(9));
    inodes.map(|inode| format!("socket:[{inode}]")).collect()
}

fn open_files(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.map(|target| target.to_string_lossy().into_owned()).collect()
}

#[test]
fn a22_ranks_and_managers_hold_no_descriptor_of_the_ring_or_of_its_caller() {
    let ring = Members::new();
    let spread = "for n in {3..50}; do eval \"exec $n</etc/passwd\"; done; exec \"$@\"";
    let behind = |run: crate::run::Run| run.args(["-c", spread, "-"]);
    let bash = || behind(ring.suite.command("bash")).arg(ring.suite.program("mpd"));
    ring.started(1, ring.dress(bash(), 1));
    ring.start(2);
    ring.agree();
    let script = "ls -l /proc/$$/fd; echo $PMI_FD; echo ready; read x";
    let job = behind(ring.suite.command("bash")).arg(ring.suite.program("mpirun"));
    let job = job.env("MPD_RUNDIR", ring.rundir(1)).args(["-n", "1", "bash", "-c", script]);
    let mut job = job.input_pipe().start();
    job.shows("ready");
    let listing = job.stdout();
    let open = listing.lines().filter(|line| line.contains(" -> ")).count();
    // The three streams, PMI, and possibly the descriptor from which the shell reads its script.
    assert!((4..=5).contains(&open) && !listing.contains("passwd"), "{listing}");
    let sockets = tcp_sockets();
    let has_tcp = |pid| open_files(pid).iter().any(|target| sockets.contains(target));
    assert!(has_tcp(ring.member(1).pid), "the daemon has TCP sockets");
    let manager = ring.suite.manager().pid;
    assert!(!has_tcp(manager), "{:?}", open_files(manager));
    for pid in [manager, ring.member(1).pid] {
        assert!(!open_files(pid).iter().any(|target| target.contains("passwd")), "of {pid}");
    }
    writeln!(job.stdin(), "x").expect("it reads");
    job.wait().code(0);
}

#[test]
fn a23_keys_are_neither_in_core_files_nor_readable_through_proc() {
    if !is_root() {
        return skip("a user's daemon: needs root, to be another user");
    }
    let suite = Suite::as_user(60_209);
    let daemon = suite.start_daemon_with(&["--ifhn", "127.0.0.1"]);
    let script = "echo core $(ulimit -c); read x";
    let job = suite.command("bash").args(["-c", "ulimit -Sc 4096; exec \"$@\"", "-"]);
    let job = job.arg(suite.program("mpirun")).args(["-n", "1", "bash", "-c", script]);
    let mut job = job.input_pipe().start();
    if !comes_true(Duration::from_secs(15), || job.stdout().contains("core")) {
        panic!("no job: {}", job.stderr());
    }
    let rank = job.stdout();
    for pid in [daemon.pid, suite.manager().pid] {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("its limits");
        let core = limits.lines().find(|line| line.starts_with("Max core")).expect("a line");
        assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
        for file in ["environ", "maps", "mem", "auxv"] {
            let output = suite.command("cat").arg(format!("/proc/{pid}/{file}")).output();
            output.failed().says(&["Permission denied"]);
        }
    }
    let core: Vec<_> = ["/core".to_owned(), format!("/core.{}", daemon.pid)].into();
    let there = || core.iter().any(|path| Path::new(path).exists());
    let before = there();
    writeln!(job.stdin(), "x").expect("it reads");
    job.wait().code(0);
    // The first signal only ends Rust's handler for stack overflow.
    wait_until("it is dead", || {
        process::send(daemon.pid, Signal::SIGSEGV);
        Process::is_gone(daemon.pid)
    });
    assert!(before || !there(), "a core of the daemon");
    // The shell could possibly not raise its limit; then the rank's limit is also the old one.
    let direct = suite.command("bash").args(["-c", "ulimit -Sc 4096; ulimit -c"]).output().out();
    assert_eq!(rank.trim(), format!("core {}", direct.trim()), "a rank has its user's limit");
    // The socket is stale; the next daemon replaces it.
    suite.start_daemon_with(&["--ifhn", "127.0.0.1"]);
}
