//! Prints its process attributes: `t-env [NAME...]`.
//!
//! One fact per line: arguments and the named variables (all variables without a NAME) in hexadecimal,
//! directory, umask, limits, descriptors, signal masks, ids.
#![expect(clippy::print_stdout, reason = "its purpose")]

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{getpgrp, getpid, getppid, getsid};

fn main() {
    mpd_tests::bound(30);
    let named: Vec<_> = std::env::args_os().skip(1).collect();
    let mut text = String::new();
    for (name, value) in std::env::vars_os() {
        if named.is_empty() || named.contains(&name) {
            let name = name.to_string_lossy();
            let (length, hex) = (value.len(), hex(value.as_bytes()));
            writeln!(text, "env {name} length {length} hex {hex}").expect("a String grows");
        }
    }
    for argument in &named {
        writeln!(text, "argument hex {}", hex(argument.as_bytes())).expect("a String grows");
    }
    let directory = std::env::current_dir().expect("a current directory");
    let mask = umask(Mode::empty());
    let (pid, parent, group) = (getpid(), getppid(), getpgrp());
    let session = getsid(None).expect("a session");
    print!("{text}");
    println!("cwd {}", directory.display());
    println!("umask {:04o}", mask.bits());
    println!("pid {pid} parent {parent} group {group} session {session}");
    for (name, resource) in [
        ("nofile", Resource::RLIMIT_NOFILE),
        ("core", Resource::RLIMIT_CORE),
        ("stack", Resource::RLIMIT_STACK),
        ("nproc", Resource::RLIMIT_NPROC),
        ("fsize", Resource::RLIMIT_FSIZE),
        ("cpu", Resource::RLIMIT_CPU),
    ] {
        let (soft, hard) = getrlimit(resource).expect("a limit");
        println!("limit {name} soft {soft} hard {hard}");
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    for line in status.lines().filter(|l| l.starts_with("SigBlk") || l.starts_with("SigIgn")) {
        println!("{}", line.replace('\t', " "));
    }
    for (number, target) in descriptors() {
        println!("fd {number} {target}");
    }
}

/// The descriptors open at the start, without the one that lists them.
fn descriptors() -> Vec<(i32, String)> {
    let mut all: Vec<(i32, String)> = std::fs::read_dir("/proc/self/fd")
        .expect("/proc/self/fd")
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            let target = std::fs::read_link(entry.path()).ok()?;
            Some((number, target.to_string_lossy().into_owned()))
        })
        .filter(|(_, target)| !target.ends_with("/fd"))
        .collect();
    all.sort_unstable();
    all
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String grows");
        text
    })
}
