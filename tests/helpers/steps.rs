//! Prints numbers until a file asks it to stop.
//!
//!     t-steps DIRECTORY [MS] [BYTES] [SECONDS]
//!
//! Creates `ready.RANK` in DIRECTORY, then writes lines "RANK NUMBER" to stdout, from 0 on, one every MS milliseconds
//! (100), padded with dots to BYTES bytes (0: no padding). When DIRECTORY has a file `stop`, it writes "RANK end
//! NUMBER" with the number of lines before and exits with 0. Ends by itself after SECONDS (300).

use std::path::Path;
use std::time::Duration;

/// Lines of one write if there is no pause between them.
const BATCH: u64 = 100;

fn main() {
    let directory: String = mpd_tests::argument(0, ".".to_owned());
    let pause = Duration::from_millis(mpd_tests::argument(1, 100));
    let width: usize = mpd_tests::argument(2, 0);
    mpd_tests::bound(mpd_tests::argument(3, 300));
    let rank = mpd_tests::rank();
    let directory = Path::new(&directory);
    std::fs::write(directory.join(format!("ready.{rank}")), "").expect("the marker file");
    let mut number = 0_u64;
    while !directory.join("stop").exists() {
        let behind = number + if pause.is_zero() { BATCH } else { 1 };
        let lines = number..behind;
        let text: String =
            lines.map(|n| format!("{:.<width$}\n", format!("{rank} {n} "))).collect();
        write(&text);
        number = behind;
        std::thread::sleep(pause);
    }
    write(&format!("{rank} end {number}\n"));
}

fn write(text: &str) {
    mpd_tests::write_all(std::io::stdout(), text.as_bytes()).expect("stdout");
}
