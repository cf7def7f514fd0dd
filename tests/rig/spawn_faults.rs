//! The end of a job that has spawned, or is spawning, when hosts and daemons fail.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mpd_tests::waiting::comes_true_slowly;

use crate::hosts::Found;
use crate::jobs::booted;
use crate::rig::{Rig, without};
use crate::run::{Running, wait_until};
use crate::spawns::{five, spawner};

/// Each look takes CPU time of the test.
const PAUSE: Duration = Duration::from_millis(50);
/// A silent host is declared dead after 8 s; a busy machine may need more.
const LOSS: Duration = Duration::from_secs(60);

fn directory(rig: &Rig, name: &str) -> (PathBuf, String) {
    let directory = rig.share().join(name);
    fs::create_dir(&directory).expect("a directory");
    let text = directory.display().to_string();
    (directory, text)
}

/// A job whose spawner is alone on h2 and has spawned eight processes, which stay: two on each host except h1,
/// the host of its console.
fn eight_stay(rig: &Rig, hosts: &[String]) -> Running {
    let (path, place) = directory(rig, "stay");
    let list = hosts[1..].join(",");
    let arguments = ["hold", &place, "8", "1", "self", "stay", &place];
    let job = spawner(rig, &hosts[0], &["-hosts", &list], &arguments).start();
    wait_until("all are there", || {
        let names = fs::read_dir(&path).expect("the directory").flatten();
        let ready = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("ready."));
        path.join("held.1").exists() && ready.count() == 8
    });
    let of_job = |found: &Found| found.process.runs("t-spawn");
    for (host, expected) in hosts.iter().zip([0, 3, 2, 2, 2]) {
        let here = rig.processes(std::slice::from_ref(host));
        assert_eq!(here.iter().filter(|found| of_job(found)).count(), expected, "on {host}");
    }
    job
}

/// After a power cut of a host of that job, the job ends with that host's name, and the other hosts are clean.
fn ends_the_job(lost: usize, what: &str) {
    let Some((mut rig, hosts)) = booted(five()) else { return };
    let job = eight_stay(&rig, &hosts);
    let begin = Instant::now();
    rig.control(&["kill", &hosts[lost]]);
    let left = without(&hosts, &[&hosts[lost]]);
    let output = job.wait();
    output.code(125).says(&[&format!("host {} is lost", hosts[lost])]).brief();
    rig.is_clean(what, &left);
    rig.figure(&format!("{what}: all clean after {:.2} s", begin.elapsed().as_secs_f64()));
    rig.heals("the rest", &left);
    rig.ends(&hosts[0]);
}

#[test]
fn a_power_cut_of_a_spawners_host_ends_the_job_on_all_hosts() {
    ends_the_job(1, "power cut of the spawner's host");
}

#[test]
fn a_power_cut_of_a_host_of_children_ends_the_job_with_its_name() {
    ends_the_job(3, "power cut of a host of spawned processes");
}

#[test]
fn the_loss_of_a_joined_host_without_ranks_does_not_end_the_job() {
    let Some((mut rig, hosts)) = booted(five()) else { return };
    let (path, place) = directory(&rig, "hold");
    let arguments = ["hold", &place, "8,8", "1", "self", "leaf"];
    let job = spawner(&rig, &hosts[0], &[], &arguments).start();
    wait_until("it holds", || path.join("held.1").exists());
    let leaves =
        || rig.processes(&hosts[1..]).iter().filter(|found| found.process.runs("t-spawn")).count();
    wait_until("the others run nothing of it", || leaves() == 0);
    rig.control(&["kill", &hosts[3]]);
    let reported = || job.stderr().contains("host h4 is lost");
    assert!(comes_true_slowly(PAUSE, LOSS, reported), "no message says that h4 is lost");
    let left = without(&hosts, &[&hosts[3]]);
    rig.heals("the rest", &left);
    fs::write(path.join("go.1"), "").expect("a file");
    wait_until("it has spawned again", || path.join("held.2").exists());
    fs::write(path.join("go.2"), "").expect("a file");
    let output = job.wait();
    output.code(0).says(&["no process of the job runs there"]).brief();
    let on_it = output.out().lines().filter(|line| *line == "h4").count();
    assert_eq!(on_it, 2, "two of the first eight, and no others: {output}");
    rig.is_clean("after the job", &left);
    rig.ends(&hosts[0]);
}

#[test]
fn spawns_wait_for_the_next_daemon_of_the_roots_host() {
    let Some((rig, hosts)) = booted(five()) else { return };
    let (path, place) = directory(&rig, "until");
    let arguments = ["until", &place, "1", "self", "quiet"];
    let job = spawner(&rig, &hosts[0], &[], &arguments).start();
    let spawned = || job.stdout().matches("spawned ").count();
    wait_until("it spawns", || spawned() >= 20);
    for _ in 0..3 {
        let before = spawned();
        rig.kill_daemon(&hosts[0]);
        rig.run(&hosts[0], &["mpd", "--daemon"]);
        wait_until("it continues", || spawned() > before + 20);
        rig.heals("the daemon is back", &hosts);
    }
    fs::write(path.join("stop"), "").expect("a file");
    job.wait().code(0).quiet();
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn a_spawn_without_a_daemon_fails_with_a_message_in_limited_time() {
    let Some((rig, hosts)) = booted(five()) else { return };
    let (_, place) = directory(&rig, "until");
    let arguments = ["until", &place, "1", "self", "quiet"];
    let job = spawner(&rig, &hosts[0], &[], &arguments).start();
    wait_until("it spawns", || job.stdout().matches("spawned ").count() >= 20);
    rig.kill_daemon(&hosts[0]);
    let begin = Instant::now();
    let output = job.wait();
    let took = begin.elapsed();
    output.code(3).says(&["the daemon here does not answer", "t-spawn: spawn failed"]);
    rig.figure(&format!("a spawn without a daemon: refused after {:.1} s", took.as_secs_f64()));
    rig.run(&hosts[0], &["mpd", "--daemon"]);
    rig.heals("the daemon is back", &hosts);
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}
