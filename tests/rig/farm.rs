//! Farms over five hosts: how long they take beside bare loops, and what they do when a daemon, a host or `mpdfarm`
//! itself is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mpd_farm::joblog;
use mpd_tests::random::Random;
use nix::sys::signal::Signal;

use crate::jobs::booted;
use crate::rig::{Rig, RigOptions, up_as, without};
use crate::run::{Run, comes_true, sample, wait_until};

/// Slots of each host.
const SLOTS: usize = 4;

const HOSTS: usize = 5;

fn five() -> Option<(Rig, Vec<String>)> {
    booted(RigOptions { hosts: Some(HOSTS), ..RigOptions::default() })
}

impl Rig {
    /// `mpdfarm` on a host for the lines of `tasks`, with a job log.
    fn farm(&self, host: &str, options: &[&str], tasks: &str) -> Run {
        let tasks = self.file("tasks", tasks);
        let (log, pid) = (self.joblog(), self.share().join("pid"));
        let command = format!("echo $$ > {}; exec mpdfarm \"$@\"", pid.display());
        let mut script = self.script();
        script.args(["exec", host, "sh", "-c", &command, "mpdfarm", "-a", &tasks, "--joblog"]);
        script.arg(log).args(options);
        Run::new(script).deadline(600)
    }

    fn joblog(&self) -> PathBuf {
        self.share().join("log")
    }
}

/// How often the job log has each task.
fn recorded(log: &Path) -> BTreeMap<u64, usize> {
    let text = std::fs::read(log).unwrap_or_default();
    let mut counts = BTreeMap::new();
    let read =
        joblog::Reader::default().push(&text, |line| *counts.entry(line.id.0).or_default() += 1);
    read.expect("a job log");
    counts
}

fn each_once(count: usize) -> BTreeMap<u64, usize> {
    (1..=count as u64).map(|id| (id, 1)).collect()
}

/// The time in which a bare loop runs so many tasks of `sleep 0.01` if it keeps `width` of them running.
fn bare_loop(count: usize, width: usize) -> Duration {
    let (begin, next) = (Instant::now(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..width {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    assert!(Command::new("sleep").arg("0.01").status().expect("sleep").success());
                }
            });
        }
    });
    begin.elapsed()
}

#[test]
fn small_tasks_on_five_hosts_each_run_once() {
    let Some((rig, hosts)) = five() else { return };
    let count = sample(500, 10_000);
    let width = HOSTS * SLOTS;
    let bare = bare_loop(count, width);
    let begin = Instant::now();
    let farm = rig.farm(&hosts[0], &["-j", &SLOTS.to_string()], &"sleep 0.01\n".repeat(count));
    farm.output().code(0).quiet();
    let took = begin.elapsed();
    assert_eq!(recorded(&rig.joblog()), each_once(count));
    rig.figure(&format!(
        "{count} x sleep 0.01 on {HOSTS} hosts with {SLOTS} slots each: {:.2} s, a bare loop of {width} {:.2} s, ratio {:.2}",
        took.as_secs_f64(),
        bare.as_secs_f64(),
        took.as_secs_f64() / bare.as_secs_f64()
    ));
    rig.is_clean("after the farm", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn every_task_has_one_result_although_a_daemon_and_a_host_are_lost() {
    let Some((mut rig, hosts)) = five() else { return };
    const PAUSE: f64 = 0.5;
    // All slots need this time for all tasks.
    let seconds: usize = sample(10, 120);
    let count = seconds * 2 * HOSTS * SLOTS;
    let tasks: String = (1..=count).map(|n| format!("sleep {PAUSE}; echo {n}\n")).collect();
    let begin = Instant::now();
    let options = ["-j", &SLOTS.to_string(), "--retry", "2"];
    let farm = rig.farm(&hosts[0], &options, &tasks).start();
    let log = rig.joblog();
    let done = |part: usize| {
        let limit = Duration::from_secs(600);
        assert!(comes_true(limit, || recorded(&log).len() >= part), "{part} tasks are not done");
    };
    done(count / 4);
    rig.kill_daemon(&hosts[2]);
    done(count / 2);
    let done = recorded(&log).len();
    let lost = Instant::now();
    rig.control(&["kill", &hosts[3]]);
    let output = farm.wait();
    let took = begin.elapsed();
    output.code(0);
    let mut printed: Vec<usize> =
        output.out().lines().map(|line| line.parse().expect("a number")).collect();
    printed.sort_unstable();
    assert_eq!(printed, (1..=count).collect::<Vec<_>>(), "each output once");
    assert_eq!(recorded(&log), each_once(count));
    // The host of the killed daemon may continue or not. Without it, three hosts do the rest.
    let rest = (count - done) as f64 * PAUSE / (3 * SLOTS) as f64;
    let need = (lost - begin).as_secs_f64() + rest;
    rig.figure(&format!(
        "{count} tasks of {PAUSE} s; a daemon and a host are lost: {:.1} s, of which the slots of three hosts need {need:.1} s",
        took.as_secs_f64()
    ));
    rig.is_clean("after the farm", &without(&hosts, &[&hosts[2], &hosts[3]]));
    rig.ends(&hosts[0]);
}

#[test]
fn a_farm_that_is_killed_and_resumed_runs_no_recorded_task_twice() {
    let Some((rig, hosts)) = five() else { return };
    let count = sample(200, 2_000);
    let ran = rig.share().join("ran");
    std::fs::create_dir(&ran).expect("a directory");
    // Each run of a task leaves a file.
    let tasks: String = (1..=count)
        .map(|n| format!("sleep 0.1; mktemp {}/{n}.XXXXXX >/dev/null\n", ran.display()))
        .collect();
    let options = ["-j", &SLOTS.to_string()];
    let farm = rig.farm(&hosts[1], &options, &tasks).start();
    let log = rig.joblog();
    wait_until("a third is done", || recorded(&log).len() >= count / 3);
    let pid = std::fs::read_to_string(rig.share().join("pid")).expect("a process id");
    rig.run(&hosts[1], &["kill", "-9", pid.trim()]);
    farm.wait().ended_by(Signal::SIGKILL);
    let gone = rig.is_clean("after the kill", &hosts);
    let before = recorded(&log);
    assert!(before.len() < count, "the farm was killed before its end");
    rig.farm(&hosts[1], &[&options[..], &["--resume"]].concat(), &tasks).output().code(0);
    assert_eq!(recorded(&log), each_once(count));
    let mut runs: BTreeMap<u64, usize> = BTreeMap::new();
    for entry in std::fs::read_dir(&ran).expect("a directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        let number = name.split('.').next().and_then(|n| n.parse().ok()).expect("a number");
        *runs.entry(number).or_default() += 1;
    }
    let twice: Vec<&u64> = before.keys().filter(|id| runs[id] != 1).collect();
    assert!(twice.is_empty(), "ran again: {twice:?}");
    rig.figure(&format!(
        "kill -9 of mpdfarm after {} of {count} tasks: nothing of it is left after {:.2} s",
        before.len(),
        gone.as_secs_f64()
    ));
    rig.ends(&hosts[0]);
}

/// The time in which list scheduling ends: each task goes to the slot that is free first.
fn list_scheduling(lengths: &[f64], slots: usize) -> f64 {
    let mut ends = vec![0.0_f64; slots];
    for length in lengths {
        let first = ends.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("slots");
        *first += length;
    }
    ends.into_iter().fold(0.0, f64::max)
}

#[test]
fn tasks_of_random_length_fill_unequal_hosts() {
    let Some(rig) = up_as(RigOptions { hosts: Some(HOSTS), ..RigOptions::default() }) else {
        return;
    };
    let slots = [1, 2, 3, 4, 6];
    let lines: String =
        rig.all().iter().zip(slots).map(|(host, slots)| format!("{host}:{slots}\n")).collect();
    let file = rig.file("unequal", &lines);
    rig.run("h1", &["mpdboot", "-f", &file]);
    let hosts = rig.booted();
    let mut random = Random::new(17);
    let longest = sample(10, 40);
    let tenths: Vec<usize> = (0..100).map(|_| 1 + random.below(longest)).collect();
    let tasks: String =
        tenths.iter().map(|tenths| format!("sleep {}.{}\n", tenths / 10, tenths % 10)).collect();
    let lengths: Vec<f64> = tenths.iter().map(|&tenths| tenths as f64 / 10.0).collect();
    let bound = list_scheduling(&lengths, slots.iter().sum());
    let begin = Instant::now();
    rig.farm("h1", &[], &tasks).output().code(0).quiet();
    let took = begin.elapsed().as_secs_f64();
    assert_eq!(recorded(&rig.joblog()), each_once(100));
    rig.figure(&format!(
        "100 tasks of 0.1 to {} s on hosts of 1, 2, 3, 4 and 6 slots: {took:.2} s, list scheduling {bound:.2} s, ratio {:.2}",
        longest as f64 / 10.0,
        took / bound
    ));
    rig.is_clean("after the farm", &hosts);
    rig.ends(&hosts[0]);
}
