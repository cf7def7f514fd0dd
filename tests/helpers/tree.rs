//! Processes that try to get away.
//!
//!     t-tree WIDTH HOP_MS SECONDS [stay|leave]
//!
//! Starts WIDTH children. Each leaves the session and closes every descriptor, then, every HOP_MS
//! milliseconds, forks and lets the parent go, so that its pid and its parent change all the time.
//! After the first second it hops every 50 ms, lest one that did get away fills the machine with
//! dead processes. All end by themselves SECONDS after the start. The rank prints "tree RANK" when its children
//! have begun, and stays as long as they do or, told to leave, exits with 0 at once.
#![expect(unsafe_code, reason = "fork; the process has one thread")]

use std::time::{Duration, Instant};

use nix::unistd::{ForkResult, fork, setsid};

const SLOW: Duration = Duration::from_millis(50);

fn main() {
    let width: u32 = mpd_tests::argument(0, 1);
    let hop = Duration::from_millis(mpd_tests::argument(1, 5));
    let seconds: u32 = mpd_tests::argument(2, 8);
    let stays = mpd_tests::argument(3, "stay".to_owned()) == "stay";
    mpd_tests::bound(seconds);
    let begin = Instant::now();
    for _ in 0..width {
        if is_child() {
            return run_away(hop, begin, seconds);
        }
    }
    mpd_tests::say(&format!("tree {}", mpd_tests::rank())).expect("stdout");
    if stays {
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
    }
}

fn run_away(hop: Duration, begin: Instant, seconds: u32) {
    for descriptor in 0..1024 {
        let _ = nix::unistd::close(descriptor);
    }
    while begin.elapsed() < Duration::from_secs(u64::from(seconds)) {
        // Never refused: a child leads no group yet.
        let _ = setsid();
        let fresh = begin.elapsed() < Duration::from_secs(1);
        std::thread::sleep(if fresh { hop } else { hop.max(SLOW) });
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
