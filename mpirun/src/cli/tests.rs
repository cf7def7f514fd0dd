//! Whole command lines: the resulting job or the error.

mod debug;
mod environment;
mod files;
mod hosts;
mod job;
mod programs;
mod singleton;
mod texts;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use mpd_wire::job::{Argset, Bytes, Limit};

use super::*;
use crate::linked::Found;
use crate::ring::RingSize;

fn variable(name: &str, value: &str) -> Bytes {
    format!("{name}={value}").into_bytes()
}

/// A user in the directory `/work` with these arguments.
fn caller(arguments: &[&str]) -> Caller {
    let variables = [("PATH", "/bin:/usr/bin"), ("HOME", "/home/u"), ("LANG", "C")];
    Caller {
        arguments: arguments.iter().map(OsString::from).collect(),
        name: "mpirun".into(),
        environment: variables.map(|(n, v)| variable(n, v)).to_vec(),
        directory: "/work".into(),
        umask: 0o022,
        limits: vec![
            Limit { resource: 3, soft: 8 << 20, hard: u64::MAX },
            Limit { resource: 4, soft: 0, hard: 0 },
            Limit { resource: 7, soft: 1024, hard: 4096 },
        ],
        terminal: (132, 43),
        closed: [false; 3],
        niceness: Some(0),
        ring: |_| RingSize { hosts: 4, cpus: 6 },
        look: |_, _| Found::Unusable("No such file or directory".into()),
    }
}

/// The arguments of a line without quotes.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn run_by(caller: &Caller) -> Run {
    match parse(caller) {
        Ok(Request::Run(run)) => *run,
        other => panic!("{:?}: {other:?}", caller.arguments),
    }
}

fn run(line: &str) -> Run {
    run_by(&caller(&words(line)))
}

fn spec(line: &str) -> JobSpec {
    run(line).spec
}

/// The only program of a line.
fn argset(line: &str) -> Argset {
    let mut argsets = spec(line).argsets;
    assert_eq!(argsets.len(), 1, "{line}");
    argsets.remove(0)
}

/// The error of a wrong line, without the program's name and the hint.
fn problem(line: &str) -> String {
    problem_of(&words(line))
}

fn problem_of(words: &[&str]) -> String {
    let error = parse(&caller(words)).expect_err(&format!("{words:?}"));
    assert_eq!(error.exit_code(), 125);
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    let text = text.strip_prefix("mpirun: ").expect("the program's name comes first");
    text.strip_suffix(" (see mpirun --help)").unwrap_or(text).to_owned()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
