//! A small PMIx server for one host: starts ranks of a program and drives the sessions of `pmix-proto` for them.
//!
//!     t-pmix -n RANKS [-nodes NODES] [-keep] [-trace] PROGRAM [ARGUMENT...]
//!
//! `-nodes` deals the ranks to so many hosts that exist by name only. With `-keep` the end of a rank is an event for
//! the others, not the end of the job. `-trace` writes each operation to standard error. The exit status is the
//! largest of the ranks, or that of an abort.

#![allow(clippy::print_stderr, reason = "a helper of the tests")]

#[path = "pmix/jobs.rs"]
mod jobs;
#[path = "pmix/names.rs"]
mod names;
#[path = "pmix/server.rs"]
mod server;

use std::process::ExitCode;

use server::{Options, Server};

fn main() -> ExitCode {
    let mut options = Options::default();
    let mut arguments = std::env::args_os().skip(1).peekable();
    while let Some(option) = arguments.next_if(|one| one.as_encoded_bytes().starts_with(b"-")) {
        let mut number = || {
            let text = arguments.next().and_then(|text| text.into_string().ok());
            text.and_then(|text| text.parse().ok()).expect("a number behind the option")
        };
        match option.to_str() {
            Some("-n") => options.ranks = number(),
            Some("-nodes") => options.nodes = number(),
            Some("-keep") => options.keep = true,
            Some("-trace") => options.trace = true,
            _ => panic!("unknown option {}", option.display()),
        }
    }
    let program: Vec<_> = arguments.map(std::ffi::OsString::into_encoded_bytes).collect();
    assert!(!program.is_empty(), "a program is wanted");
    ExitCode::from(Server::new(options).run(&program))
}
