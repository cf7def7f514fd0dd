//! Every fault in every phase of a job, with the outcomes of `matrix.txt`. One fault affects six jobs at once, each
//! in a different phase. By default three faults run: a host that is dead, one that is silent, and one that is slow.
//! MPD_TEST_FULL=1 runs all faults, MPD_RIG_FAULT one fault.

use std::io::Write as _;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use mpd_tests::digest::{Digest, block};
use mpd_tests::surroundings::program;
use mpd_tests::waiting::comes_true_slowly;
use nix::sys::signal::Signal;

use crate::hosts::{Job, counted};
use crate::jobs::booted;
use crate::process::{self, Process};
use crate::rig::{Rig, RigOptions, number, without};
use crate::run::{Output, sample};

const TABLE: &str = include_str!("matrix.txt");
/// The faults that run by default.
const SAMPLE: [&str; 3] = ["power-cut", "freeze", "loss"];
const PHASES: [&str; 6] = ["start", "run", "flood", "stdin", "stop", "end"];
/// Numbers of blocks of standard input before and after the fault.
const BLOCKS: u64 = 8;
/// How long a fault lasts that jobs must survive.
const RIDDEN_OUT: Duration = Duration::from_secs(3);

/// A fault, and the expected outcome of a job in each phase.
struct Row {
    fault: &'static str,
    outcomes: [&'static str; 6],
}

fn table() -> Vec<Row> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.map(|line| {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let [fault, outcomes @ ..] = &arguments[..] else { panic!("no row: {line}") };
        Row { fault, outcomes: outcomes.try_into().expect("an outcome for each phase") }
    })
    .collect()
}

/// The rows of this run.
fn chosen() -> Vec<Row> {
    let mut rows = table();
    if let Ok(fault) = std::env::var("MPD_RIG_FAULT") {
        rows.retain(|row| row.fault == fault);
        return rows;
    }
    rows.retain(|row| sample(SAMPLE.contains(&row.fault), true));
    rows
}

/// Six jobs, in the order of [`PHASES`], and the feeder of one of them.
struct Jobs {
    all: Vec<Job>,
    stdin: ChildStdin,
    stopped: Process,
}

/// Starts the jobs and brings them into their phases, except the job of the phase `start`.
fn start_jobs(rig: &Rig, hosts: &[String]) -> Jobs {
    let ranks = 2 * hosts.len();
    let run = rig.counts(&hosts[0], "run", ranks, [50, 0]);
    let flood = rig.counts(&hosts[0], "flood", ranks, [2, 200]);
    let mut stdin = reads(rig, hosts);
    let mut pipe = stdin.running.stdin();
    for index in 0..BLOCKS {
        pipe.write_all(&block(index)).expect("stdin of mpirun");
    }
    let stop = rig.counts(&hosts[0], "stopped", ranks, [50, 0]);
    let stopped = stop.suspend(rig);
    let end = rig.counts(&hosts[0], "end", ranks, [50, 0]);
    end.stop();
    let start = rig.begins(&hosts[0], "start", &[], ranks, [50, 0]);
    Jobs { all: vec![start, run, flood, stdin, stop, end], stdin: pipe, stopped }
}

/// A job with one rank on the affected host, which sums its standard input, and one waiting rank on each other host.
fn reads(rig: &Rig, hosts: &[String]) -> Job {
    let directory = rig.share().join("stdin");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir(&directory).expect("a directory");
    let (helper, last) = (program("t-stdin").display().to_string(), hurt_at(hosts).to_string());
    let ranks = hosts.len().to_string();
    let arguments = ["-np", &ranks, "-ppn", "1", "-s", &last, &helper, "sum"];
    let running = rig.mpirun(&hosts[0], &arguments).input_pipe().start();
    Job { running, host: hosts[0].clone(), directory }
}

/// The affected host.
fn hurt_at(hosts: &[String]) -> usize {
    hosts.len() - 2
}

/// Causes the fault; returns the affected hosts.
fn cause(rig: &mut Rig, fault: &str, hosts: &[String]) -> Vec<String> {
    let hurt = hosts[hurt_at(hosts)].clone();
    match fault {
        "kill" => {
            for found in rig.processes(std::slice::from_ref(&hurt)) {
                if found.process.is_manager() {
                    process::send(found.process.pid, Signal::SIGKILL);
                }
            }
        }
        "power-cut" => rig.control(&["kill", &hurt]),
        "split" => {
            let far = hosts[hosts.len() / 2..].to_vec();
            let arguments: Vec<&str> =
                std::iter::once("split").chain(far.iter().map(String::as_str)).collect();
            rig.control(&arguments);
            return far;
        }
        "delay" => rig.control(&["delay", &hurt, "200"]),
        "loss" => rig.control(&["loss", &hurt, "5"]),
        "cut" | "freeze" => rig.control(&[fault, &hurt]),
        other => panic!("no fault '{other}'"),
    }
    vec![hurt]
}

fn undo(rig: &mut Rig, fault: &str, hurt: &str, from: &str) {
    match fault {
        "kill" => {}
        "power-cut" => {
            rig.control(&["boot", hurt]);
            rig.can_log_in(from, hurt);
            let file = rig.file("one", &format!("{hurt}\n"));
            rig.run(from, &["mpdboot", "--add", "-f", &file]);
        }
        "freeze" => rig.control(&["thaw", hurt]),
        "delay" => rig.control(&["delay", hurt, "0"]),
        _ => rig.control(&["heal"]),
    }
}

/// Checks the outcome of a job; returns the problem, if there is one.
fn check(
    cell: &str,
    expected: &str,
    output: &Output,
    hurt: &[String],
    whole: bool,
) -> Option<String> {
    let named = hurt.iter().any(|host| output.err().contains(host.as_str()));
    let lost = output.exit_code() == Some(125) && named;
    let right = match expected {
        "lost" => lost,
        "whole" => whole,
        "either" => lost || whole,
        other => panic!("no outcome '{other}'"),
    };
    let shown = |text: String| text.chars().take(300).collect::<String>();
    (!right).then(|| {
        format!("{cell}: not {expected}: {:?}, {}", output.exit_code(), shown(output.err()))
    })
}

fn run_row(rig: &mut Rig, hosts: &[String], row: &Row) -> Vec<String> {
    let Row { fault, outcomes } = row;
    let begin = Instant::now();
    let Jobs { all, mut stdin, stopped } = start_jobs(rig, hosts);
    let hurt = cause(rig, fault, hosts);
    let struck = Instant::now();
    if *fault == "kill" {
        // The host may have had no manager yet.
        all[0].stop();
    }
    let rides_out = outcomes.contains(&"whole");
    if rides_out {
        std::thread::sleep(RIDDEN_OUT);
    } else {
        // Its mpirun is stopped and prints nothing, but its ranks are gone, like the ranks of the others. Only
        // consoles are left.
        let rest = match *fault {
            "kill" | "split" => hosts.to_vec(),
            _ => without(hosts, &[&hurt[0]]),
        };
        let is_rank = |line: &String| line.contains("/t-") || line.contains("mpdman");
        let mut left = Vec::new();
        let clean = comes_true_slowly(Duration::from_millis(50), Duration::from_secs(40), || {
            left = rig.strays(&rest);
            left.retain(|line| is_rank(line) && !line.contains("mpirun"));
            left.is_empty()
        });
        assert!(clean, "{fault}: left on other hosts:\n{}", left.join("\n"));
    }
    let clean = struck.elapsed();
    let mut wanted = Digest::default();
    for index in 0..2 * BLOCKS {
        wanted.add(&block(index));
        if index >= BLOCKS && stdin.write_all(&block(index)).is_err() {
            break;
        }
    }
    drop(stdin);
    process::send(stopped.pid, Signal::SIGCONT);
    let mut wrong = Vec::new();
    let ranks = 2 * hosts.len();
    for (at, job) in all.into_iter().enumerate() {
        let phase = PHASES[at];
        job.stop();
        let output = job.running.wait();
        let whole = output.exit_code() == Some(0)
            && if phase == "stdin" {
                let sum = format!("{}: {wanted}\n", hurt_at(hosts));
                output.out().contains(&sum)
            } else {
                counted(&output.stdout, true) == ranks
            };
        if output.exit_code() != Some(0) && phase != "stdin" {
            counted(&output.stdout, false);
        }
        wrong.extend(check(&format!("{fault}/{phase}"), outcomes[at], &output, &hurt, whole));
    }
    undo(rig, fault, &hosts[hurt_at(hosts)], &hosts[0]);
    rig.heals(&format!("after {fault}"), hosts);
    rig.is_clean(fault, hosts);
    rig.figure(&format!(
        "{fault} in six phases: ranks on other hosts gone (or the job survived) after {:.1} s, all of {:.1} s",
        clean.as_secs_f64(),
        begin.elapsed().as_secs_f64()
    ));
    wrong
}

#[test]
fn every_fault_in_every_phase_has_the_outcome_of_the_table() {
    let rows = chosen();
    let Some((mut rig, hosts)) = booted(RigOptions { hosts: Some(8), ..RigOptions::default() })
    else {
        return;
    };
    let mut wrong = Vec::new();
    for _ in 0..number("MPD_RIG_ROUNDS", 1) {
        for row in &rows {
            wrong.extend(run_row(&mut rig, &hosts, row));
        }
    }
    rig.ends(&hosts[0]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_has_an_outcome_for_every_fault_in_every_phase() {
    let heading = TABLE.lines().rfind(|line| line.starts_with('#')).expect("a heading");
    let phases: Vec<&str> = heading.trim_start_matches('#').split_whitespace().collect();
    assert_eq!(phases, PHASES);
    for row in table() {
        let known = |word: &&&str| !["lost", "whole", "either"].contains(word);
        assert_eq!(row.outcomes.iter().find(known), None, "{}", row.fault);
    }
    assert_eq!(table().len(), 7);
}
