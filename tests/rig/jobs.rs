//! Jobs on many hosts without failures of hosts or cables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mpd_tests::random::Random;
use mpd_tests::surroundings::{program, skip};
use nix::sys::signal::Signal;

use crate::hosts::median;
use crate::process::{self, Process};
use crate::rig::{Rig, RigOptions, number, up_as, without};
use crate::run::{comes_true, sample, wait_until};

/// A rig with a ring.
pub(crate) fn booted(options: RigOptions) -> Option<(Rig, Vec<String>)> {
    let rig = up_as(options)?;
    rig.boot(&[]);
    let hosts = rig.booted();
    Some((rig, hosts))
}

fn helper(name: &str) -> String {
    program(name).display().to_string()
}

#[test]
fn every_rank_prints_once_with_its_label_from_its_host() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks: usize = number("MPD_RIG_RANKS", 2 * hosts.len());
    let each = ranks.div_ceil(hosts.len());
    let (count, share) = (ranks.to_string(), each.to_string());
    let begin = Instant::now();
    let output = rig.mpirun(&hosts[1], &["-np", &count, "-ppn", &share, "-l", "hostname"]).output();
    let took = begin.elapsed();
    output.code(0).quiet();
    let mut received: BTreeMap<usize, String> = BTreeMap::new();
    for line in output.out().lines() {
        let (label, host) = line.split_once(": ").unwrap_or_else(|| panic!("no label: {line}"));
        let rank = label.trim().parse().unwrap_or_else(|_| panic!("no rank: {line}"));
        assert!(received.insert(rank, host.to_owned()).is_none(), "twice: {line}");
    }
    assert!(received.keys().copied().eq(0..ranks), "labels: {received:?}");
    let places: BTreeSet<&String> = received.values().collect();
    assert_eq!(places.len(), ranks.div_ceil(each), "{places:?}");
    rig.figure(&format!("mpirun -np {ranks} -l hostname: {:.2} s", took.as_secs_f64()));
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn thirty_two_ranks_on_five_hosts_start_and_end_within_a_second() {
    let Some((rig, hosts)) = booted(RigOptions { hosts: Some(5), ..RigOptions::default() }) else {
        return;
    };
    let runs = "for run in 1 2 3 4 5 6 7 8 9 10 11; do begin=$EPOCHREALTIME; \
                mpirun -np 32 hostname | wc -l; echo $begin $EPOCHREALTIME; done";
    let text = rig.run(&hosts[0], &["bash", "-c", runs]);
    let mut times = Vec::new();
    for line in text.lines() {
        match line.split_once(' ') {
            None => assert_eq!(line.trim(), "32", "lines of a job"),
            Some((begin, end)) => {
                let seconds = |text: &str| text.parse::<f64>().expect("a time");
                times.push(Duration::from_secs_f64(seconds(end) - seconds(begin)));
            }
        }
    }
    assert_eq!(times.len(), 11);
    let median = median(&mut times).as_secs_f64() * 1e3;
    rig.figure(&format!("mpirun -np 32 hostname on five hosts: median {median:.0} ms"));
    rig.ends(&hosts[0]);
}

#[test]
fn a_job_outlives_its_daemons_and_new_jobs_run_on_other_hosts() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 2 * hosts.len();
    let job = rig.counts(&hosts[0], "steps", ranks, [20, 0]);
    let listed = |host: &str| rig.run(host, &["mpdlistjobs", "--sss"]).lines().count();
    for host in &hosts {
        wait_until("all ranks are listed", || listed(host) == ranks);
    }
    for lost in [&hosts[2], &hosts[0]] {
        let rest = without(&hosts, &[lost]);
        rig.kill_daemon(lost);
        let begin = Instant::now();
        // The ring may not have detected the loss everywhere yet; a new job must run soon.
        let other = || {
            rig.mpirun(&rest[2], &["-np", "12", "-ppn", "2", "-l", "hostname"]).output().exit_code()
                == Some(0)
        };
        assert!(comes_true(Duration::from_secs(30), other), "no new job without {lost}");
        rig.figure(&format!(
            "a new job with a killed daemon: {:.2} s after the kill",
            begin.elapsed().as_secs_f64()
        ));
        rig.heals(&format!("without {lost}"), &rest);
        rig.run(lost, &["mpd", "--daemon"]);
        rig.heals(&format!("{lost} is back"), &hosts);
        for host in [lost, &rest[3]] {
            wait_until("all ranks are listed again", || listed(host) == ranks);
        }
    }
    job.ends_whole(ranks);
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn many_simultaneous_jobs_of_all_hosts_print_only_their_own_output() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let count = hosts.len().to_string();
    let mut jobs = Vec::new();
    // As many managers at once with few hosts as with many: one machine has to start them all.
    let of_each = (48 / hosts.len()).clamp(1, 6);
    for host in hosts.iter().take(8) {
        for number in 0..of_each {
            let own = format!("{host}-{number}");
            let arguments = ["-np", &count, "-ppn", "1", "echo", &own];
            jobs.push((rig.mpirun(host, &arguments).start(), own));
        }
    }
    for (job, own) in jobs {
        job.wait().code(0).prints(&format!("{own}\n").repeat(hosts.len()));
    }
    rig.is_clean("after the jobs", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn any_host_can_signal_and_kill_a_job() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let directory = rig.share().join("signals");
    std::fs::create_dir(&directory).expect("a directory");
    let ranks = 8 * hosts.len();
    let (count, place) = (ranks.to_string(), directory.display().to_string());
    let arguments = ["-np", &count, "-ppn", "8", "-a", "x", &helper("t-signals"), &place, "200"];
    let job = rig.mpirun(&hosts[0], &arguments).start();
    let ready = |rank: usize| directory.join(format!("ready.{rank}")).exists();
    wait_until("all ranks are ready", || (0..ranks).all(ready));
    let received = |rank: usize| {
        std::fs::read_to_string(directory.join(format!("got.{rank}"))).unwrap_or_default()
    };
    let last = hosts.len() - 1;
    rig.run(&hosts[last], &["mpdsigjob", "USR1", "-a", "x"]);
    wait_until("all got the signal", || (0..ranks).all(|rank| received(rank) == "SIGUSR1\n"));
    rig.run(&hosts[last], &["mpdsigjob", "USR2", "-a", "x"]);
    wait_until("and the next", || (0..ranks).all(|rank| received(rank) == "SIGUSR1\nSIGUSR2\n"));
    rig.run(&hosts[1], &["mpdkilljob", "-a", "x"]);
    job.wait().failed().says(&["killed on request"]);
    rig.is_clean("after mpdkilljob", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn no_rank_runs_if_one_host_lacks_the_program() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let trace = rig.share().join("ran");
    let program = "#!/bin/sh\ntouch \"$1\"\n";
    for host in without(&hosts, &[&hosts[2]]) {
        let write = format!("printf '%s' '{program}' >/tmp/here; chmod 755 /tmp/here");
        rig.run(&host, &["sh", "-c", &write]);
    }
    let count = (2 * hosts.len()).to_string();
    let arguments = ["-np", &count, "-ppn", "2", "/tmp/here", &trace.display().to_string()];
    let output = rig.mpirun(&hosts[0], &arguments).output();
    output.code(127).says(&[&hosts[2], "/tmp/here", "No such file"]).brief();
    assert!(!trace.exists(), "a rank ran");
    rig.is_clean("after the start that failed", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn a_host_short_of_descriptors_refuses_a_job_and_continues_to_serve() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    // The daemon of one host is started again with a limit that permits a few ranks.
    let poor = &hosts[2];
    rig.kill_daemon(poor);
    rig.heals("without it", &without(&hosts, &[poor]));
    rig.run(poor, &["bash", "-c", "ulimit -n 128; exec mpd --daemon"]);
    rig.heals("it is back", &hosts);
    let begin = Instant::now();
    let count = (100 * hosts.len()).to_string();
    let output = rig.mpirun(&hosts[0], &["-np", &count, "-ppn", "100", "true"]).output();
    rig.figure(&format!("refused for descriptors after {:.2} s", begin.elapsed().as_secs_f64()));
    output.failed().says(&[poor]);
    rig.is_clean("after the refusal", &hosts);
    let count = (2 * hosts.len()).to_string();
    rig.mpirun(&hosts[0], &["-np", &count, "-ppn", "2", "true"]).output().code(0);
    rig.ends(&hosts[0]);
}

#[test]
fn hopping_processes_on_every_host_are_killed_with_the_job() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 2 * hosts.len();
    let arguments =
        ["-np", &ranks.to_string(), "-ppn", "2", "-a", "x", &helper("t-tree"), "4", "5", "100"];
    let job = rig.mpirun(&hosts[0], &arguments).start();
    wait_until("all trees have begun", || job.stdout().matches("tree ").count() == ranks);
    let begin = Instant::now();
    rig.run(&hosts[1], &["mpdkilljob", "-a", "x"]);
    job.wait().failed();
    rig.figure(&format!("hoppers are gone after {:.2} s", begin.elapsed().as_secs_f64()));
    rig.is_clean("hoppers", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn a_closed_stdout_ends_a_job_on_the_rig_with_code_141() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let count = (2 * hosts.len()).to_string();
    let flood = helper("t-flood");
    let arguments = format!(
        "set -o pipefail; mpirun -np {count} -ppn 2 {flood} | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    );
    let begin = Instant::now();
    assert_eq!(rig.run(&hosts[0], &["bash", "-c", &arguments]).trim(), "141");
    rig.figure(&format!("| head -n 1: over after {:.2} s", begin.elapsed().as_secs_f64()));
    rig.is_clean("after | head", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn a_rank_that_crashes_ends_the_job_on_all_hosts() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let count = (2 * hosts.len()).to_string();
    let arguments = ["-np", &count, "-ppn", "2", &helper("t-exit-with"), "5", "sig11", "sleep"];
    let begin = Instant::now();
    let output = rig.mpirun(&hosts[0], &arguments).output();
    output.code(139).says(&["rank 5", "h3"]);
    rig.figure(&format!("a crash: over after {:.2} s", begin.elapsed().as_secs_f64()));
    rig.is_clean("after the crash", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn hosts_with_a_full_disk_run_jobs_and_a_full_output_file_is_named() {
    let Some((rig, hosts)) = booted(RigOptions { room: Some("1m"), ..RigOptions::default() })
    else {
        return;
    };
    for host in &hosts {
        rig.exec(host, &["sh", "-c", "cat /dev/zero >/tmp/fill"]);
        let more = rig.exec(host, &["sh", "-c", "echo more >>/tmp/fill"]);
        assert!(!more.status.success(), "the disk of {host} is not full");
    }
    let count = (2 * hosts.len()).to_string();
    let output = rig.mpirun(&hosts[0], &["-np", &count, "-ppn", "2", "echo", "there"]).output();
    output.code(0);
    assert_eq!(output.out().lines().count(), 2 * hosts.len(), "{output}");
    let arguments = format!("mpirun -np {count} -ppn 2 echo there >/tmp/full");
    let full = rig.exec(&hosts[0], &["bash", "-c", &arguments]);
    assert_eq!(full.status.code(), Some(125), "{}", crate::rig::text(&full));
    assert!(crate::rig::text(&full).contains("No space left"), "{}", crate::rig::text(&full));
    rig.is_clean("with full disks", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn signals_to_mpirun_reach_sixty_four_ranks_once_including_stop_and_continue() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let directory = rig.share().join("signals");
    std::fs::create_dir(&directory).expect("a directory");
    let (count, place) = ((8 * hosts.len()).to_string(), directory.display().to_string());
    let arguments = ["-np", &count, "-ppn", "8", &helper("t-signals"), &place, "200"];
    let running = rig.mpirun(&hosts[0], &arguments).start();
    let job = crate::hosts::Job { running, host: hosts[0].clone(), directory: directory.clone() };
    job.is_ready(8 * hosts.len());
    let console = job.console(&rig);
    let received = |rank: usize| {
        std::fs::read_to_string(directory.join(format!("got.{rank}"))).unwrap_or_default()
    };
    let all = |wanted: &str| {
        let wanted = wanted.to_owned();
        wait_until("all got it", || (0..8 * hosts.len()).all(|rank| received(rank) == wanted));
    };
    process::send(console.pid, Signal::SIGUSR1);
    all("SIGUSR1\n");
    job.suspend(&rig);
    let ranks = || -> Vec<Process> {
        let found = rig.processes(&hosts).into_iter().map(|found| found.process);
        found.filter(|process| process.runs("t-signals")).collect()
    };
    assert_eq!(ranks().len(), 8 * hosts.len());
    assert!(ranks().iter().all(Process::is_stopped), "all ranks must be stopped before mpirun");
    process::send(console.pid, Signal::SIGCONT);
    all("SIGUSR1\nSIGTSTP\nSIGCONT\n");
    process::send(console.pid, Signal::SIGWINCH);
    all("SIGUSR1\nSIGTSTP\nSIGCONT\nSIGWINCH\n");
    job.stop();
    job.running.wait().code(0);
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn shared_memory_of_ranks_on_many_hosts_is_removed() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let count = hosts.len().to_string();
    let arguments = ["-np", &count, "-ppn", "1", "-a", "x", &helper("t-ipc"), "wait"];
    let job = rig.mpirun(&hosts[0], &arguments).start();
    wait_until("all have made theirs", || job.stdout().lines().count() == hosts.len());
    let made = |host: &str| {
        rig.run(host, &["sh", "-c", "ipcs -a | grep '^0x'; ls /dev/shm"]).lines().count()
    };
    assert!(hosts.iter().all(|host| made(host) >= 4), "something was made");
    rig.run(&hosts[1], &["mpdkilljob", "-a", "x"]);
    job.wait().failed();
    for host in &hosts {
        wait_until("nothing of it is left", || made(host) == 0);
    }
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn thousands_of_ranks_on_sixteen_hosts_start_and_pass_fences_as_one_job() {
    let Some((rig, hosts)) = booted(RigOptions { hosts: Some(16), ..RigOptions::default() }) else {
        return;
    };
    let ranks: usize = sample(480, 10_000);
    let (count, each) = (ranks.to_string(), ranks.div_ceil(hosts.len()).to_string());
    let begin = Instant::now();
    let arguments = ["-np", &count, "-ppn", &each, &helper("t-pmi"), "fences", "1"];
    let output = rig.mpirun(&hosts[0], &arguments).deadline(300).output();
    let took = begin.elapsed().as_secs_f64();
    output.code(0).quiet();
    let said: BTreeSet<String> = output.out().lines().map(str::to_owned).collect();
    let expected: BTreeSet<String> = (0..ranks).map(|rank| format!("fences ok {rank}")).collect();
    assert!(said == expected, "{} ranks met", said.len());
    rig.figure(&format!("{ranks} ranks start, meet twice and end: {took:.2} s"));
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

/// Whether each PID namespace has its own `pid_max`, as since Linux 6.14.
fn pid_max_is_a_hosts_own() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}

#[test]
fn reused_process_ids_direct_no_signal_to_another_job() {
    if !pid_max_is_a_hosts_own() {
        return skip("process ids that come again: needs Linux 6.14");
    }
    let Some((rig, hosts)) = booted(RigOptions { hosts: Some(2), ..RigOptions::default() }) else {
        return;
    };
    for host in &hosts {
        rig.run(host, &["sh", "-c", "echo 400 >/proc/sys/kernel/pid_max"]);
    }
    let directory = rig.share().join("canaries");
    std::fs::create_dir(&directory).expect("a directory");
    let place = directory.display().to_string();
    let arguments = ["-np", "8", "-ppn", "4", &helper("t-signals"), &place, "200"];
    let running = rig.mpirun(&hosts[0], &arguments).start();
    let canaries =
        crate::hosts::Job { running, host: hosts[0].clone(), directory: directory.clone() };
    canaries.is_ready(8);
    // Uses all process ids of its host many times a minute.
    let spin = format!("while [ ! -e {place}/stop ]; do /bin/true; done");
    let churn = rig.mpirun(&hosts[1], &["-np", "2", "-ppn", "1", "sh", "-c", &spin]).start();
    let mut random = Random::new(21);
    let mut code = BTreeSet::new();
    for round in 0..sample(40, 1000) {
        // Some had ended before they were killed.
        let rank = "/bin/true & /bin/true & sleep 0.0$((PMI_RANK + 1)); /bin/true";
        let arguments = ["-np", "8", "-ppn", "4", "-a", "racer", "sh", "-c", rank];
        let job = rig.mpirun(&hosts[round % 2], &arguments).start();
        std::thread::sleep(Duration::from_micros(random.below(120_000) as u64));
        rig.exec(&hosts[(round + 1) % 2], &["mpdkilljob", "-a", "racer"]);
        code.insert(job.wait().exit_code());
    }
    assert_eq!(code, BTreeSet::from([Some(0), Some(137)]), "some were killed, some had ended");
    let received = |rank: usize| std::fs::read_to_string(directory.join(format!("got.{rank}")));
    let received: Vec<String> = (0..8).map(|rank| received(rank).expect("a record")).collect();
    assert!(received.iter().all(String::is_empty), "canaries got signals: {received:?}");
    canaries.stop();
    canaries.running.wait().code(0);
    churn.wait().code(0);
    rig.is_clean("after the jobs", &hosts);
    rig.ends(&hosts[0]);
}
