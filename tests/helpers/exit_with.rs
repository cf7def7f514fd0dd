//! Ends in a chosen way.
//!
//!     t-exit-with RANK|all CODE|sigN [OTHERS]
//!
//! That rank exits with the code or raises the signal (and exits 0 if the signal did not end it).
//! OTHERS is the action of the other ranks: `exit0` (the default), or `sleep` or `spin` until they are killed.
#![expect(clippy::exit, reason = "ends in the requested way")]
#![expect(unsafe_code, reason = "resetting a signal's action: nix marks it unsafe")]

use std::process::exit;
use std::time::Duration;

use nix::libc::{self, c_int};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, Signal, raise, signal};

const BOUND_S: u32 = 60;

fn main() {
    mpd_tests::bound(BOUND_S);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [chosen, how, others @ ..] = arguments.as_slice() else {
        panic!("usage: t-exit-with RANK|all CODE|sigN [exit0|sleep|spin]");
    };
    if chosen == "all" || chosen.parse() == Ok(mpd_tests::rank()) {
        match how.strip_prefix("sig") {
            Some(number) => end_by(number.parse().expect("a signal number")),
            None => exit(how.parse().expect("an exit code")),
        }
    }
    match others.first().map_or("exit0", String::as_str) {
        "exit0" => exit(0),
        "sleep" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        "spin" => loop {
            std::hint::spin_loop();
        },
        other => panic!("unknown way '{other}'"),
    }
}

fn end_by(number: c_int) -> ! {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).expect("no core files");
    let Ok(number) = Signal::try_from(number) else {
        // SAFETY: the call takes numbers. A real-time signal has its default action here.
        unsafe { libc::kill(libc::getpid(), number) };
        exit(0);
    };
    // SAFETY: the default action runs no code of this process.
    // The library changed some actions (SIGPIPE, SIGSEGV), so they are reset. SIGKILL and SIGSTOP cannot be reset and
    // need no reset.
    let _ = unsafe { signal(number, SigHandler::SigDfl) };
    raise(number).expect("raise");
    exit(0);
}
