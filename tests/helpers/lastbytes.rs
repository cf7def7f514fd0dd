//! Writes N bytes without a newline and exits: `t-lastbytes N [out|err|both]`.
//!
//! The bytes are the rank's letter repeated, written without any buffer of the library.

use std::io;

fn main() {
    mpd_tests::bound(30);
    let count = mpd_tests::argument(0, 1);
    let streams = mpd_tests::argument(1, "out".to_owned());
    let letter = b'A' + u8::try_from(mpd_tests::rank() % 26).expect("below 26");
    let bytes = vec![letter; count];
    if streams != "err" {
        mpd_tests::write_all(io::stdout(), &bytes).expect("stdout");
    }
    if streams != "out" {
        mpd_tests::write_all(io::stderr(), &bytes).expect("stderr");
    }
}
