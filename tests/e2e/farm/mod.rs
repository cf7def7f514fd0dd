//! `mpdfarm`: every task ends once, also after kills.

mod basics;
mod ends;
mod hosts;
mod resume;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use mpd_farm::joblog;

use crate::run::Run;
use crate::suite::Suite;

impl Suite {
    /// `mpdfarm` with these arguments; its tasks are the lines of `input`.
    fn farm<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>, input: &str) -> Run {
        self.command(self.program("mpdfarm")).args(arguments).input(input).deadline(60)
    }

    /// The file for the job log.
    fn log(&self) -> PathBuf {
        self.path("work/log")
    }
}

/// A line for each number.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (1..=count).map(|number| line(number) + "\n").collect()
}

/// How often the job log has each task.
fn recorded(log: &Path) -> BTreeMap<u64, usize> {
    let text = std::fs::read(log).expect("a job log");
    let mut counts = BTreeMap::new();
    let read =
        joblog::Reader::default().push(&text, |line| *counts.entry(line.id.0).or_default() += 1);
    read.expect("a job log");
    counts
}

/// Checks that the job log has the tasks from 1 to `count`, each once.
fn check_each_once(log: &Path, count: u64) {
    let expected: BTreeMap<u64, usize> = (1..=count).map(|id| (id, 1)).collect();
    assert_eq!(recorded(log), expected);
}

/// The hosts that the job log names.
fn hosts(log: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(log).expect("a job log");
    let mut counts = BTreeMap::new();
    for line in text.lines().skip(1) {
        let host = line.split('\t').nth(1).expect("a host");
        *counts.entry(host.to_owned()).or_default() += 1;
    }
    counts
}
