//! Consoles that are stopped for longer than the host timeout, and large input and output.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use mpd_tests::digest::{BLOCK, Digest, block};
use mpd_tests::surroundings::program;
use mpd_tests::waiting::comes_true_slowly;
use nix::sys::signal::Signal;

use crate::hosts::{Job, counted};
use crate::jobs::booted;
use crate::process::{self, Process};
use crate::rig::{Rig, RigOptions};
use crate::run::{Run, sample, wait_until};

/// Longer than the timeout for a silent host.
const LONG: Duration = Duration::from_secs(12);
/// How much the processes of a job may grow while their output is not read, or during large input.
const GROWTH_KIB: u64 = 2048;

/// Daemons, managers and consoles with their resident size.
fn sizes(rig: &Rig, hosts: &[String]) -> Vec<(String, i32, u64)> {
    let found = rig.processes(hosts).into_iter();
    found
        .filter(|found| found.process.runs("mpd") || found.process.runs("mpirun"))
        .map(|found| (found.host, found.process.pid, found.process.resident_kib()))
        .collect()
}

/// Fails if a process has grown; returns the largest size.
fn are_flat(rig: &Rig, hosts: &[String], before: &[(String, i32, u64)]) -> u64 {
    let now = sizes(rig, hosts);
    for (host, pid, kib) in &now {
        let was = before.iter().find(|(_, known, _)| known == pid).map_or(0, |(_, _, kib)| *kib);
        assert!(was > 0 && *kib <= was + GROWTH_KIB, "{pid} on {host}: from {was} to {kib} KiB");
    }
    now.iter().map(|(_, _, kib)| *kib).max().unwrap_or(0)
}

#[test]
fn a_job_stopped_for_long_continues_after_sigcont() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 2 * hosts.len();
    let job = rig.counts(&hosts[0], "steps", ranks, [20, 0]);
    let console = job.suspend(&rig);
    std::thread::sleep(LONG);
    let stopped_output = job.running.stdout();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(job.running.stdout().len(), stopped_output.len(), "a stopped job writes");
    process::send(console.pid, Signal::SIGCONT);
    wait_until("it continues", || job.running.stdout().len() > stopped_output.len() + 2000);
    job.ends_whole(ranks);
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn an_unread_console_grows_no_process_and_loses_no_host() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 8 * hosts.len();
    let directory = rig.share().join("steps");
    std::fs::create_dir(&directory).expect("a directory");
    let steps = program("t-steps").display().to_string();
    let place = directory.display().to_string();
    let arguments = ["-np", &ranks.to_string(), "-ppn", "8", &steps, &place, "0", "200"];
    let mut running = rig.mpirun(&hosts[0], &arguments).deadline(300).start_unread();
    let mut pipe = running.take_stdout();
    let job = Job { running, host: hosts[0].clone(), directory };
    job.is_ready(ranks);
    let console = job.console(&rig);
    // Output does not pass through mpirun: no process reads it, and mpirun is also stopped.
    process::send(console.pid, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(2));
    let before = sizes(&rig, &hosts);
    std::thread::sleep(sample(LONG, Duration::from_secs(60)));
    let largest = are_flat(&rig, &hosts, &before);
    rig.figure(&format!("{ranks} writers, nobody reads: the largest process has {largest} KiB"));
    assert!(rig.is_one_ring(&hosts), "the ring suffers");
    rig.mpirun(&hosts[1], &["-np", "8", "-ppn", "1", "true"]).output().code(0);
    // Signals overtake the waiting output.
    let writers = || -> Vec<Process> {
        let found = rig.processes(&hosts).into_iter().map(|found| found.process);
        found.filter(|process| process.runs("t-steps")).collect()
    };
    assert_eq!(writers().len(), ranks, "the job lives");
    rig.run(&hosts[2], &["mpdsigjob", "STOP", "-j", "1@h1"]);
    wait_until("all are stopped", || writers().iter().all(Process::is_stopped));
    rig.run(&hosts[2], &["mpdsigjob", "CONT", "-j", "1@h1"]);
    wait_until("all continue", || !writers().iter().any(Process::is_stopped));
    process::send(console.pid, Signal::SIGCONT);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("stdout of mpirun");
        bytes
    });
    job.stop();
    job.running.wait().code(0);
    let bytes = reader.join().expect("what was written");
    assert_eq!(counted(&bytes, true), ranks, "ranks with complete output");
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn much_input_reaches_a_rank_on_another_host_whole() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let blocks = sample(32_u64, 1024) * (1 << 20) / BLOCK as u64;
    let last = (hosts.len() - 1).to_string();
    let count = hosts.len().to_string();
    let helper = program("t-stdin").display().to_string();
    let arguments = ["-np", &count, "-ppn", "1", "-s", &last, &helper, "sum"];
    let mut job = rig.mpirun(&hosts[0], &arguments).deadline(600).input_pipe().start();
    let mut pipe = job.stdin();
    let mut digest = Digest::default();
    let begin = Instant::now();
    let mut before = Vec::new();
    for index in 0..blocks {
        let bytes = block(index);
        digest.add(&bytes);
        pipe.write_all(&bytes).expect("stdin of mpirun");
        if index == blocks / 4 {
            before = sizes(&rig, &hosts);
        }
    }
    let largest = are_flat(&rig, &hosts, &before);
    drop(pipe);
    let output = job.wait();
    let took = begin.elapsed().as_secs_f64();
    output.code(0);
    assert!(output.out().contains(&format!("{last}: {digest}\n")), "{digest}: {output}");
    let mib = blocks * BLOCK as u64 / (1 << 20);
    rig.figure(&format!("{mib} MiB of input to another host: {took:.1} s, largest {largest} KiB"));
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn output_is_exact_while_a_daemon_dies_and_a_cable_is_cut() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 2 * hosts.len();
    let job = rig.counts(&hosts[0], "steps", ranks, [2, 300]);
    rig.kill_daemon(&hosts[4]);
    rig.control(&["cut", &hosts[3]]);
    std::thread::sleep(Duration::from_secs(3));
    rig.control(&["heal"]);
    rig.run(&hosts[4], &["mpd", "--daemon"]);
    let rank = "6 ";
    let received = || job.running.stdout().lines().filter(|line| line.starts_with(rank)).count();
    let before = received();
    let pause = Duration::from_millis(100);
    assert!(comes_true_slowly(pause, Duration::from_secs(60), || received() > before + 100));
    job.ends_whole(ranks);
    rig.heals("after the faults", &hosts);
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

/// Sixty-four ranks write lines whose bytes are known, in pieces of unknown sizes.
fn lines_are_exact(rig: &mut Rig, hosts: &[String], count: usize, hurt: impl FnOnce(&mut Rig)) {
    const RANKS: usize = 64;
    let (begun, each) = (rig.share().join("begun"), RANKS / hosts.len());
    let _ = std::fs::remove_file(&begun);
    let script = format!(
        "set -o pipefail; mpirun -l -np {RANKS} -ppn {each} sh -c 'echo >{begun}; exec t-lines 41 {count} 8192 out' |
         t-check-lines 41 {count} 8192 {RANKS}",
        begun = begun.display()
    );
    let mut command = rig.script();
    command.args(["exec", &hosts[0], "bash", "-c", &script]);
    let begin = Instant::now();
    let job = Run::new(command).deadline(900).start();
    wait_until("the ranks", || begun.exists());
    hurt(rig);
    let output = job.wait();
    output.code(0).quiet();
    assert!(output.out().starts_with(&format!("exact: {} lines, ", RANKS * count)), "{output}");
    rig.figure(&format!(
        "{}in {:.1} s",
        output.out().replace('\n', " "),
        begin.elapsed().as_secs_f64()
    ));
    rig.is_clean("after the job", hosts);
}

#[test]
fn lines_of_sixty_four_ranks_are_exact_over_a_slow_cable() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    lines_are_exact(&mut rig, &hosts, sample(300, 100_000), |_| ());
    lines_are_exact(&mut rig, &hosts, sample(300, 100_000), |rig| rig.kill_daemon(&hosts[5]));
    rig.run(&hosts[5], &["mpd", "--daemon"]);
    rig.heals("with the daemon started again", &hosts);
    rig.control(&["delay", &hosts[2], "50"]);
    lines_are_exact(&mut rig, &hosts, sample(100, 10_000), |_| ());
    rig.ends(&hosts[0]);
}

#[test]
fn equal_lines_of_256_ranks_are_merged_into_one_line() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let count = sample(200, 10_000);
    let each = (256 / hosts.len()).to_string();
    let script = format!("i=0; while [ $i -lt {count} ]; do echo \"line $i\"; i=$((i + 1)); done");
    let arguments = ["-m", "-np", "256", "-ppn", &each, "sh", "-c", &script];
    let output = rig.mpirun(&hosts[1], &arguments).deadline(300).output();
    let one: String = (0..count).map(|number| format!("line {number}\n")).collect();
    let all: String = one.lines().map(|line| format!("0-255: {line}\n")).collect();
    output.code(0).quiet();
    assert!(output.out() == all, "{} bytes instead of {}", output.out().len(), all.len());
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}
