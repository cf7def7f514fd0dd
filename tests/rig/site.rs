//! A site: users without keys of their own, and what another user or a stolen host can do to them.

use std::process::{Command, Stdio};

use mpd_tests::surroundings::skip;

use crate::rig::{programs, text, turn};

/// `scripts/rig-site` makes the hosts itself, since each has files of its own below /etc. It prints each attack.
#[test]
fn users_of_a_site_need_no_keys_and_attackers_get_nothing() {
    let is_there = |tool: &str| std::path::Path::new("/usr/bin").join(tool).exists();
    if !["systemd-socket-activate", "python3", "gdb"].into_iter().all(is_there) {
        return skip("the site needs systemd, python3 and gdb");
    }
    let Some(_turn) = turn() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/rig-site");
    let output = Command::new(script)
        .env("MPD_BIN_DIR", programs())
        .stdin(Stdio::null())
        .output()
        .expect("the script runs");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    let last = text.lines().rfind(|line| line.contains("attacks succeeded")).expect("a summary");
    let (refused, succeeded) = last.split_once(" attacks refused, ").expect("two numbers");
    assert_eq!(succeeded, "0 attacks succeeded", "{text}");
    assert!(refused.parse::<u32>().is_ok_and(|refused| refused >= 20), "{text}");
}
