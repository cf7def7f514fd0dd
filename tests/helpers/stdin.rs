//! Treats its standard input in a chosen way.
//!
//!     t-stdin sum|lines|cat|never|close|exit [SECONDS]
//!
//! `sum` reads to the end and prints "RANK: COUNT bytes, sum HEX". `lines` prints "RANK got LINE" for each line as it
//! arrives, then "RANK end". `cat` copies. `never` reads nothing, and `close` closes it after the first bytes; both
//! then wait for SECONDS (60) or to be killed. `exit` exits after the first bytes.

use std::io::{self, BufRead, Read};
use std::time::Duration;

use mpd_tests::digest::{BLOCK, Digest};

fn main() {
    let how: String = mpd_tests::argument(0, "sum".to_owned());
    let seconds = mpd_tests::argument(1, 60);
    mpd_tests::bound(seconds + 120);
    let rank = mpd_tests::rank();
    let say = |text: &str| mpd_tests::say(text).expect("stdout");
    match how.as_str() {
        "sum" => say(&format!("{rank}: {}", sum())),
        "lines" => {
            for line in io::stdin().lock().lines() {
                say(&format!("{rank} got {}", line.expect("stdin")));
            }
            say(&format!("{rank} end"));
        }
        "cat" => {
            io::copy(&mut io::stdin().lock(), &mut io::stdout().lock()).expect("copy");
        }
        "never" => {
            say(&format!("{rank} ready"));
            wait(seconds);
        }
        "close" => {
            first_bytes();
            nix::unistd::close(0).expect("close");
            say(&format!("{rank} closed"));
            wait(seconds);
        }
        "exit" => {
            first_bytes();
            say(&format!("{rank} leaves"));
        }
        other => panic!("unknown way '{other}'"),
    }
}

fn sum() -> Digest {
    let mut digest = Digest::default();
    let mut buffer = vec![0; BLOCK];
    let mut stdin = io::stdin().lock();
    loop {
        match stdin.read(&mut buffer).expect("stdin") {
            0 => return digest,
            count => digest.add(&buffer[..count]),
        }
    }
}

fn first_bytes() {
    let mut byte = [0];
    nix::unistd::read(io::stdin(), &mut byte).expect("stdin");
}

fn wait(seconds: u32) {
    std::thread::sleep(Duration::from_secs(u64::from(seconds)));
}
