//! An agent that becomes the `mpd` of its request by an exec, for tests with a script in the place of `mpd`.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let result = mpd_boot::agent::run(|arguments| {
        Err(Command::new(&arguments[0]).args(&arguments[1..]).exec().into())
    });
    result.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "mpd: {error:#}");
        ExitCode::FAILURE
    })
}
