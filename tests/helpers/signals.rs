//! Records every signal that it receives, in a directory.
//!
//!     t-signals DIRECTORY [SECONDS] [child|group]
//!
//! Catches INT TERM HUP QUIT USR1 USR2 WINCH TSTP CONT. Then writes `ready.NAME` (its pid), one line per signal to
//! `got.NAME`, and ends with 0 when a file `stop` appears (or after SECONDS, 30). NAME is the rank. With `child` a
//! second process in its own session does the same under the name RANK.child, with `group` one in the process group
//! of the rank. It does not read stdin, and prints "ready NAME" on stdout.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;

const CAUGHT: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

fn main() {
    let directory: String = mpd_tests::argument(0, ".".to_owned());
    let seconds = mpd_tests::argument(1, 30);
    mpd_tests::bound(seconds);
    let directory = Path::new(&directory);
    let mask: SigSet = CAUGHT.into_iter().collect();
    mask.thread_block().expect("sigprocmask");
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .expect("signalfd");
    let name = std::env::var("T_SIGNALS_NAME").unwrap_or_else(|_| mpd_tests::rank().to_string());
    let with = mpd_tests::argument(2, String::new());
    if !with.is_empty() {
        start_child(&name, directory, seconds, with == "child");
    }
    let mut got = OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join(format!("got.{name}")))
        .expect("a file for the signals");
    fs::write(directory.join(format!("ready.{name}")), std::process::id().to_string())
        .expect("the ready file");
    // The reader of stdout may have closed; the test reads the files.
    let _ = mpd_tests::say(&format!("ready {name}"));
    while !directory.join("stop").exists() {
        let mut waiting = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut waiting, PollTimeout::from(20_u8));
        while let Ok(Some(info)) = signals.read_signal() {
            let number = i32::try_from(info.ssi_signo).expect("a signal number");
            let signal = Signal::try_from(number).expect("a signal");
            got.write_all(format!("{signal}\n").as_bytes()).expect("the file grows");
        }
    }
}

/// In its own session if `apart`, and without the rank's descriptors.
fn start_child(name: &str, directory: &Path, seconds: u32, apart: bool) {
    let here = std::env::current_exe().expect("its own path");
    let child = Command::new(here.with_file_name("t-run"))
        .args(apart.then_some("setsid"))
        .arg(here)
        .arg(directory)
        .arg(seconds.to_string())
        .env("T_SIGNALS_NAME", format!("{name}.child"))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    // Not waited for: it must outlive its parent.
    drop(child.expect("a child"));
}
