//! `mpdtrace` and its siblings are one program: the name under which it is started says which of them it is.

mod tools;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or_default();
    name.to_str().and_then(tools::called).unwrap_or(tools::DEFAULT)()
}
