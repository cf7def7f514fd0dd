//! Whole command lines: the resulting job or the error.

mod debug;
mod dry_run;
mod environment;
mod files;
mod hosts;
mod job;
mod launch_lines;
mod launchers;
mod machines;
mod programs;
mod singleton;
mod texts;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use mpd_placement::Candidate;
use mpd_placement::cpu::Cpu;
use mpd_placement::hosts::HostEntry;
use mpd_wire::DaemonName;
use mpd_wire::job::{Argset, Bytes, HostChoice, Limit};

use super::*;
use crate::linked::Found;
use crate::ring::RingSize;
use crate::slots::Held;
use crate::surroundings::{RingKind, Surroundings};

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
        terminal: || (132, 43),
        closed: [false; 3],
        niceness: Some(0),
        ring: |_| RingSize { hosts: 4, cpus: 6 },
        look: |_, _| Found::Unusable("No such file or directory".into()),
        cpus: || (0..8).map(cpu).collect(),
        finds: |_, _| false,
        survey: |_, hosts| Ok(surroundings(hosts)),
        loaded: |_| {
            let mut all = surroundings(&["h1", "h2"].map(|h| HostEntry::named(h.into(), Some(8))));
            all.members[1].load.running = 3200;
            Ok(all)
        },
        held: |_, alloc| match alloc {
            "a3" => Ok(Held {
                id: "a3@h1".to_owned(),
                hosts: ["h1", "h2"].map(|h| HostChoice::new(h.to_owned(), Some(2))).to_vec(),
            }),
            _ => Err(format!("there is no allocation {alloc}")),
        },
    }
}

/// A ring without a standing daemon. This host is `h0`. Each host has two NUMA nodes of two cores of two threads. The
/// resolver knows no name that begins with `x`.
fn surroundings(hosts: &[HostEntry]) -> Surroundings {
    let here = DaemonName::new("h0").unwrap();
    let mut members = vec![candidate("h0", 8, 1)];
    for (entry, ordinal) in hosts.iter().zip(2..) {
        let known = members.iter().any(|c| c.member.as_str() == entry.host);
        if !known && !["h0", "localhost"].contains(&entry.host.as_str()) {
            members.push(candidate(&entry.host, entry.ncpus.unwrap_or(8), ordinal));
        }
    }
    let address = |name: &DaemonName| match name.as_str().starts_with('x') {
        true => Err("Name or service not known".to_owned()),
        false => Ok(vec!["192.0.2.1".to_owned()]),
    };
    Surroundings {
        kind: RingKind::Private,
        addresses: members.iter().map(|c| (c.member.clone(), address(&c.member))).collect(),
        assumed: Vec::new(),
        others: BTreeMap::new(),
        cpus: (0..8).map(cpu).collect(),
        here,
        members,
    }
}

fn cpu(number: u32) -> Cpu {
    let node = number % 4 / 2;
    Cpu { node, socket: node, cache: node, core: number % 4, number }
}

fn candidate(name: &str, ncpus: u32, ordinal: u64) -> Candidate {
    Candidate::new(DaemonName::new(name).unwrap(), ncpus, ordinal)
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
