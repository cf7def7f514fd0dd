//! `mpdcancel`: cancels an allocation, or a request for slots.

use std::process::ExitCode;

use mpd_alloc::exchange::Ask;
use mpd_io::ring::slots;
use mpdtrace::cli::CancelCli;
use mpdtrace::tool;

pub(crate) fn main() -> ExitCode {
    tool::main(|cli: &CancelCli| {
        let request = slots::request(&Ask::Cancel { alloc: cli.alloc.clone() });
        tool::command("mpdcancel", &cli.common, request)
    })
}
