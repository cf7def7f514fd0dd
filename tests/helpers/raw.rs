//! A client of PMI-1 or PMI-2 that writes given bytes in given pieces, and prints the answers.
//!
//!     t-raw RANK STEP...    that rank performs these steps; the others pass a fence and finalize
//!
//!     send=TEXT             in one write; \n and \r have the same meaning as in C
//!     bytes=TEXT            byte by byte
//!     fill=COUNT            COUNT times the letter x
//!     lines=COUNT           reads and prints COUNT lines
//!     frames=COUNT          reads and prints COUNT messages of PMI-2
//!     child=TEXT            a child of this process sends the text and exits
//!     close                 shuts down both directions of the connection
//!     stay                  waits to be killed
#![expect(unsafe_code, reason = "taking over the descriptor number in PMI_FD")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use mpd_tests::{argument, rank, say};

const BOUND_S: u32 = 60;

fn main() {
    mpd_tests::bound(BOUND_S);
    let number = std::env::var("PMI_FD").expect("PMI_FD in the environment");
    let number = number.parse().expect("PMI_FD is a number");
    // SAFETY: the parent passed the descriptor to this process, and no other code here uses it.
    let stream = unsafe { UnixStream::from_raw_fd(number) };
    let mut client = Client(BufReader::new(stream));
    if argument(0, 0) == rank() {
        std::env::args().skip(2).for_each(|step| client.take(&step));
    } else {
        client.meet_others();
    }
}

struct Client(BufReader<UnixStream>);

impl Client {
    fn take(&mut self, step: &str) {
        let (what, text) = step.split_once('=').unwrap_or((step, ""));
        let bytes = text.replace("\\n", "\n").replace("\\r", "\r").into_bytes();
        match what {
            "send" => self.send(&bytes),
            "bytes" => bytes.chunks(1).for_each(|byte| self.send(byte)),
            "fill" => self.send(&vec![b'x'; count(text)]),
            "lines" => (0..count(text)).for_each(|_| self.print_line()),
            "frames" => (0..count(text)).for_each(|_| self.print_frame()),
            "child" => send_from_a_child(text),
            "close" => drop(self.0.get_ref().shutdown(Shutdown::Both)),
            "stay" => std::thread::sleep(Duration::from_secs(u64::from(BOUND_S))),
            other => panic!("unknown step '{other}'"),
        }
    }

    fn meet_others(&mut self) {
        for line in ["init pmi_version=1 pmi_subversion=1", "barrier_in", "finalize"] {
            self.send(format!("cmd={line}\n").as_bytes());
            self.line();
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        // A server may close after invalid bytes; it decides how this rank ends.
        let _ = self.0.get_mut().write_all(bytes);
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        line.trim_end_matches('\n').to_owned()
    }

    fn print_line(&mut self) {
        let line = self.line();
        say(&line).expect("stdout");
    }

    fn print_frame(&mut self) {
        let mut header = [0; 6];
        self.0.read_exact(&mut header).expect("the length of an answer");
        let length = std::str::from_utf8(&header).expect("text").trim().parse().expect("a length");
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("an answer");
        say(std::str::from_utf8(&body).expect("text")).expect("stdout");
    }
}

fn send_from_a_child(text: &str) {
    let script = format!("printf '{text}' >&$PMI_FD");
    let status = Command::new("bash").args(["-c", &script]).status().expect("bash");
    assert!(status.success(), "{status}");
}

fn count(text: &str) -> usize {
    text.parse().expect("a number")
}
