//! A site: users without keys of their own, and what another user or a stolen host can do to them.
//!
//! All tests here are about one run of `scripts/rig-site`. The first of them runs it, and the others read what it printed.

mod attacks;

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use mpd_tests::surroundings::skip;
use nix::fcntl::{Flock, FlockArg};

use crate::rig::{programs, text, turn};

/// What the script printed in this run of the tests, and last how it ended; `None` if it cannot run here.
fn run() -> Option<String> {
    let is_there = |tool: &str| Path::new("/usr/bin").join(tool).exists();
    if !["systemd-socket-activate", "python3", "gdb"].into_iter().all(is_there) {
        skip("the site needs systemd, python3 and gdb");
        return None;
    }
    // nextest runs each test in a process of its own.
    let id = std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
    let mut file =
        Flock::lock(file.expect("a file"), FlockArg::LockExclusive).expect("a locked file");
    let mut saved = String::new();
    file.read_to_string(&mut saved).expect("a text");
    if let Some(printed) = saved.strip_prefix(&format!("{id}\n")) {
        return Some(printed.to_owned());
    }
    let _turn = turn()?;
    let printed = printed();
    file.set_len(0).expect("an empty file");
    file.rewind().expect("an empty file");
    file.write_all(format!("{id}\n{printed}").as_bytes()).expect("a written file");
    Some(printed)
}

/// The script makes the hosts itself, since each has files of its own below /etc.
fn printed() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/rig-site");
    let output = Command::new(script)
        .env("MPD_BIN_DIR", programs())
        .stdin(Stdio::null())
        .output()
        .expect("the script runs");
    format!("{}{}\n", text(&output), output.status)
}

#[test]
fn users_of_a_site_need_no_keys_and_attackers_get_nothing() {
    let Some(text) = run() else { return };
    assert_eq!(text.lines().last(), Some("exit status: 0"), "{text}");
    assert!(!text.contains("DOES NOT HOLD"), "{text}");
    let last = text.lines().rfind(|line| line.contains("attacks succeeded")).expect("a summary");
    let (refused, succeeded) = last.split_once(" attacks refused, ").expect("two numbers");
    assert_eq!(succeeded, "0 attacks succeeded", "{text}");
    assert!(refused.parse::<u32>().is_ok_and(|refused| refused >= 40), "{text}");
}

/// The script says that a line holds.
#[track_caller]
fn holds(line: &str) {
    let Some(text) = run() else { return };
    let line = format!("rig-site: holds: {line}");
    assert!(text.lines().any(|it| it == line), "no line '{line}':\n{text}");
}

#[test]
fn mpdsite_check_names_each_difference_between_hosts() {
    holds("mpdsite check finds nothing");
    holds("mpdsite check names each difference");
    holds("mpdsite check finds nothing after a push");
}

#[test]
fn jobs_of_a_site_have_the_ids_groups_limits_and_environment_of_their_user() {
    holds("ids, groups, limits and environment of alice on all hosts");
    holds("jobs of alice and bob at the same time");
    holds("each user sees only his own");
}

#[test]
fn root_sees_ends_and_drains_for_all_users_of_a_site() {
    holds("root sees both");
    holds("root ends the job of bob");
    holds("root drains a host for all users");
    holds("root ends the job of alice");
}

#[test]
fn jobs_of_a_site_survive_their_daemons_with_their_output() {
    holds("a job while the daemons of a job on three hosts are dead");
    holds("the output of the job whose daemons were killed");
}

#[test]
fn a_host_that_leaves_the_site_loses_its_rings_and_idle_rings_end() {
    holds("a host is removed from the site");
    holds("nothing of alice is left there");
    holds("jobs run on the other hosts");
    holds("idle rings end, and nothing is left");
}
