//! A process that does what its socket says: a real process beside each one of the simulators' kernel.
//!
//!     t-puppet SOCKET [leads] [handles] [dies] [adopts]
//!
//! Connects to the Unix socket and writes its process id and a newline. `leads`: it has a process group of its own.
//! `handles`: it handles SIGUSR1. `dies`: the kernel kills it when its parent dies. `adopts`: orphans among its
//! descendants become its children. Then it reads lines: `fork WORD...` starts a child with these words, and `exit CODE`
//! ends it. It ends when the socket is closed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;

use nix::sys::prctl;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{Pid, setpgid};

extern "C" fn handle(_: i32) {}

fn main() {
    mpd_tests::bound(120);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (path, options) = words.split_first().expect("a socket");
    for option in options {
        match option.as_str() {
            "leads" => setpgid(Pid::from_raw(0), Pid::from_raw(0)).expect("a group"),
            "handles" => take_signal(),
            "dies" => prctl::set_pdeathsig(Signal::SIGKILL).expect("a signal"),
            "adopts" => prctl::set_child_subreaper(true).expect("a subreaper"),
            other => panic!("unknown option {other}"),
        }
    }
    let mut socket = UnixStream::connect(path).expect("the socket");
    writeln!(socket, "{}", std::process::id()).expect("a reader");
    for line in BufReader::new(socket).lines() {
        let line = line.expect("a line");
        let mut words = line.split(' ');
        match words.next() {
            // The check reaps no grandchild either.
            #[expect(clippy::zombie_processes, reason = "a dead child stays until its parent dies")]
            Some("fork") => {
                let program = std::env::current_exe().expect("its own path");
                Command::new(program).arg(path).args(words).spawn().expect("a child");
            }
            Some("exit") => {
                std::process::exit(words.next().and_then(|code| code.parse().ok()).expect("a code"))
            }
            _ => panic!("unknown order {line}"),
        }
    }
}

#[expect(unsafe_code, reason = "a handler; it does nothing")]
fn take_signal() {
    let action = SigAction::new(SigHandler::Handler(handle), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler makes no call.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.expect("a handler");
}
