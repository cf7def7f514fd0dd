//! `-preload`: a program that exists only on the console's host runs on all hosts, and its copies are removed
//! with the job.
//!
//! A mount that only one daemon sees makes the hosts different.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::members::Members;
use crate::pty::Terminal;
use crate::suite::{is_root, skip};

/// Three daemons; the second sees another file system at `hidden`, of this size in KiB.
fn ring(hidden: &str, kib: usize) -> Option<Members> {
    let ring = Members::new();
    let place = ring.suite.path(hidden);
    fs::create_dir_all(&place).expect("a directory");
    let mount = format!("mount -t tmpfs -o size={kib}k,mode=777 none '{}'", place.display());
    let arguments = ["--mount", "sh", "-c"];
    let allowed = is_root()
        && ring.suite.command("unshare").args(arguments).arg(&mount).output().exit_code()
            == Some(0);
    if !allowed {
        skip("mounts need root");
        return None;
    }
    ring.start(1);
    let script = format!("{mount} && exec \"$@\"");
    let run = ring.suite.command("unshare").args(arguments).args([&script, "sh"]);
    let run = ring.dress(run.arg(ring.suite.program("mpd")), 2);
    let entry = ring.member(1).address.to_string();
    ring.started(2, run.args(["--join", &entry]));
    ring.start(3);
    ring.agree();
    Some(ring)
}

/// A program that exists only on hosts that see the directory.
fn program(ring: &Members, text: &[u8]) -> PathBuf {
    let path = ring.suite.path("only/here");
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(&path, text).expect("a program");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("chmod");
    path
}

#[test]
fn preload_copies_a_program_to_hosts_that_lack_it_for_the_job() {
    let Some(ring) = ring("only", 64) else { return };
    let script = b"#!/bin/sh\necho $PMI_RANK $0 $MPD_JOB_TMPDIR\n";
    let path = program(&ring, script);
    let path = path.to_str().expect("text");
    let arguments = ["-n", "3", "-ppn", "1", path];
    let without = ring.mpirun(1, &arguments).output();
    without.code(127).says(&["host d2", "No such file"]);
    let output = ring.mpirun(1, &["-preload"]).args(arguments).output();
    let lines = output.code(0).quiet().sorted_lines();
    let at: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    assert_eq!((at[0][1], at[2][1]), (path, path), "hosts with the program run their own file");
    let [_, copy, tmpdir] = at[1][..] else { panic!("{lines:?}") };
    assert!(copy.starts_with(tmpdir) && copy.ends_with("/here"), "{copy}");
    assert!(!PathBuf::from(tmpdir).exists(), "{tmpdir} is left");
}

#[test]
fn preload_replaces_a_different_program_of_the_same_name() {
    let Some(ring) = ring("other", 64) else { return };
    // d2 does not see the file of d1 and d3: on d2 the name is another program.
    let path = ring.suite.path("other/t-exit-with");
    let copy = format!("cp /bin/false '{}'", path.display());
    let pid = ring.member(2).pid.to_string();
    let inside = ["-m", "-t", &pid, "sh", "-c", &copy];
    ring.suite.command("nsenter").args(inside).output().code(0);
    fs::copy(ring.suite.program("t-exit-with"), &path).expect("a program");
    let path = path.to_str().expect("text");
    let arguments = ["-preload-binary", "-trace-startup", "x", "-n", "3", "-ppn", "1", path];
    ring.mpirun(1, &arguments).args(["all", "0"]).output().code(0).quiet();
    let traced = fs::read_to_string(ring.suite.path("work/x")).expect("a timeline");
    assert!(traced.contains("\"preload\""), "{traced}");
}

#[test]
fn a_host_without_disk_space_for_the_program_is_named_with_the_path() {
    let Some(ring) = ring("tmp", 256) else { return };
    let path = program(&ring, &[0_u8; 1 << 20]);
    let path = path.to_str().expect("text");
    // d2 has the same program. Only a different program is copied.
    let arguments = ["-preload", "-n", "3", "-ppn", "1", path];
    let hide = format!("mount -t tmpfs none '{}'", ring.suite.path("only").display());
    let pid = ring.member(2).pid.to_string();
    let inside = ["-m", "-t", &pid, "sh", "-c", &hide];
    ring.suite.command("nsenter").args(inside).output().code(0);
    let output = ring.mpirun(1, &arguments).output();
    output.code(125).says(&["host d2", "cannot write", "/preload/", "No space left on device"]);
}

#[test]
fn preload_of_a_program_missing_on_the_consoles_host_gives_127() {
    let ring = Members::of(2);
    let arguments = ["-preload", "-n", "2", "-ppn", "1", "/no/such/program"];
    ring.mpirun(1, &arguments).output().code(127).says(&["cannot execute \"/no/such/program\""]);
}

#[test]
fn a_terminal_shows_how_much_of_the_programs_is_sent() {
    let Some(ring) = ring("only", 64) else { return };
    // More than is sent in one turn of the manager.
    let text = [&b"#!/bin/sh\necho here\nexit\n"[..], &vec![b' '; 4 << 20]].concat();
    let path = program(&ring, &text);
    let mut terminal = Terminal::with_shell(&ring.suite, "");
    let mut shown = |term: &str, option: &str| {
        let (rundir, path) = (ring.rundir(1), path.display());
        let command = format!(
            "TERM={term} MPD_RUNDIR={} $MPIRUN {option} -preload -n 3 -ppn 1 {path}",
            rundir.display()
        );
        terminal.ran(&command)
    };
    let screen = shown("xterm", "");
    let line = "of 4097 KiB, 0 of 1 hosts have them\x1b[K";
    assert!(screen.contains("mpirun: sends the programs: ") && screen.contains(line), "{screen}");
    let (_, after) = screen.rsplit_once("hosts have them\x1b[K").expect("a line");
    assert!(after.starts_with("\x1b[K"), "the line is removed: {screen}");
    assert_eq!(screen.matches("here").count(), 3, "{screen}");
    for (term, option) in [("dumb", ""), ("xterm", "-quiet")] {
        let screen = shown(term, option);
        assert!(!screen.contains("sends the programs"), "{term} {option}: {screen}");
        assert_eq!(screen.matches("here").count(), 3, "{screen}");
    }
    terminal.leave();
}
