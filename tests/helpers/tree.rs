//! Processes that try to get away.
//!
//!     t-tree WIDTH HOP_MS SECONDS [stay|leave]
//!
//! Starts WIDTH children. Each leaves the session and closes every descriptor, then, every HOP_MS
//! milliseconds, forks and lets the parent go, so that its pid and its parent change all the time.
//! All end by themselves SECONDS after the start. The rank prints "tree RANK" when its children
//! have begun, and stays as long as they do or, told to leave, exits with 0 at once.
#![expect(unsafe_code, reason = "fork; the process has one thread")]

use std::time::{Duration, Instant};

use nix::unistd::{ForkResult, fork, setsid};

fn main() {
    let width: u32 = mpd_tests::argument(0, 1);
    let hop = Duration::from_millis(mpd_tests::argument(1, 5));
    let seconds: u32 = mpd_tests::argument(2, 8);
    let stays = mpd_tests::argument(3, "stay".to_owned()) == "stay";
    mpd_tests::bound(seconds);
    let end = Instant::now() + Duration::from_secs(u64::from(seconds));
    for _ in 0..width {
        if is_child() {
            return run_away(hop, end);
        }
    }
    mpd_tests::say(&format!("tree {}", mpd_tests::rank())).expect("stdout");
    if stays {
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
    }
}

fn run_away(hop: Duration, end: Instant) {
    for descriptor in 0..1024 {
        let _ = nix::unistd::close(descriptor);
    }
    while Instant::now() < end {
        // The first fork of a group leader's child always may; later ones are leaders themselves.
        let _ = setsid();
        std::thread::sleep(hop);
        if !is_child() {
            return;
        }
    }
}

fn is_child() -> bool {
    // SAFETY: no other thread exists whose locks the child could inherit.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => true,
        Ok(ForkResult::Parent { .. }) => false,
        // No process left to be had: this one stays what it is and tries again.
        Err(_) => true,
    }
}
