//! `mpdtrace` and its siblings are one program. Its name on the command line selects the tool. Where there can be no links,
//! as in a wheel of Python, a script runs `mpdtrace --tool NAME`.

#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

mod tools;

use std::path::Path;
use std::process::ExitCode;

mpd_io::program!(serve);

fn serve() -> ExitCode {
    let called = mpdtrace::tool::arguments().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or_default();
    name.to_str().and_then(tools::called).unwrap_or(tools::DEFAULT)()
}
