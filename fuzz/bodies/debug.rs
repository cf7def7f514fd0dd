//! The output of gdb, as the driver of a debugger reads it.

use mpd_debug::driver::{Driver, Input, Output, Setup};
use mpd_debug::mi::{Record, Stream, quoted};
use mpd_sansio::Time;

use super::{Bytes, in_pieces};

/// The parser gets any line, and a quoted text is the same after it is parsed. The driver gets any output of gdb
/// and any commands, in any pieces. Each of its outputs is one line of a known kind. After the end of gdb, it
/// accepts the order to quit.
pub(crate) fn mi_records(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        let record = Record::parse(line);
        if let Record::Stream(_, text) = &record {
            assert!(text.len() < line.len());
        }
        let printable: Vec<u8> =
            line.iter().copied().filter(|byte| !b"\r\0".contains(byte)).collect();
        let quoted = [b"~", &quoted(&printable)[..]].concat();
        assert_eq!(Record::parse(&quoted), Record::Stream(Stream::Console, printable));
    }
    let mut bytes = Bytes::new(data);
    let setup = Setup { attach: None, terminal: b"/t".to_vec(), ..Setup::default() };
    let mut driver = Driver::new(&setup);
    drain(&mut driver);
    if bytes.byte() & 1 == 1 {
        for token in 1..40 {
            let line = format!("{token}^done\n");
            driver.handle(Time::ZERO, Input::Gdb(line.as_bytes()));
            drain(&mut driver);
        }
    }
    let cuts = bytes.some();
    let mut is_commands = false;
    in_pieces(bytes.rest(), Bytes::new(cuts), |piece| {
        is_commands = !is_commands;
        let input = if is_commands { Input::Commands(piece) } else { Input::Gdb(piece) };
        driver.handle(Time::ZERO, input);
        drain(&mut driver);
    });
    driver.handle(Time::ZERO, Input::Program(data));
    drain(&mut driver);
    driver.handle(Time::ZERO, Input::GdbEnded("is gone"));
    drain(&mut driver);
    driver.handle(Time::ZERO, Input::Quit);
    drain(&mut driver);
}

fn drain(driver: &mut Driver) {
    while let Some(output) = driver.poll_output() {
        if let Output::Say(line) = output {
            assert!(matches!(line.first(), Some(b'>' | b'+' | b'~' | b'!' | b'?' | b'#' | b'=')));
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        }
    }
}
