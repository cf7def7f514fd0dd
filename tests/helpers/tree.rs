//! Processes that try to escape from their job.
//!
//!     t-tree WIDTH HOP_MS SECONDS [stay|leave]
//!
//! Starts WIDTH children. Each leaves the session and closes every descriptor. Then, every HOP_MS milliseconds, it
//! forks and its parent exits, so that its pid and its parent change all the time. After the first second it forks
//! every 50 ms, so that an escaped process does not fill the machine with dead processes. All end by themselves
//! SECONDS after the start. The rank prints "tree RANK" when its children have started. It stays until they
//! end or, with `leave`, exits with 0 at once.
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
            return escape(hop, begin, seconds);
        }
    }
    mpd_tests::say(&format!("tree {}", mpd_tests::rank())).expect("stdout");
    if stays {
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
    }
}

fn escape(hop: Duration, begin: Instant, seconds: u32) {
    for descriptor in 0..1024 {
        let _ = nix::unistd::close(descriptor);
    }
    while begin.elapsed() < Duration::from_secs(u64::from(seconds)) {
        // This call never fails, because a child leads no group yet.
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
        // If no process can be created, this process stays and tries again.
        Err(_) => true,
    }
}
