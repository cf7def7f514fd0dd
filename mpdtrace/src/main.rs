//! `mpdtrace` and its siblings are one program. Its name on the command line selects the tool.

#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

mod tools;

use std::path::Path;
use std::process::ExitCode;

mpd_io::program!(serve);

fn serve() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or_default();
    name.to_str().and_then(tools::called).unwrap_or(tools::DEFAULT)()
}
