//! Asks, and waits for the answer: `t-prompt [TEXT] [SECONDS] [RANK]`.
//!
//! Rank RANK (0) writes TEXT ("prompt> ") without a newline, reads one line of stdin and writes
//! "answer: LINE". The other ranks exit at once.

use std::io;

fn main() {
    let text: String = mpd_tests::argument(0, "prompt> ".to_owned());
    mpd_tests::bound(mpd_tests::argument(1, 60));
    if mpd_tests::rank() != mpd_tests::argument(2, 0) {
        return;
    }
    mpd_tests::write_all(io::stdout(), text.as_bytes()).expect("stdout");
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("stdin");
    mpd_tests::say(&format!("answer: {}", line.trim_end())).expect("stdout");
}
